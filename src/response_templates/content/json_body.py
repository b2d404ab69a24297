"""Content parser `json`: JSON, and the near-JSON of models that write keys without quotes or strings in markers.

Plain JSON is read by the standard library's C scanner. Where that refuses a text, or must not be asked (surrogate
escapes, deep nesting, a dialect), the own reader decides; so an error always says where.

Invariant: values are those of `json.loads(strict=False)`, but every number is finite, no escape makes a lone surrogate
(it becomes U+FFFD), and all that a text can cause is `ContentError`.
Bound: linear; nested at most `MAX_DEPTH` deep. (The standard library gives up below 1,000 levels, where exactly depends
on the caller's stack; a value near that can't be copied or printed by Python either.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .base import ContentError
from .reader import JSON_ESCAPES, Notation, bounded_int, finite_float, quoted_string, read_all, string_readers
from .strings import StringDialect, string_dialect

MAX_DEPTH = 512

JSON_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None}
# Where keys are written without quotes (Gemma 4), templates written for Python print its words.
LENIENT_WORDS: Mapping[str, Any] = {**JSON_WORDS, "True": True, "False": False, "None": None}
# An identifier; names of parameters have dashes and dots, too, and keys of objects spaces.
BARE_KEY = re.compile(r"[\w$][\w$.-]*(?: +[\w$.-]+)*")

_STRINGS_AND_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]+|[\]}]+', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def json_notation(string_delims: Iterable[Sequence[str]] = (), bare_key: re.Pattern[str] | None = None) -> Notation:
    """JSON, with strings in further markers and (if `bare_key` is given) keys without quotes."""
    quotes = {'"': quoted_string('"', JSON_ESCAPES, lone_surrogate="\ufffd")}
    words = JSON_WORDS if bare_key is None else LENIENT_WORDS
    return Notation(string_readers(quotes, string_delims), words, bounded_int, MAX_DEPTH, bare_key)


JSON = json_notation()


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    strict=False, parse_int=bounded_int, parse_float=finite_float, parse_constant=_refuse_constant
)


def _is_shallow(text: str) -> bool:
    """Is `text` nested at most `MAX_DEPTH` deep? (If it is not JSON, either answer will do.)"""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return True
    depth = 0
    for match in _STRINGS_AND_BRACKETS.finditer(text):
        token = match[0]
        if token[0] in "[{":
            depth += len(token)
            if depth > MAX_DEPTH:
                return False
        elif token[0] in "]}":
            depth -= len(token)
    return True


def read_json(text: str, notation: Notation = JSON) -> Any:
    """The value of `text`.

    Args:
        notation: one in which plain JSON has its usual value.

    Raises:
        ContentError: it is not JSON of that notation.
    """
    if _is_shallow(text) and not _SURROGATE_ESCAPE.search(text):
        try:
            return _DECODER.decode(text)
        except (ValueError, RecursionError):  # the reader below says what is wrong, and where
            pass
    return read_all(text, notation)


@dataclass(frozen=True, slots=True)
class _Json:
    notation: Notation
    strings: StringDialect
    name: str = "json"
    is_text: bool = False

    def parse(self, body: str) -> Any:
        return read_all(body, self.notation) if self.strings.pairs else read_json(body, self.notation)

    def is_whole(self, body: str) -> bool:
        try:
            value = self.parse(body)
        except ContentError:
            return False
        return isinstance(value, bool) or not isinstance(value, (int, float))  # a number may have had more digits


@dataclass(frozen=True, slots=True)
class _JsonOrText:
    """What is not JSON is text."""

    json: _Json
    strings: StringDialect
    name: str = "json"
    is_text: bool = False

    def parse(self, body: str) -> Any:
        try:
            return self.json.parse(body)
        except ContentError:
            return body.strip()

    def is_whole(self, body: str) -> bool:
        return self.json.is_whole(body)


def json_parser(args: Mapping[str, Any]) -> _Json | _JsonOrText:
    """The parser for `content_args` (`unquoted_keys`, `string_delims`, `allow_non_json`)."""
    delimiters = args.get("string_delims") or ()
    notation = json_notation(delimiters, BARE_KEY if args.get("unquoted_keys") else None)
    parser = _Json(notation, string_dialect(('"',), delimiters))
    return _JsonOrText(parser, parser.strings) if args.get("allow_non_json") else parser
