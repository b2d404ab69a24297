"""The tags of `xml-inline` and the lines of `kv-lines`, read while they are being written.

A tag pattern says what a whole tag is. To show a value before its tag is whole, the pattern is taken apart where its
group `value` stands: what comes before is the head, what comes behind the tail. Once the head has matched, the value
has begun, and it ends where the tail first matches; so text that can't be the beginning of a tail is part of the value.
That is so if the value is any text, as short as can be (`.*?`, as in all tags that families write): such a tag can't
turn out to be none while it is written. The values of other patterns are shown when their tag is whole.

Invariant: as in `live_values`; what a whole tag means is left to the content parser.
Bound: linear in the body for patterns that the machine knows; others show nothing before the body is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .. import syntax
from ..automaton import Machine
from ..buffer import TextBuffer
from ..captures import Tracker
from ..search import Match, Search
from ..syntax import ANY, Capture, Node, Repeat, Sequence
from .base import ContentError
from .growing import GROWING, NOTHING, GrowingObject, GrowingText
from .json_body import JSON
from .live_values import LiveNested, LiveReader, LiveText, held_beginning
from .xml_inline import key_of

NewReader = Callable[[], LiveReader]
ValueOf = Callable[[Mapping[str, "str | None"]], "LiveReader | None"]
ReadTag = Callable[[Mapping[str, "str | None"], int], "tuple[str, Any]"]


# --- tag patterns ----------------------------------------------------------------------------------------------------


class _Part:
    """A pattern with its machine."""

    def __init__(self, node: Node) -> None:
        self.machine = Machine([node])
        self.tracker = Tracker(self.machine, 0)

    def search(self, at: int, context: str) -> Search:
        return Search(self.machine, at, context[-self.machine.width :] if self.machine.width else "")


@dataclass(frozen=True, slots=True)
class TagPattern:
    """A tag pattern, taken apart. `head` and `tail` are None where a value can't be told before its tag is whole."""

    whole: _Part
    head: _Part | None
    tail: _Part | None

    @property
    def width(self) -> int:
        """Characters before a place that lookbehinds ask for."""
        return max(part.machine.width for part in (self.whole, self.head, self.tail) if part is not None)


def tag_pattern(source: str) -> TagPattern | None:
    """The pattern `source`, or None if the machine can't follow it."""
    try:
        node = syntax.parse(source)
    except syntax.Unsupported:
        return None
    items = node.items if isinstance(node, Sequence) else (node,)
    for number, item in enumerate(items):
        if isinstance(item, Capture) and item.name == "value":
            head, tail = items[:number], items[number + 1 :]
            if _is_any_text(item.item) and "key" in _names(head) and not _names(tail) & {"type", "string"}:
                return TagPattern(_Part(node), _Part(Sequence(head)), _Part(Sequence(tail)))
    return TagPattern(_Part(node), None, None)


def _is_any_text(value: Node) -> bool:
    """Is it `.*?`? Then the value ends where the tail first matches."""
    if isinstance(value, Sequence) and len(value.items) == 1:
        value = value.items[0]
    return isinstance(value, Repeat) and value == Repeat(ANY, 0, None, greedy=False)


def _names(items: tuple[Node, ...]) -> set[str]:
    """The groups that are always part of a match."""
    return {item.name for item in items if isinstance(item, Capture)}


# --- tags ------------------------------------------------------------------------------------------------------------


