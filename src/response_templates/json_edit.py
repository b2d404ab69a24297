"""One member of a JSON file's object is set or removed; every other byte stays as it is.

The file is never written anew from its values: the places of its members are found in its text, and the one member is
put in, replaced or cut out there. So order, indentation, line ends, escapes, a byte order mark, numbers and duplicate
keys stay, and the diff that a reviewer sees is the lines of the member.

Where the member goes
    In front of another member, since behind the last one that one's line would change, too (it gets a comma). In a file
    whose keys are sorted, where it belongs by its name, except at the very end; else before the last member. It is
    written as the file is: its line ends, indentation and separators, with escapes or raw characters, its keys sorted
    if the file's are. An object without members takes it right behind its brace.

Invariant: `without_member(with_member(data, key, value), key) == data` if `data` has no such key.
Bound: the file is read once, by the standard library's decoder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

from .errors import ConfigError

_BOM = "\ufeff"
_SPACE = re.compile(r"[ \t\n\r]*")
_LINE_END = re.compile(r"\r\n|\n|\r")
_WIDE_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u(?!00[0-7])[0-9a-fA-F]{4}")
_SURROGATE = re.compile("[\ud800-\udfff]")
SORTED_FROM = 3  # members, below which an order says nothing

LONGEST_INTEGER = 4_000  # digits

MISSING: Any = object()  # in place of a member that isn't there


def members_of(data: bytes) -> dict[str, Any]:
    """The members of the object in `data`; of several with the same key the last.

    Raises:
        ConfigError: `data` is not a JSON object.
    """
    document = _read(data)
    members: dict[str, Any] = json.loads(document.text.removeprefix(_BOM), parse_int=_number)
    return members


def with_member(data: bytes, key: str, value: Any) -> bytes:
    """`data` with the member `key` set to `value`: added, or its value replaced (that of the last, if there are more).

    Raises:
        ConfigError: `data` is not a JSON object.
    """
    document = _read(data)
    found = document.named(key)
    style = _style_of(_read(without_member(data, key)) if found else document)
    if found:
        begin, end, new = found[-1].value_begin, found[-1].value_end, style.value(value)
    elif document.members:
        begin, new = _beside(document, style, key, value)
        end = begin
    else:
        begin = end = document.inside
        new = style.first(key, value)
    return _encoded(document.text[:begin] + new + document.text[end:])


def without_member(data: bytes, key: str) -> bytes:
    """`data` without the member `key` (without all, if there are several). Unchanged if there is none.

    Raises:
        ConfigError: `data` is not a JSON object.
    """
    document = _read(data)
    text = document.text
    gone = document.named(key)
    if not gone:
        return data
    kept = [number for number, member in enumerate(document.members) if member not in gone]
    if not kept:
        return _encoded(text[: document.inside] + text[document.members[-1].value_end :])
    # Up to the next key, or from the last value that stays on: that is what `with_member` puts in.
    cuts = [(one.begin, after.begin) for one, after in pairwise(document.members[: kept[-1] + 1]) if one in gone]
    cuts.append((document.members[kept[-1]].value_end, document.members[-1].value_end))
    for begin, end in reversed(cuts):
        text = text[:begin] + text[end:]
    return _encoded(text)


# --- where things are ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of the object, by positions in the text."""

    key: str
    begin: int  # of the key
    colon_begin: int  # behind the key
    value_begin: int
    value_end: int


@dataclass(frozen=True, slots=True)
class _Document:
    """A JSON text whose value is an object."""

    text: str  # with a byte order mark, if there is one
    inside: int  # behind the object's brace
    members: tuple[_Member, ...]

    def named(self, key: str) -> tuple[_Member, ...]:
        return tuple(member for member in self.members if member.key == key)

    def gap(self, number: int) -> str:
        """What stands before the member, behind the comma or brace."""
        begin = self.members[number].begin
        return self.text[len(self.text[:begin].rstrip(" \t\n\r")) : begin]


def _refuse(text: str, at: int, what: str) -> NoReturn:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    raise ConfigError(f"not valid JSON: {what} at line {line}, column {column}")


def _number(digits: str) -> int | float:
    """An integer, however long: Python reads none of more than a few thousand digits."""
    return int(digits) if len(digits) < LONGEST_INTEGER else float(digits)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


# Numbers are only passed over; as text they may be as long as they like.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant)


