"""Content parser `python-call-list`: `[name(key=value, …), …]`, or the calls alone without the brackets.

A list that holds JSON objects is read as JSON, and so are objects without a list: models that write Python calls can be
asked for JSON ones (LFM2, Llama 4).

Invariant: only keyword arguments with literal values; nothing is evaluated. Integers are those that every JSON reader
keeps exactly (±(2^53 - 1)). Bound: linear; values are nested at most `MAX_DEPTH` deep.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .base import ContentError, error_at
from .json_body import JSON, read_json
from .reader import (
    JSON_ESCAPES,
    PYTHON_CODES,
    Notation,
    bounded_int,
    no_surrogates,
    quoted_string,
    read_value,
    skip_space,
)
from .strings import StringDialect

MAX_DEPTH = 100
MAX_INTEGER = 2**53 - 1

PYTHON_WORDS: Mapping[str, Any] = {
    "True": True,
    "False": False,
    "None": None,
    "true": True,
    "false": False,
    "null": None,
}

_QUOTES = ("'", '"')
_ESCAPES = {**JSON_ESCAPES, "'": "'"}
CALL_NAME = re.compile(r"[A-Za-z_]\w*(?:[.-]\w+)*", re.ASCII)
_LINE_BREAK = re.compile("[\n\r]")


def _exact_int(text: str) -> int:
    value = bounded_int(text)
    if abs(value) > MAX_INTEGER:
        raise ValueError("not every JSON reader keeps this integer")
    return value


CALLS_NOTATION = Notation(
    strings={quote: no_surrogates(quoted_string(quote, _ESCAPES, None, PYTHON_CODES)) for quote in _QUOTES},
    words=PYTHON_WORDS,
    integer=_exact_int,
    max_depth=MAX_DEPTH,
    unique_keys=True,
)


@dataclass(frozen=True, slots=True)
class _PythonCalls:
    strings: StringDialect
    name: str = "python-call-list"
    is_text: bool = False

    def parse(self, body: str) -> list[dict[str, Any]]:
        begin = skip_space(body, 0)
        if body.startswith("{", begin):
            return _read_bare_objects(body, begin)
        if not body.startswith("[", begin):
            return _read_lines(body, begin)
        if body.startswith("{", skip_space(body, begin + 1)):
            return _read_objects(body)
        calls, end = _read_list(body, skip_space(body, begin + 1))
        end = skip_space(body, end)
        if end < len(body):
            raise error_at("unexpected text after the closing ']'", body, end)
        return calls

    def is_whole(self, body: str) -> bool:
        try:
            self.parse(body)
        except ContentError:
            return False
        return True


def _read_objects(text: str) -> list[dict[str, Any]]:
    """A JSON list of objects."""
    found = read_json(text)
    if not all(isinstance(each, dict) for each in found):
        raise ContentError("expected a list of objects")
    return list(found)


def _read_bare_objects(text: str, at: int) -> list[dict[str, Any]]:
    """JSON objects up to the end, with nothing, white space, commas or semicolons between them."""
    found: list[dict[str, Any]] = []
    while True:
        if not text.startswith("{", at):
            raise error_at("expected an object", text, at)
        value, at = read_value(text, at, JSON)
        found.append(value)
        at = skip_space(text, at)
        if at == len(text):
            return found
        if text[at] in ",;":
            at = skip_space(text, at + 1)


def _read_list(text: str, at: int) -> tuple[list[dict[str, Any]], int]:
    """Calls up to the closing bracket, and the offset behind it."""
    calls: list[dict[str, Any]] = []
    if text.startswith("]", at):
        return calls, at + 1
    while True:
        call, at = _read_call(text, at)
        calls.append(call)
        at = skip_space(text, at)
        if text.startswith("]", at):
            return calls, at + 1
        if not text.startswith(",", at):
            raise error_at("expected ',' or ']'", text, at)
        at = skip_space(text, at + 1)


def _read_lines(text: str, at: int) -> list[dict[str, Any]]:
    """Calls without brackets up to the end, separated by line breaks, commas or semicolons."""
    calls: list[dict[str, Any]] = []
    while True:
        call, end = _read_call(text, at)
        calls.append(call)
        at = skip_space(text, end)
        if at == len(text):
            return calls
        if text[at] in ",;":
            at = skip_space(text, at + 1)
        elif not _LINE_BREAK.search(text, end, at):
            raise error_at("expected a line break, ',' or ';'", text, at)


def _read_call(text: str, at: int) -> tuple[dict[str, Any], int]:
    """The call that begins at `at`, and the offset behind it."""
    name = CALL_NAME.match(text, at)
    if name is None:
        raise error_at("expected the name of a function", text, at)
    at = skip_space(text, name.end())
    if not text.startswith("(", at):
        raise error_at("expected '('", text, at)
    arguments: dict[str, Any] = {}
    at = skip_space(text, at + 1)
    if not text.startswith(")", at):
        at = _read_arguments(text, at, arguments)
    return {"name": name[0], "arguments": arguments}, at + 1


def _read_arguments(text: str, at: int, arguments: dict[str, Any]) -> int:
    """Fill `arguments`; returns the offset of the closing parenthesis."""
    while True:
        key = CALL_NAME.match(text, at)
        after = skip_space(text, key.end()) if key is not None else at
        if key is None or not text.startswith("=", after):
            raise error_at("expected name=value (no positional arguments, no trailing comma)", text, at)
        if key[0] in arguments:
            raise error_at(f"the argument {key[0][:60]!r} comes twice", text, at)
        arguments[key[0]], at = read_value(text, after + 1, CALLS_NOTATION)
        at = skip_space(text, at)
        if text.startswith(")", at):
            return at
        if not text.startswith(",", at):
            raise error_at("expected ',' or ')'", text, at)
        at = skip_space(text, at + 1)


def python_calls_parser(args: Mapping[str, Any]) -> _PythonCalls:
    """The parser; it takes no arguments."""
    return _PythonCalls(StringDialect(_QUOTES))