class _OpenTag:
    """A tag that is being written: its head, then its value up to where the tail may have begun."""

    __slots__ = ("_ahead", "_context", "_pattern", "_search", "_value_of", "begin", "key", "over", "reader", "shown")

    def __init__(self, pattern: TagPattern, value_of: ValueOf, begin: int, context: str) -> None:
        self._pattern = pattern
        self._value_of = value_of
        self._ahead = TextBuffer(begin)  # what is not read as part of the value
        self._context = context
        self._search = pattern.head.search(begin, context) if pattern.head is not None else None
        self.begin = begin
        self.key = ""
        self.reader: LiveReader | None = None
        self.shown = False  # is it in the object?
        self.over = pattern.head is None  # there is nothing more to be told before the tag is whole

    def feed(self, text: str) -> None:
        if not self.over:
            self._ahead.append(text)
            if self.reader is None:
                self._read_head()
            if self.reader is not None and not self.over:
                self._read_value()

    def _read_head(self) -> None:
        search, pattern = self._search, self._pattern
        assert search is not None and pattern.head is not None and pattern.tail is not None
        match = _read_on(search, self._ahead)
        if match is None or match.start != self.begin:
            self.over = match is not None or search.held_from != self.begin
            return
        text = self._ahead.peek(search.position)
        groups = pattern.head.tracker.groups(match, text, self.begin, self._context, at_end=False)
        key, self.reader = key_of(groups), self._value_of(groups)
        self.over = key is None or self.reader is None
        self.key = key or ""
        before = self._context + self._ahead.take(match.end)
        self._search = pattern.tail.search(match.end, before)

    def _read_value(self) -> None:
        assert self._search is not None and self.reader is not None
        match = _read_on(self._search, self._ahead)
        free = match.start if match is not None else self._search.held_from
        if free > self._ahead.start:
            self.reader.feed(self._ahead.take(free))
        self.over = match is not None


def _read_on(search: Search, buffer: TextBuffer) -> Match | None:
    """Feed a search what it has not read; its match, once that is settled."""
    match = search.settled()
    if match is None:
        for piece, offset in buffer.read(search.position):
            search.feed(piece, offset)
            match = search.settled()
            if match is not None:
                break
    return match


class LiveTags:
    """The tags of a body as an object.

    Attributes:
        steps: characters read, by each of the searches: what a complexity test counts.
    """

    __slots__ = (
        "_buffer",
        "_context",
        "_new_value",
        "_open",
        "_pattern",
        "_read_tag",
        "_search",
        "failed",
        "root",
        "steps",
    )

    def __init__(self, pattern: TagPattern, new_value: NewReader | None, read_tag: ReadTag) -> None:
        self._pattern = pattern
        self._new_value = new_value
        self._read_tag = read_tag
        self._buffer = TextBuffer()  # what no settled tag has
        self._context = ""
        self._search = pattern.whole.search(0, "")
        self._open: _OpenTag | None = None
        self.root = GrowingObject()
        self.failed = False
        self.steps = 0

    def feed(self, text: str) -> None:
        if self.failed or not text:
            return
        self.steps += len(text)
        self._buffer.append(text)
        try:
            match = _read_on(self._search, self._buffer)
            while match is not None:
                self._settle(match)
                match = _read_on(self._search, self._buffer)
            self._show_open(text)
        except (ContentError, TimeoutError):
            self.failed = True

    def _settle(self, match: Match) -> None:
        """A tag is whole."""
        self._drop(match.start)
        text, whole = self._buffer.peek(self._search.position), self._pattern.whole
        groups = whole.tracker.groups(match, text, match.start, self._context, at_end=False)
        self.steps += len(text)
        key, value = self._read_tag(groups, match.start)
        if self._open is not None and self._open.begin == match.start and self._open.shown:
            _finish(self.root.values[-1], value)
            self.root.values[-1] = value
        else:
            self._forget_open()
            self.root.put(key, value)
        self._drop(match.end)
        self._open = None
        blocked = frozenset((0,)) if match.start == match.end else frozenset[int]()
        width = whole.machine.width
        self._search = Search(whole.machine, match.end, self._context[-width:] if width else "", blocked)

    def _show_open(self, text: str) -> None:
        """Show what is known of the tag that has begun; `text` is what came last."""
        held = self._search.held_from
        if self._open is not None and self._open.begin != held:
            self._forget_open()
        self._drop(held)
        if held == self._search.position:
            return
        if self._open is None:
            self._open = _OpenTag(self._pattern, self._value_reader, held, self._context)
            text = self._buffer.text(held)
        tag = self._open
        tag.feed(text)
        self.steps += 2 * len(text)
        root = tag.reader.root if tag.reader is not None else NOTHING
        if tag.shown:
            self.root.values[-1] = root
        elif root is not NOTHING:
            self.root.put(tag.key, root)
            tag.shown = True

    def _forget_open(self) -> None:
        """What seemed to begin a tag doesn't. What is shown of it stays until the region's end puts it right."""
        if self._open is not None and self._open.shown:
            _finish(self.root.values[-1], NOTHING)
        self._open = None

    def _value_reader(self, groups: Mapping[str, str | None]) -> LiveReader | None:
        """How the value of a tag is read, by its own `type` or `string` if it has one (see `xml_inline`)."""
        kind = groups.get("type") or {"true": "string", "false": "json"}.get((groups.get("string") or "").lower())
        if kind:
            return LiveText(strip=False) if kind == "string" else LiveNested(JSON)
        return self._new_value() if self._new_value is not None else None

    def _drop(self, position: int) -> None:
        """The text before `position` is done with."""
        if position > self._buffer.start:
            width = self._pattern.width
            text = self._buffer.take(position)
            self._context = (self._context + text[-width:])[-width:] if width else ""