def _read(data: bytes) -> _Document:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"not valid JSON: not UTF-8 at byte {error.start}") from error
    at = _skip(text, 1 if text.startswith(_BOM) else 0)
    if text[at : at + 1] != "{":
        _decoded(text, at)
        raise ConfigError("not a JSON object")
    members = tuple(_members(text, at + 1))
    end = members[-1].value_end if members else at + 1
    rest = _skip(text, _skip(text, end) + 1)
    if rest != len(text):
        _refuse(text, rest, "more text behind the object")
    return _Document(text, at + 1, members)


def _members(text: str, at: int) -> Iterator[_Member]:
    """The members from `at` (behind the brace) up to the closing brace."""
    at = _skip(text, at)
    if text[at : at + 1] == "}":
        return
    while True:
        begin = at
        if text[at : at + 1] != '"':
            _refuse(text, at, "a key is missing")
        key, colon = _decoded(text, at)
        at = _skip(text, colon)
        if text[at : at + 1] != ":":
            _refuse(text, at, "':' is missing")
        value_begin = _skip(text, at + 1)
        _, value_end = _decoded(text, value_begin)
        yield _Member(key, begin, colon, value_begin, value_end)
        at = _skip(text, value_end)
        if text[at : at + 1] == "}":
            return
        if text[at : at + 1] != ",":
            _refuse(text, at, "',' or '}' is missing")
        at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _decoded(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        _refuse(text, error.pos, error.msg)
    except (ValueError, RecursionError) as error:
        _refuse(text, at, "nested too deep" if isinstance(error, RecursionError) else str(error))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8")


# --- how the file is written ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Style:
    """How a file writes its members.

    Attributes:
        line_end: what ends its lines; empty if the members are all on one line.
        margin: white space before a member of the object.
        indent: white space by which a level is set off.
        colon: between a key and its value.
        comma: between members that share a line.
        ascii_only: other characters are escaped.
        sort_keys: keys are in order.
    """

    line_end: str
    margin: str
    indent: str
    colon: str
    comma: str
    ascii_only: bool
    sort_keys: bool

    def value(self, value: Any) -> str:
        indent = self.indent if self.line_end else None
        separators = ("," if self.line_end else self.comma, self.colon)
        text = json.dumps(
            value, indent=indent, separators=separators, ensure_ascii=self.ascii_only, sort_keys=self.sort_keys
        )
        text = _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)  # which UTF-8 cannot hold
        return text.replace("\n", self.line_end + self.margin) if self.line_end else text

    def member(self, key: str, value: Any) -> str:
        return json.dumps(key, ensure_ascii=self.ascii_only) + self.colon + self.value(value)

    def first(self, key: str, value: Any) -> str:
        """The only member of an object."""
        return self.line_end + self.margin + self.member(key, value) if self.line_end else self.member(key, value)


def _style_of(document: _Document) -> _Style:
    text = document.text
    gap = document.gap(0) if document.members else text[document.inside : len(text.rstrip().removesuffix("}"))]
    lines = _LINE_END.findall(gap)
    margin = _LINE_END.split(gap)[-1] if lines else ""
    if lines and not document.members:
        margin = margin + "  "
    keys = [member.key for member in document.members]
    return _Style(
        line_end=lines[-1] if lines else "",
        margin=margin,
        indent=_indent(margin, text, document.inside),
        colon=_colon(document),
        comma=_comma(document),
        ascii_only=text.isascii() and _WIDE_ESCAPE.search(text) is not None,
        sort_keys=len(keys) >= SORTED_FROM and keys == sorted(keys),
    )


def _indent(margin: str, text: str, inside: int) -> str:
    """The margin of a member, less that of the object's own line."""
    before = _LINE_END.split(text[: inside - 1])[-1].lstrip(_BOM)
    return margin.removeprefix(before) if before.isspace() else margin


def _colon(document: _Document) -> str:
    if not document.members:
        return ": "
    first = document.members[0]
    between = document.text[first.colon_begin : first.value_begin]
    return ": " if _LINE_END.search(between) else between


def _comma(document: _Document) -> str:
    if len(document.members) < 2:
        return "," if _colon(document) == ":" else ", "
    between = document.text[document.members[0].value_end : document.members[1].begin]
    return ", " if _LINE_END.search(between) else between


def _beside(document: _Document, style: _Style, key: str, value: Any) -> tuple[int, str]:
    """Where the member goes, in front of another one, and its text with all up to that one."""
    last = len(document.members) - 1
    behind = sum(member.key < key for member in document.members) if style.sort_keys else last
    number = min(behind, last)
    if last:
        neighbour = max(number, 1)
        between = document.text[document.members[neighbour - 1].value_end : document.members[neighbour].begin]
    else:
        between = "," + document.gap(number) if style.line_end else style.comma
    return document.members[number].begin, style.member(key, value) + between
