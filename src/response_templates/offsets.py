"""Events that say where they are: `offsets=True`.

`start` and `end` count characters of the generation. A `region_open` is where its delimiter is, a `region_chunk`
where its text is, a `region_close` where its delimiter is (empty where there is none: `start == end`), and a
`region_malformed` is all of its region. Where the prefix pre-wrote something, that counts backwards from 0: an event
in `initial_events` is at negative places, and a delimiter that the prefix began and the generation ended goes from a
negative place to a positive.

The message gets one more key, `offsets`: for each region, in order, where it is with its delimiters (`start`, `end`)
and where its text is (`text_start`, `text_end`).

Invariant: for each chunk `text == generation[start:end]`; the regions don't overlap.
Bound: a constant more for each event. It is a class of its own, so that a parser without offsets pays nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .message import Message
from .parser import Event, ResponseParser, _Region
from .plan import FieldPlan


class Offsets:
    """Mixed into a parser, which has a slot `_regions`: its events get places."""

    __slots__ = ()

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        self._regions: list[dict[str, Any]] = []
        super().__init__(*args, **kwargs)

    def _place(self: Any, event: dict[str, Any], start: int, end: int, name: str = "") -> None:
        """Write positions of the stream into `event`."""
        event[f"{name}start"] = start - self._origin
        event[f"{name}end"] = end - self._origin

    def _located(self: Any, events: list[Event]) -> list[Event]:
        """The events of feeding some text, those that went the fast way placed as well."""
        if events and "start" not in events[0]:  # one chunk that went the fast way: nothing is held
            end = self._buffer.end + sum(map(len, self._pieces[self._fast_from :]))
            self._place(events[0], end - len(events[0]["text"]), end)
        return events

    def _emit(self: Any, text: str, events: list[Event]) -> None:
        before = len(events)
        super()._emit(text, events)  # type: ignore[misc]
        for event in events[before:]:
            if event["type"] == "region_chunk":
                end = self._buffer.start
                self._place(event, end - len(event["text"]), end)

    def _open_region(
        self: Any, plan: FieldPlan, opening: str, begin: int, groups: Mapping[str, str | None], events: list[Event]
    ) -> _Region:
        region: _Region = super()._open_region(plan, opening, begin, groups, events)  # type: ignore[misc]
        self._place(events[-1], begin, begin + len(opening))
        return region

    def _settle(
        self: Any,
        region: _Region,
        closing: str,
        groups: Mapping[str, str | None],
        events: list[Event],
        *,
        cut_off: bool,
    ) -> None:
        text_start = region.begin + len(region.opening)
        text_end = text_start + sum(map(len, region.pieces))
        end = text_end + len(closing)
        record: dict[str, Any] = {"field": region.plan.name}
        self._place(record, region.begin, end)
        self._place(record, text_start, text_end, "text_")
        self._regions.append(record)
        before = len(events)
        super()._settle(region, closing, groups, events, cut_off=cut_off)  # type: ignore[misc]
        for event in events[before:]:
            malformed = event["type"] == "region_malformed"
            self._place(event, region.begin if malformed else text_end, end)

    def _message(self: Any) -> Message:
        message: Message = super()._message()  # type: ignore[misc]
        message["offsets"] = [dict(record) for record in self._regions]
        return message


class OffsetParser(Offsets, ResponseParser):
    """A `ResponseParser` whose events, and message, say where each region is in the generation (see `offsets`)."""

    __slots__ = ("_regions",)

    def feed(self, text: str) -> list[Event]:
        """As `ResponseParser.feed`."""
        return self._located(super().feed(text))