def _finish(shown: Any, value: Any) -> None:
    """What is shown is complete: it is `value`."""
    if isinstance(shown, GrowingText):
        shown.finish(value)


# --- lines -----------------------------------------------------------------------------------------------------------


class LiveLines:
    """The lines of a body as an object."""

    __slots__ = ("_args", "_held", "_key", "_line", "_new_value", "_read_value", "_reader", "_value", "failed", "root")

    def __init__(self, args: LineArgs) -> None:
        self._args = args
        self._held = ""  # the end of the text so far, if a separator may begin with it
        self._line: list[str] = []  # the line's text where its separator has not come yet
        self._key: str | None = None
        self._value: list[str] = []
        self._reader: LiveReader | None = None
        self.root = GrowingObject()
        self.failed = False

    def feed(self, text: str) -> None:
        if self.failed:
            return
        text = self._held + text
        at, separator = 0, self._args.line_sep
        try:
            while True:
                end = text.find(separator, at)
                if end < 0:
                    break
                self._add(text[at:end], at_end=True)
                self._end_line()
                at = end + len(separator)
            stop = held_beginning(text, at, separator)
            self._held = self._add(text[at:stop], at_end=False) + text[stop:]
        except ContentError:
            self.failed = True

    def _add(self, text: str, *, at_end: bool) -> str:
        """More of a line; returns the end of it that has to come again."""
        if self._key is None:
            separator = self._args.kv_sep
            at = text.find(separator)
            if at < 0:
                stop = len(text) if at_end else held_beginning(text, 0, separator)
                self._line.append(text[:stop])
                return text[stop:]
            key = "".join(self._line) + text[:at]
            self._key = key.strip() if self._args.strip else key
            self._reader = self._args.new_value() if self._args.new_value is not None else None
            text = text[at + len(separator) :]
        self._value.append(text)
        if self._reader is not None:
            self._reader.feed(text)
            self._show(self._reader.root)
        return ""

    def _show(self, value: Any) -> None:
        if value is NOTHING or self._key is None:
            return
        if len(self.root.keys) == len(self.root.values) and self._is_shown():
            self.root.values[-1] = value
        else:
            self.root.put(self._key, value)

    def _is_shown(self) -> bool:
        return bool(self.root.values) and isinstance(self.root.values[-1], GROWING)

    def _end_line(self) -> None:
        if self._key is not None:
            text = "".join(self._value)
            value = self._args.read_value(text.strip() if self._args.strip else text)
            if self._is_shown():
                _finish(self.root.values[-1], value)
            self._show(value)
        self._line, self._key, self._value, self._reader = [], None, [], None


@dataclass(frozen=True, slots=True)
class LineArgs:
    """The arguments of `kv-lines`, and how its values are read, whole and while they are written."""

    line_sep: str
    kv_sep: str
    strip: bool
    read_value: Callable[[str], Any]
    new_value: NewReader | None
