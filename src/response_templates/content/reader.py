"""Reading nested values (objects, lists, strings, numbers, words) in one pass, without recursion.

JSON, the arguments of Python calls and Python literals differ only in a `Notation`: how strings are written, which
words and numbers there are, what a key may be. The notation is data; the reader is one loop over the open containers.

Invariant: no text is special to the implementation, and nothing but `ContentError` is raised.
Bound: linear in the text; containers are nested at most `Notation.max_depth` deep.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .base import error_at
from .strings import closing_quote, opening_pattern

StringReader: TypeAlias = "Callable[[str, int], tuple[str, int]]"  # (text, behind the opening marker) → (string, end)

MAX_DIGITS = 4300  # of an int: Python's own limit, kept also where that is switched off or not there yet

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD = re.compile(r"\w+")
_CLOSING = {"{": "}", "[": "]"}


@dataclass(frozen=True, slots=True)
class Notation:
    """How values are written.

    Attributes:
        strings: for each marker that opens a string, what reads it.
        words: values that are written as words.
        integer: the value of an integer's text; raises `ValueError` where it is too large.
        max_depth: how deep containers may be nested.
        bare_key: what a key without quotes may look like; None: keys are strings.
        trailing_commas: may a comma stand before the closing bracket?
        unique_keys: is a key that comes twice an error (or does the later value win)?
    """

    strings: Mapping[str, StringReader]
    words: Mapping[str, Any]
    integer: Callable[[str], int]
    max_depth: int
    bare_key: re.Pattern[str] | None = None
    trailing_commas: bool = False
    unique_keys: bool = False
    opening: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "opening", opening_pattern(list(self.strings)))


# --- numbers -----------------------------------------------------------------------------------------------------


def bounded_int(text: str) -> int:
    """`int(text)`, which is quadratic in the digits, for at most `MAX_DIGITS` of them.

    Raises:
        ValueError: it has more, or is no integer.
    """
    if len(text.lstrip("+-")) > MAX_DIGITS:
        raise ValueError(f"an integer of {len(text)} digits is too large")
    return int(text)


def finite_float(text: str) -> float:
    """`float(text)`.

    Raises:
        ValueError: it is too large for a float, not a number, or infinite.
    """
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("the number is too large")
    return value


# --- strings -----------------------------------------------------------------------------------------------------

_SURROGATE = re.compile("[\ud800-\udfff]")
JSON_ESCAPES: Mapping[str, str] = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
JSON_CODES: Mapping[str, int] = {"u": 4}  # escapes that give a character's number: letter and how many hex digits
PYTHON_CODES: Mapping[str, int] = {"u": 4, "x": 2, "U": 8}


def _escape_pattern(codes: Mapping[str, int]) -> re.Pattern[str]:
    numbers = "|".join(f"{letter}[0-9a-fA-F]{{{digits}}}" for letter, digits in codes.items())
    return re.compile(
        rf"\\(?:u([dD][89abAB][0-9a-fA-F]{{2}})\\u([dD][c-fC-F][0-9a-fA-F]{{2}})|({numbers})|(.))", re.DOTALL
    )


def quoted_string(
    quote: str, escapes: Mapping[str, str], lone_surrogate: str | None, codes: Mapping[str, int] = JSON_CODES
) -> StringReader:
    """Reads a string that `quote` closes, with the one-character `escapes` and numbers of characters (`\\uXXXX`).

    Args:
        lone_surrogate: what an unpaired surrogate escape stands for; None: it is an error.
        codes: the letters of escapes with a number, and how many digits follow each.
    """
    escape = _escape_pattern(codes)

    def read(text: str, begin: int) -> tuple[str, int]:
        end = closing_quote(text, begin, quote)[0]
        if end < 0:
            raise error_at("this string never ends", text, begin - 1)
        raw = text[begin:end]
        return (unescape(raw, text, begin) if "\\" in raw else raw), end + 1

    def unescape(raw: str, text: str, begin: int) -> str:
        def replace(match: re.Match[str]) -> str:
            high, low, code, char = match.groups()
            if high is not None:
                return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
            if code is not None:
                number = int(code[1:], 16)
                if number > sys.maxunicode:
                    raise error_at(f"no such character: {match[0]!r}", text, begin + match.start())
                value = chr(number)
                if not _SURROGATE.match(value):
                    return value
                if lone_surrogate is not None:
                    return lone_surrogate
                raise error_at("a lone surrogate escape", text, begin + match.start())
            if char not in escapes:
                raise error_at(f"no such escape: {match[0]!r}", text, begin + match.start())
            return escapes[char]

        return escape.sub(replace, raw)

    return read


def no_surrogates(read: StringReader) -> StringReader:
    """As `read`, but surrogates in a string are errors."""

    def checked(text: str, begin: int) -> tuple[str, int]:
        value, end = read(text, begin)
        surrogate = _SURROGATE.search(text, begin, end)
        if surrogate is not None:
            raise error_at("a lone surrogate in a string", text, surrogate.start())
        return value, end

    return checked


def raw_string(closing: str) -> StringReader:
    """Reads a string that only the marker `closing` ends; nothing in it is an escape."""

    def read(text: str, begin: int) -> tuple[str, int]:
        end = text.find(closing, begin)
        if end < 0:
            raise error_at(f"this string is never closed by {closing!r}", text, max(0, begin - 1))
        return text[begin:end], end + len(closing)

    return read


# --- values ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Open:
    """A container that is being read."""

    container: dict[str, Any] | list[Any]
    closing: str
    key: str = ""

    def put(self, value: Any) -> None:
        if isinstance(self.container, dict):
            self.container[self.key] = value
        else:
            self.container.append(value)


def skip_space(text: str, at: int) -> int:
    """The offset of the next character that is no white space (space, tab, line feed, carriage return)."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def read_value(text: str, at: int, notation: Notation) -> tuple[Any, int]:
    """The value that begins at `at` (or after white space there), and the offset behind it.

    Raises:
        ContentError: there is none, or it is not well-formed.
    """
    opened: list[_Open] = []
    while True:
        at = skip_space(text, at)
        char = text[at : at + 1]
        if char in _CLOSING and not notation.opening.match(text, at):
            if len(opened) >= notation.max_depth:
                raise error_at(f"nested more than {notation.max_depth} levels deep", text, at)
            opened.append(_Open({} if char == "{" else [], _CLOSING[char]))
            at = skip_space(text, at + 1)
            if not text.startswith(_CLOSING[char], at):
                at = _next_item(text, at, opened[-1], notation)
                continue
            value: Any = opened.pop().container
            at += 1
        else:
            value, at = _read_scalar(text, at, notation)
        value, at, whole = _put(value, text, at, opened, notation)
        if whole:
            return value, at


