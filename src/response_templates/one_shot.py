"""A whole text at once: the message without the machinery of a stream.

When all text is there and nobody asks for events, nothing has to be held, moved or told. What is left of the state
machine (see `parser`) is a loop: find the delimiter that opens a region, find the one that closes it, parse what stands
between. That loop reads what nearly every generation is; where one is out of the ordinary (a body that doesn't parse,
a close inside a string, a call that is cut off, a field that is missing) it gives up, and the state machine reads the
text from its beginning.

Invariant: a message that comes from here is the one that the state machine gives.
Bound: that of the searches and content parsers; giving up costs no more than having read the text once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .content import ContentError, StringTracker
from .delimiters import Delimiter, WatchList
from .message import NO_GROUPS, Message, add_value, assemble, merged_groups
from .plan import FieldPlan, Plan
from .search import Budget, Match
from .shaping import CALLS_FIELD
from .tools import ToolTypes
from .whole import NONE_BLOCKED


def message_of(plan: Plan, text: str, tools: ToolTypes | None = None) -> Message | None:
    """The message that is in all of `text`; None: it is for the state machine to read."""
    if not plan.whole_texts:
        return None
    reader = _Reader(plan, text, tools)
    try:
        reader.read()
    except (_OutOfTheOrdinary, ContentError, TimeoutError):
        return None
    if any(name not in reader.values for name in plan.required):
        return None
    return assemble(plan, reader.values)


class _OutOfTheOrdinary(Exception):
    """Something that only the state machine knows how to treat."""


class _Reader:
    """Reads one text from its beginning to its end."""

    __slots__ = ("_blocked", "_blocked_at", "_budget", "_plan", "_text", "_tools", "values")

    def __init__(self, plan: Plan, text: str, tools: ToolTypes | None) -> None:
        self._plan = plan
        self._text = text
        self._tools = tools
        self._budget = Budget()
        self._blocked: frozenset[tuple[str, str]] = frozenset()
        self._blocked_at = -1
        self.values: dict[str, Any] = {}

    def read(self) -> None:
        plan, text = self._plan, self._text
        implicit, opened = plan.implicit, plan.opened
        at = 0
        while (match := self._find(plan.outside, at)) is not None:
            field = opened[match.pattern]
            if implicit is not None and match.start > at:
                self._end_implicit(implicit, text[at : match.start], match, closes=field is None)
            at = match.end if field is None else self._read_region(field, match)
            if at < 0:
                return
        if implicit is not None and at < len(text):
            end = len(text)
            if implicit.dirty:  # it may end in half a close; opens were watched for as well
                end = self._held_from(implicit.closes, self._held_from(plan.outside, at))
            if end > at:
                self._cut_off(implicit, text[at:end], NO_GROUPS)

    def _find(self, watch: WatchList, at: int) -> Match | None:
        blocked = self._blocked_in(watch, at) if at == self._blocked_at else NONE_BLOCKED
        match, known = watch.find(self._text, at, blocked, 0, self._budget)  # type: ignore[misc]
        if match is None:
            return None
        if match.start == match.end:
            self._block(watch.delimiters[match.pattern], match.end)
        return match if match.groups is not None else self._grouped(watch, match, known)

    def _block(self, delimiter: Delimiter, place: int) -> None:
        """An empty delimiter must not match again at its place."""
        if place != self._blocked_at:
            self._blocked = frozenset()
            self._blocked_at = place
        self._blocked |= {(delimiter.role, delimiter.field)}

    def _grouped(self, watch: WatchList, match: Match, known: int) -> Match:
        """`match` with its groups, for whose sake the text was looked at up to `known`."""
        before = self._text[max(0, match.start - watch.width) : match.start]
        groups = watch.groups(match, self._text[match.start : known], match.start, before, at_end=True)
        return match._replace(groups=groups)

    def _read_region(self, field: FieldPlan, opening: Match) -> int:
        """The region that `opening` opens; returns where it ends, or -1: that is with the text."""
        begin = opening.end
        match = self._find(field.closes, begin)
        if match is None:
            end = self._held_from(field.closes, begin) if field.dirty else len(self._text)
            self._cut_off(field, self._text[begin:end], opening.groups or NO_GROUPS)
            return -1
        body = self._text[begin : match.start]
        self._closed(field, body, merged_groups(opening.groups or NO_GROUPS, match.groups or NO_GROUPS))
        return match.end

    def _end_implicit(self, field: FieldPlan, body: str, match: Match, *, closes: bool) -> None:
        if closes:
            self._closed(field, body, merged_groups(NO_GROUPS, match.groups or NO_GROUPS))
        elif field.name == CALLS_FIELD:
            raise _OutOfTheOrdinary  # nothing closes this call
        else:
            self._add(field, field.parser.parse(body), NO_GROUPS)

    def _closed(self, field: FieldPlan, body: str, groups: Mapping[str, str]) -> None:
        """A delimiter closes the region, if it isn't inside a string of the body."""
        if field.strings is not None and not field.exact:  # else: a body that parses has no open string
            strings = StringTracker(field.strings)
            strings.advance(body)
            if strings.inside:
                raise _OutOfTheOrdinary
        self._add(field, field.parser.parse(body), groups)

    def _cut_off(self, field: FieldPlan, body: str, groups: Mapping[str, str | None]) -> None:
        """The text ends inside the region."""
        if field.name == CALLS_FIELD and not field.is_whole(body):
            raise _OutOfTheOrdinary
        self._add(field, field.parser.parse(body), merged_groups(groups, NO_GROUPS))

    def _held_from(self, watch: WatchList, begin: int) -> int:
        """Where half a delimiter at the end of the text begins: only a search in a stream knows that."""
        before = self._text[max(0, begin - watch.width) : begin]
        search = watch.begin(begin, before, self._blocked_in(watch, begin), self._budget)
        search.feed(self._text, begin)
        return search.held_from

    def _blocked_in(self, watch: WatchList, place: int) -> frozenset[int]:
        return watch.numbers(self._blocked) if self._blocked and place == self._blocked_at else NONE_BLOCKED

    def _add(self, field: FieldPlan, content: Any, groups: Mapping[str, str]) -> None:
        value = field.shape(content, groups)
        if field.field.join is not None and not isinstance(value, str):
            raise _OutOfTheOrdinary
        if self._tools is not None:
            value = field.cast(self._tools, value)
        add_value(self.values, field, value)
