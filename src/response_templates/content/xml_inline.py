"""Content parser `xml-inline`: tags, found by a regex with the groups `key` and `value`, make an object.

Text between the tags is ignored. A group `type` or `string` in the pattern says how that value is read, for formats
whose tags say so themselves; a group `escaped` around the key says that it is an attribute whose escapes are undone.
A group `closed` behind the value holds the closing tags (`</key>`) that follow it: then elements may hold others.

Invariant: what a pattern matches is decided by `patterns`, the same for delimiters and tags.
Bound: linear in the body for patterns that the automaton knows; others have a limit on their time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..patterns import Found, GuardedPattern, Pattern, compile_pattern
from .base import ContentError
from .json_body import read_json

Read: TypeAlias = "Callable[[str], Any]"


def raw_text(text: str) -> str:
    """The text as it is: what a value is unless something says otherwise."""
    return text


_BY_STRING: Mapping[str, Read] = {"true": raw_text, "false": read_json}  # values of a group `string`


def _reader_for(groups: Mapping[str, str | None], default: Read) -> Read:
    """How the value of a tag is read: as its own `type` or `string` says, else by `default`."""
    kind = groups.get("type")
    if kind:
        return raw_text if kind == "string" else read_json
    return _BY_STRING.get((groups.get("string") or "").lower(), default)


def key_of(groups: Mapping[str, str | None]) -> str | None:
    """The key of a tag; of one that is escaped as Kimi K3 escapes attributes (and not values), what it stands for."""
    key = groups.get("key")
    if key is None or groups.get("escaped") is None:
        return key
    return key.replace("&quot;", '"').replace("&amp;", "&")


@dataclass(frozen=True, slots=True)
class _XmlInline:
    pattern: Pattern | GuardedPattern
    read_value: Read
    collect: Callable[[list[Any]], Any]  # what the values of one key become
    name: str = "xml-inline"
    is_text: bool = False
    strings: None = None

    def parse(self, body: str) -> dict[str, Any]:
        values: dict[str, list[Any]] = {}
        try:
            for found in self.pattern.finditer(body):
                key, value = self.read_tag(found.groups, found.start)
                values.setdefault(key, []).append(value)
        except TimeoutError as error:
            raise ContentError("searching the tags took too long") from error
        return {key: self.collect(each) for key, each in values.items()}

    def read_tag(self, groups: Mapping[str, str | None], start: int) -> tuple[str, Any]:
        key = key_of(groups)
        if key is None:
            raise ContentError(f"the tag at character {start} has no key", start)
        text = groups.get("value", "")
        if text is None:  # the group took no part in the match: there is no value
            return key, None
        try:
            return key, _reader_for(groups, self.read_value)(text)
        except ContentError as error:
            raise ContentError(f"the value of {key[:60]!r}: {error}", start) from error

    def is_whole(self, body: str) -> bool:
        return False

    def has_open_tag(self, body: str) -> bool:
        """Does `body` end inside a tag?"""
        text = body.rstrip()  # white space alone, which a pattern may begin with, is no tag
        try:
            end = 0
            for found in self.pattern.finditer(text):
                end = found.end
            return self.pattern.open_at_end(text[end:])
        except TimeoutError:
            return True


# --- elements in elements (MiniMax M3) -------------------------------------------------------------------------------

MAX_DEPTH = 512
ITEM = "item"  # the elements of a list
_CLOSING = re.compile(r"</([^<>]*)>")


@dataclass(slots=True)
class _Element:
    """An element that is still open: its text up to the first tag in it, and the elements in it."""

    key: str
    text: str
    inside: list[tuple[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Elements(_XmlInline):
    """Elements that hold text, or elements: an object of these, or a list if each is an `item`."""

    def parse(self, body: str) -> dict[str, Any]:
        root = _Element("", "")
        opened = [root]
        end = 0
        try:
            for found in self.pattern.finditer(body):
                _only_space(body[end : found.start], end)
                end = found.end
                self._read_element(found, opened)
        except TimeoutError as error:
            raise ContentError("searching the tags took too long") from error
        _only_space(body[end:], end)
        if len(opened) > 1:
            raise ContentError(f"the element {opened[-1].key[:60]!r} is not closed", len(body))
        return self._object(root)

    def _read_element(self, found: Found, opened: list[_Element]) -> None:
        """A tag that opens an element, its text, and the tags behind it that close this one and others around it."""
        key = key_of(found.groups)
        if key is None:
            raise ContentError(f"the tag at character {found.start} has no key", found.start)
        if len(opened) > MAX_DEPTH:
            raise ContentError(f"more than {MAX_DEPTH} elements in each other", found.start)
        opened.append(_Element(key, found.groups.get("value") or ""))
        for name in _CLOSING.findall(found.groups.get("closed") or ""):
            if name != opened[-1].key or len(opened) == 1:
                raise ContentError(f"</{name[:60]}> closes no element that is open", found.end)
            done = opened.pop()
            opened[-1].inside.append((done.key, self._value(done)))

    def _value(self, element: _Element) -> Any:
        if not element.inside:
            return self.read_value(element.text)
        _only_space(element.text, None)
        if all(key == ITEM for key, _ in element.inside):
            return [value for _, value in element.inside]
        return self._object(element)

    def _object(self, element: _Element) -> dict[str, Any]:
        values: dict[str, list[Any]] = {}
        for key, value in element.inside:
            values.setdefault(key, []).append(value)
        return {key: self.collect(each) for key, each in values.items()}


def _only_space(text: str, place: int | None) -> None:
    if text.strip():
        raise ContentError(f"text beside elements: {text.strip()[:60]!r}", place)


def has_elements(tag_pattern: str) -> bool:
    """Is it a pattern of elements that may hold others?"""
    return "(?P<closed>" in tag_pattern


def _last(values: list[Any]) -> Any:
    return values[-1]


def _merged(values: list[Any]) -> Any:
    return values if len(values) > 1 else values[0]


def xml_inline_parser(args: Mapping[str, Any], compile_value: Callable[[Mapping[str, Any]], Read]) -> _XmlInline:
    """The parser for `content_args` (`tag_pattern`, `value_parser`, `merge_duplicates`).

    Args:
        compile_value: gives the function that a `value_parser` is.
    """
    value_parser = args.get("value_parser")
    kind = _Elements if has_elements(args["tag_pattern"]) else _XmlInline
    return kind(
        pattern=compile_pattern(args["tag_pattern"]),
        read_value=raw_text if value_parser is None else compile_value(value_parser),
        collect=_merged if args.get("merge_duplicates") else _last,
    )