def _put(value: Any, text: str, at: int, opened: list[_Open], notation: Notation) -> tuple[Any, int, bool]:
    """Put a value where it belongs, and close what closes after it. The last result: was that the outermost value?"""
    while opened:
        innermost = opened[-1]
        innermost.put(value)
        at = skip_space(text, at)
        if text.startswith(",", at):
            after = skip_space(text, at + 1)
            if not (notation.trailing_commas and text.startswith(innermost.closing, after)):
                return None, _next_item(text, after, innermost, notation), False
            at = after
        if not text.startswith(innermost.closing, at):
            raise error_at(f"expected ',' or {innermost.closing!r}", text, at)
        value = opened.pop().container
        at += 1
    return value, at, True


def _next_item(text: str, at: int, innermost: _Open, notation: Notation) -> int:
    """The offset where the next value of a container begins; in an object its key comes first."""
    if not isinstance(innermost.container, dict):
        return at
    key, after = _read_key(text, at, notation)
    if notation.unique_keys and key in innermost.container:
        raise error_at(f"the key {key[:60]!r} comes twice", text, at)
    after = skip_space(text, after)
    if not text.startswith(":", after):
        raise error_at("expected ':'", text, after)
    innermost.key = key
    return after + 1


def _read_key(text: str, at: int, notation: Notation) -> tuple[str, int]:
    opening = notation.opening.match(text, at)
    if opening is not None:
        return notation.strings[opening[0]](text, opening.end())
    bare = notation.bare_key.match(text, at) if notation.bare_key is not None else None
    if bare is None:
        raise error_at("expected a key" if notation.bare_key else "expected a key in quotes", text, at)
    return bare[0], bare.end()


def _read_scalar(text: str, at: int, notation: Notation) -> tuple[Any, int]:
    opening = notation.opening.match(text, at)
    if opening is not None:
        return notation.strings[opening[0]](text, opening.end())
    number = _NUMBER.match(text, at)
    if number is not None:
        return _number(number, text, notation), number.end()
    word = _WORD.match(text, at)
    if word is not None and word[0] in notation.words:
        return notation.words[word[0]], word.end()
    raise error_at("expected a value", text, at)


def _number(match: re.Match[str], text: str, notation: Notation) -> int | float:
    try:
        if match[1] is None and match[2] is None:
            return notation.integer(match[0])
        return finite_float(match[0])
    except ValueError as error:
        raise error_at("the number is too large", text, match.start()) from error


def read_all(text: str, notation: Notation) -> Any:
    """The value that `text` is, but for white space around it.

    Raises:
        ContentError: it is none, or more than one.
    """
    value, end = read_value(text, 0, notation)
    end = skip_space(text, end)
    if end < len(text):
        raise error_at("unexpected text after the value", text, end)
    return value


def string_readers(quotes: Mapping[str, StringReader], pairs: Iterable[Sequence[str]]) -> dict[str, StringReader]:
    """`quotes`, and a raw string for each (open, close) of `pairs`."""
    return {**quotes, **{opening: raw_string(closing) for opening, closing in pairs}}


__all__ = [
    "JSON_CODES",
    "JSON_ESCAPES",
    "PYTHON_CODES",
    "Notation",
    "StringReader",
    "bounded_int",
    "finite_float",
    "no_surrogates",
    "quoted_string",
    "read_all",
    "read_value",
    "skip_space",
    "string_readers",
]
