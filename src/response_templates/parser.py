"""The state machine: text in, events and a message out. No I/O, no transformers, no torch.

Theory of operation
    Text is always in one of three states: in an explicit region (one that an open delimiter began), in the implicit
    field's region (all text outside explicit ones), or nowhere (there is no implicit field: it is discarded). In each
    state there is one watch list: inside an explicit region the field's own closes, outside every open and the implicit
    field's close. A search (see `delimiters`) reads the text once, from where the state began, and says either where
    the next delimiter is, settled once and for all, or from where on text has to be held back. Text before that goes to
    the region at once; a settled delimiter changes the state, and the next search begins behind it.

    One thing comes on top: in a region whose body has strings (JSON, Python calls) a close inside a string is text. It
    is withheld, with all that follows, until the string ends (it was text) or the generation does (it was the close).

Everything that changes the state lives in this file. Invariants: every character goes to exactly one place (a
delimiter, a region's body, discarded; see `_note`), and open and close events alternate.
Bound: each character is read by one search and moved once, and again only where a settled delimiter ends before text
that was looked at to settle it, or where a string never ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from . import patterns
from .buffer import TextBuffer
from .content import ContentError, StringDialect, StringTracker
from .delimiters import NoSearch, Search, WatchList
from .errors import InputTypeError, ParseError, ParserFinalizedError, PrefixRequiredError, TemplateError
from .message import NO_GROUPS, Message, add_value, assemble, is_empty, merged_groups
from .one_shot import message_of
from .plan import FieldPlan, Plan, plan_for
from .repair import load_library, repaired_json
from .search import Budget, Match
from .shaping import CALLS_FIELD
from .template import ResponseTemplate, load_template, thaw
from .tools import ToolTypes
from .whole import NONE_BLOCKED, WholeSearch, WholeText

if TYPE_CHECKING:
    from .live import LiveRegion
    from .snapshot import Snapshot

Event: TypeAlias = "dict[str, Any]"
Errors: TypeAlias = Literal["strict", "recover", "repair"]
TemplateSource: TypeAlias = "ResponseTemplate | Mapping[str, Any] | str"

_ERRORS = ("strict", "recover", "repair")
UNREAD: Any = object()
_NONE: frozenset[Any] = frozenset()  # Python makes a new one for each call, of 232 bytes
LOOSE_PIECES = 8  # short strings that an open region keeps before they are joined


@dataclass(slots=True)
class _Withheld:
    """A close delimiter that lies inside a string, and all text since: which it is, only the string's end tells."""

    end: int  # position behind the delimiter
    string: int  # serial number of the string
    pieces: list[str]  # the delimiter first
    groups: Mapping[str, str | None]
    context: str


@dataclass(slots=True)
class _Region:
    """A region that is open."""

    plan: FieldPlan
    opening: str  # the open delimiter as the model wrote it
    begin: int  # position of the open delimiter
    groups: Mapping[str, str | None]
    pieces: list[str] = field(default_factory=list)
    packed: int = 0  # pieces at the front that `pack` is done with
    started: bool = False  # the leading white space is over
    content: Any = UNREAD  # the parsed body, where it had to be read to know that a close is one
    strings: StringTracker | None = None
    lexed: int = 0  # pieces that `strings` has read: they stay as they are
    lexed_size: int = 0  # characters in them
    withheld: _Withheld | None = None

    def body_from(self, position: int) -> str:
        """The text of the body from its character `position` on. Costs what it returns, not what lies before."""
        left = self.lexed_size + sum(map(len, self.pieces[self.lexed :])) - position
        parts: list[str] = []
        for piece in reversed(self.pieces):
            if left <= 0:
                break
            parts.append(piece[-left:])
            left -= len(piece)
        return "".join(reversed(parts))

    def is_lexed(self) -> None:
        """`strings` has read all that is there."""
        self.lexed_size += sum(map(len, self.pieces[self.lexed :]))
        self.lexed = len(self.pieces)

    def pack(self) -> None:
        """Join the newest pieces, and blocks of like size: a stream keeps about as many strings as its length has bits.

        Each character is copied as often as its block doubles.
        """
        begin = max(self.packed, self.lexed)
        block = "".join(self.pieces[begin:])
        del self.pieces[begin:]
        while len(self.pieces) > self.lexed and len(self.pieces[-1]) <= 2 * len(block):
            block = self.pieces.pop() + block
        self.pieces.append(block)
        self.packed = len(self.pieces)


class ResponseParser:
    """Parses one generation as it streams in.

    Args:
        response_template: a template, in any form that `load_template` takes.
        prefix: the prompt that the generation continues. What it holds after its last start anchor is parsed first.
            `""` opts out.
        tools: the tools that were offered, as `apply_chat_template` takes them; string arguments of calls are cast by
            their schemas.
        errors: what a region does that doesn't parse: `"strict"` raises, `"recover"` keeps it under `malformed`,
            `"repair"` as that, but a malformed JSON body that its delimiter closed is repaired first.
        groups: give each `region_open` whose delimiter has named groups a key `groups` with what they hold; so the name
            of a call is known before its region closes.

    Attributes:
        initial_events: the events of what the prefix pre-wrote.

    Raises:
        PrefixRequiredError: `prefix` is left out.
        TemplateError: the template is not valid.
        InputTypeError: an argument is of the wrong kind.
        ImportError: `errors="repair"`, but json-repair is not installed.
    """

    __slots__ = (
        "_blocked",
        "_blocked_at",
        "_budget",
        "_buffer",
        "_context",
        "_endless",
        "_errors",
        "_failure",
        "_fast_from",
        "_finalized",
        "_full",
        "_live",
        "_malformed",
        "_origin",
        "_pieces",
        "_plain",
        "_plan",
        "_region",
        "_rejected",
        "_rest",
        "_search",
        "_seconds",
        "_tells_groups",
        "_tools",
        "_values",
        "_watch",
        "initial_events",
    )

    def __init__(
        self,
        response_template: TemplateSource,
        prefix: str | None = None,
        *,
        tools: Sequence[Any] | None = None,
        errors: Errors = "strict",
        groups: bool = False,
    ) -> None:
        _check_arguments(prefix, errors)
        self._plan: Plan = self._planned(load_template(response_template))
        self._tools = ToolTypes.from_tools(tools) if tools else None
        self._errors: Errors = errors
        self._tells_groups = groups
        self._failure: ParseError | None = None
        self._finalized = False
        self._live: tuple[_Region, LiveRegion] | None = None  # of the region that a snapshot was taken of last
        self._values: dict[str, Any] = {}
        self._rejected: frozenset[str] = _NONE
        self._malformed: list[dict[str, Any]] = []
        self._context = ""
        self._blocked: frozenset[tuple[str, str]] = _NONE
        self._blocked_at = -1
        self._buffer = TextBuffer()
        self._region: _Region | None = None
        self._origin = 0
        self._plain: Callable[[str], object] | None = None
        self._pieces: list[str] = []
        self._fast_from = 0
        self._full = 0
        self._seconds = patterns.REGEX_SECONDS
        self._endless: frozenset[str] = _NONE
        self._rest: WholeText | None = None
        self._watch: WatchList = self._plan.outside
        self._budget = Budget()
        self._search: Search = self._watch.begin(0, "", NONE_BLOCKED, self._budget)
        self.initial_events: list[Event] = []
        if prefix:
            self._feed_prefix(prefix)

    # -- the three calls -----------------------------------------------------------------------------------------

    def feed(self, text: str) -> list[Event]:
        """Parse the next piece of the generation; returns the events that it settles.

        Raises:
            ParseError: under `errors="strict"`, a region doesn't parse.
            ParserFinalizedError: the parser is finalized.
        """
        if self._plain is not None and text.__class__ is str and text and not self._plain(text):
            pieces = self._pieces
            pieces.append(text)
            plan = self._region.plan  # type: ignore[union-attr]
            if len(pieces) > self._full:
                self._catch_up()
                self._speed_up()
            return [{"type": "region_chunk", "field": plan.name, "text": text, "dirty": plan.dirty}]
        self._check_open()
        _check_text(text, "text")
        if not text:
            return []
        events: list[Event] = []
        self._append(text, events)
        return events

    def finalize(self) -> tuple[Message, list[Event]]:
        """End the generation: settle what is held, close what is open. Returns the message and the last events.

        Raises:
            ParseError: under `errors="strict"`, a region doesn't parse or a field that isn't optional is missing.
            ParserFinalizedError: the parser is finalized already.
        """
        self._check_open()
        self._catch_up()
        self._plain = None
        self._finalized = True
        events: list[Event] = []
        self._parse(events, at_end=True)
        self._check_missing()
        return self._message(), events

    def snapshot(self) -> Snapshot:
        """The message so far, with the region that is open as far as it is known.

        The first one of a region reads what is there of it; each further one only what came since.
        """
        from .snapshot import take  # much to import for a parser that is never asked

        region = self._region
        if region is None:
            self._live = None
        elif self._live is None or self._live[0] is not region:
            self._live = (region, self._live_region(region))
        if region is None or self._live is None:
            return take(self._plan, self._values, self._malformed, None)
        live = self._live[1]
        live.feed(self._body_from(region, live.read))
        return take(self._plan, self._values, self._malformed, live)

    def _live_region(self, region: _Region) -> LiveRegion:
        from .live import LiveRegion, live_fields

        field = live_fields(self._plan.template)[region.plan.name]
        earlier = self._values.get(region.plan.name)
        join = region.plan.field.join
        before = join.join([*earlier, ""]) if join is not None and earlier else ""
        return LiveRegion(field, merged_groups(region.groups, NO_GROUPS), self._tools, before)

    def _body_from(self, region: _Region, position: int) -> str:
        return region.body_from(position)

    def _planned(self, template: ResponseTemplate) -> Plan:
        return plan_for(template)

    def _finish_with(self, text: str) -> Message:
        """All of the generation at once: as `feed(text)`, then `finalize()`, but without events.

        Raises:
            ParseError: under `errors="strict"`, a region doesn't parse or a field that isn't optional is missing.
            ParserFinalizedError: the parser is finalized already.
        """
        self._check_open()
        _check_text(text, "text")
        self._catch_up()
        self._plain = None
        self._finalized = True
        search = self._search
        withheld = self._region is not None and self._region.withheld is not None
        if search.held_from == search.position == self._buffer.end and not withheld:  # nothing has begun
            self._rest = WholeText(self._context + text, self._buffer.end - len(self._context))
            self._search_from(search.position)
        self._buffer.append(text)
        self._parse([], at_end=True)
        self._check_missing()
        return self._message()

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._finalized:
            raise ParserFinalizedError("this parser is finalized; make a new one for the next generation")

    def _feed_prefix(self, prefix: str) -> None:
        written = _prewritten(self._plan, prefix)
        if written:
            self._origin = len(written)
            self._append(written, self.initial_events)

    # -- reading -------------------------------------------------------------------------------------------------

    def _append(self, text: str, events: list[Event]) -> None:
        self._catch_up()
        self._buffer.append(text)
        self._parse(events, at_end=False)
        self._speed_up()

    def _speed_up(self) -> None:
        """Where no delimiter has begun, a chunk that none can begin in goes straight to the region (see `feed`)."""
        region, search = self._region, self._search
        self._plain = None
        if region is None or not region.started or region.withheld is not None:
            return
        if search.held_from == search.position and self._watch.plain is not None:
            if len(region.pieces) - region.packed > LOOSE_PIECES:
                region.pack()
            self._plain = self._watch.plain
            self._pieces = region.pieces
            self._fast_from = len(region.pieces)
            self._full = region.packed + LOOSE_PIECES

    def _catch_up(self) -> None:
        """Count in what went the fast way."""
        if self._plain is not None and self._region is not None:
            pieces = self._region.pieces[self._fast_from :]
            passed = sum(map(len, pieces))
            if passed:
                self._note_passed(pieces)
                if self._plan.width:
                    self._keep_context("".join(pieces[-self._plan.width :]))
                self._buffer.skip(passed)
                self._search.skip(passed, self._context)
                self._fast_from = len(self._region.pieces)

    def _parse(self, events: list[Event], *, at_end: bool) -> None:
        """Handle every delimiter that is settled; then release what is free, or (at the end) close what is open."""
        while True:
            match = self._find(at_end)
            if match is not None:
                self._meet(match, events, at_end)
            elif not at_end:
                self._release(self._search.held_from, events)
                return
            elif not self._reopen_string(events):
                self._end(events)
                return

    def _read(self) -> Match | None:
        search = self._search
        for piece, offset in self._buffer.read(search.position):
            search.feed(piece, offset)
            match = search.settled()
            if match is not None:
                return match
        return None

    def _find(self, at_end: bool) -> Match | None:
        """The next settled delimiter, if the text that is there has one."""
        try:
            match = self._search.settled() or self._read()
            return self._finish_search() if match is None and at_end else match
        except TimeoutError:
            self._search = NoSearch(self._buffer.end)
            self._report_overrun()
            return None

    def _finish_search(self) -> Match | None:
        """What the search finds now that the text is over. Patterns left to `regex` share one budget of time."""
        if not self._watch.guarded:
            return self._search.finish()
        if self._seconds <= 0:
            raise TimeoutError
        started = time.perf_counter()
        try:
            return self._search.finish()
        finally:
            self._seconds -= time.perf_counter() - started

    def _report_overrun(self) -> None:
        """The patterns cost too much: from here on no delimiter is looked for, and the text stays where it is."""
        name = self._region.plan.name if self._region is not None else self._watch.delimiters[0].field
        error = "the template's delimiter patterns are too costly for this text; it was not searched further"
        if self._errors == "strict":
            self._fail(f"field {name!r}: {error}", name, "", self._buffer.start - self._origin)
        self._malformed.append({"field": name, "text": "", "error": error})

    def _meet(self, match: Match, events: list[Event], at_end: bool) -> None:
        """A delimiter is settled: it changes the state, unless it is a close inside a string."""
        self._release(match.start, events)
        delimiter = self._watch.delimiters[match.pattern]
        region = self._region
        met = (delimiter.role, delimiter.field)
        if delimiter.role == "close" and region is not None and self._in_string(region, match, events, at_end):
            self._begin_search(match.end, met, match.start == match.end)
            return
        if region is not None and region.withheld is not None:  # the string never ended in its region
            self._go_back(region, region.withheld, events)
            return
        plan = self._plan.fields[delimiter.field]
        groups = self._groups(match, at_end) if plan.has_groups else NO_GROUPS
        written = self._take(match.end)
        self._note("delimiter", delimiter.field, written)
        if delimiter.role == "open":
            self._close_region(None, NO_GROUPS, events)
            self._open_region(plan, written, match.start, groups, events)
            self._watch = plan.closes
        else:
            self._close_region(written, groups, events)
            self._watch = self._plan.outside
        self._begin_search(match.end, met, match.start == match.end)

    def _begin_search(self, position: int, met: tuple[str, str], empty: bool) -> None:
        """An empty delimiter may not match again at its place, or the parser would stand still."""
        if not empty or position != self._blocked_at:
            self._blocked = _NONE
        if empty:
            self._blocked |= {met}
            self._blocked_at = position
        self._search_from(position)

    def _search_from(self, position: int) -> None:
        watch, whole = self._watch, self._rest
        blocked = watch.numbers(self._blocked) if self._blocked and position == self._blocked_at else NONE_BLOCKED
        if whole is None or watch.find is None:
            self._search = watch.begin(position, self._context, blocked, self._budget)
        else:
            self._search = WholeSearch(whole, watch, position, self._context, blocked, self._budget)

    def _groups(self, match: Match, at_end: bool) -> Mapping[str, str | None]:
        """What the named groups of a settled delimiter hold. The buffer begins with it."""
        text = self._buffer.peek(self._search.position)
        return self._watch.groups(match, text, match.start, self._context, at_end)

    # -- moving text ---------------------------------------------------------------------------------------------

    def _take(self, position: int) -> str:
        text = self._buffer.take(position)
        if self._plan.width:
            self._keep_context(text)
        return text

    def _keep_context(self, text: str) -> None:
        """Keep the last characters before the next search, as many as some lookbehind asks for."""
        width = self._plan.width
        self._context = (self._context + text[-width:])[-width:]

    def _release(self, position: int, events: list[Event]) -> None:
        """All text before `position` is free of delimiters."""
        if position <= self._buffer.start:
            return
        text = self._take(position)
        region = self._region
        if region is not None and region.withheld is not None:
            self._withhold(region, region.withheld, text, events)
        else:
            self._emit(text, events)

    def _emit(self, text: str, events: list[Event]) -> None:
        """Text of the region that is open, or of the implicit field's, or of none."""
        region = self._region
        if region is None:
            implicit = self._plan.implicit
            if implicit is None:
                self._note("discarded", None, text)
                return
            region = self._open_region(implicit, "", self._buffer.start - len(text), NO_GROUPS, events)
        plan = region.plan
        self._note("text", plan.name, text)
        region.pieces.append(text)
        if not region.started:
            if plan.skips_lead:
                text = text.lstrip()
                if not text:
                    return
            region.started = True
        events.append({"type": "region_chunk", "field": plan.name, "text": text, "dirty": plan.dirty})

    # -- closes inside strings -----------------------------------------------------------------------------------

    def _in_string(self, region: _Region, match: Match, events: list[Event], at_end: bool) -> bool:
        """Is this close inside a string of the body? Then it is withheld, and the region goes on."""
        if region.plan.strings is None or (region.strings is None and self._is_whole(region)):
            return False
        strings = self._lex(region)
        if not strings.inside or strings.closing in self._endless:
            return False
        string = strings.serial
        written = self._buffer.peek(match.end)
        strings.advance(written)
        withheld = region.withheld
        if not strings.inside or strings.serial != string:
            if withheld is not None:
                self._give_up(region, withheld, "", events)
            return False
        if withheld is not None:
            self._take(match.end)
            withheld.pieces.append(written)
            return True
        groups = self._groups(match, at_end) if region.plan.has_groups else NO_GROUPS
        self._take(match.end)
        region.withheld = _Withheld(match.end, string, [written], groups, self._context)
        return True

    def _is_whole(self, region: _Region) -> bool:
        """Does the body parse as it is? Then its strings have ended, and it need not be lexed. Tried once a region."""
        try:
            region.content = region.plan.parser.parse("".join(region.pieces))
        except ContentError:
            return False
        if not region.plan.exact:
            region.content = UNREAD
        return region.plan.exact

    def _lex(self, region: _Region) -> StringTracker:
        """The string tracker, having read all of the body so far."""
        if region.strings is None:
            assert region.plan.strings is not None
            region.strings = self._tracker(region.plan.strings)
        if region.withheld is None:
            for piece in region.pieces[region.lexed :]:
                region.strings.advance(piece)
            region.is_lexed()
        return region.strings

    def _tracker(self, dialect: StringDialect) -> StringTracker:
        return StringTracker(dialect)

    def _withhold(self, region: _Region, withheld: _Withheld, text: str, events: list[Event]) -> None:
        """More text after a withheld close: once its string has ended, all of it is body."""
        strings = region.strings
        assert strings is not None
        strings.advance(text)
        if strings.inside and strings.serial == withheld.string:
            withheld.pieces.append(text)
        else:
            self._give_up(region, withheld, text, events)

    def _give_up(self, region: _Region, withheld: _Withheld, text: str, events: list[Event]) -> None:
        """The withheld close was text."""
        region.withheld = None
        self._emit("".join(withheld.pieces) + text, events)
        region.is_lexed()

    def _reopen_string(self, events: list[Event]) -> bool:
        """At the end: if the string of a withheld close never ended, that was the close after all."""
        region = self._region
        withheld = region.withheld if region is not None else None
        if region is None or withheld is None:
            return False
        strings = region.strings
        assert strings is not None
        strings.advance(self._buffer.text(self._buffer.start))
        if strings.inside and strings.serial == withheld.string:
            # No later string with this terminator ends, either: read from inside the first one, each later terminator
            # was escaped, and behind it both readings agree. So nothing is read to the end again for the same reason.
            self._endless |= {strings.closing}
            self._go_back(region, withheld, events)
            return True
        self._give_up(region, withheld, "", events)
        return False

    def _go_back(self, region: _Region, withheld: _Withheld, events: list[Event]) -> None:
        """The withheld close was one: the region ends there, and what follows it is parsed anew."""
        closing, *rest = withheld.pieces
        self._buffer.give_back(rest)
        self._context = withheld.context
        self._note("delimiter", region.plan.name, closing)
        self._close_region(closing, withheld.groups, events)
        self._watch = self._plan.outside
        self._begin_search(withheld.end, ("close", region.plan.name), not closing)

    # -- regions -------------------------------------------------------------------------------------------------

    def _open_region(
        self, plan: FieldPlan, opening: str, begin: int, groups: Mapping[str, str | None], events: list[Event]
    ) -> _Region:
        self._region = region = _Region(plan, opening, begin, groups)
        event: Event = {"type": "region_open", "field": plan.name}
        if self._tells_groups and groups:
            event["groups"] = dict(merged_groups(groups, NO_GROUPS))
        events.append(event)
        return region

    def _close_region(self, closing: str | None, groups: Mapping[str, str | None], events: list[Event]) -> None:
        """Close the open region, if there is one. `closing` is None where another region's open ends it."""
        region = self._region
        if region is None:
            return
        self._region = None
        self._settle(region, closing or "", groups, events, cut_off=closing is None)

    def _end(self, events: list[Event]) -> None:
        """The generation is over: what was held is text, but for the beginning of a close in a structured body."""
        plan = self._region.plan if self._region is not None else self._plan.implicit
        partial = ""
        if plan is not None and plan.dirty:
            self._release(self._held_close(plan), events)
            partial = self._take(self._buffer.end)
            self._note("delimiter", plan.name, partial)
        self._release(self._buffer.end, events)
        region = self._region
        if region is not None:
            self._region = None
            self._settle(region, partial, NO_GROUPS, events, cut_off=True)

    def _held_close(self, plan: FieldPlan) -> int:
        """Where the beginning of a close that the end cut off begins."""
        if plan.field.implicit:  # opens were watched for as well: look again, for the close alone
            begin = self._search.held_from
            blocked = plan.closes.numbers(self._blocked) if begin == self._blocked_at else NONE_BLOCKED
            search = plan.closes.begin(begin, self._context, blocked)
            search.feed(self._buffer.text(begin))
            return search.held_from
        return self._search.held_from

    def _settle(
        self,
        region: _Region,
        closing: str,
        groups: Mapping[str, str | None],
        events: list[Event],
        *,
        cut_off: bool,
    ) -> None:
        """A region is complete: its body becomes a value, or it is malformed."""
        plan = region.plan
        body = "".join(region.pieces)
        try:
            if cut_off and plan.name == CALLS_FIELD and not plan.is_whole(body):
                raise ContentError("nothing closed this call, so it may be incomplete")
            content = plan.parser.parse(body) if region.content is UNREAD else region.content
            value = self._shape(plan, content, merged_groups(region.groups, groups))
        except ContentError as error:
            if self._errors != "repair" or cut_off or not self._repair(region, body, closing, groups, error, events):
                self._reject(region, region.opening + body + closing, str(error), events)
            return
        self._accept(plan, value, events)

    def _shape(self, plan: FieldPlan, content: Any, groups: Mapping[str, str]) -> Any:
        value = plan.shape(content, groups)
        if plan.field.join is not None and not isinstance(value, str):
            raise ContentError(f"'join' needs strings, but this is {type(value).__name__} ({str(value)[:60]!r})")
        return plan.cast(self._tools, value) if self._tools is not None else value

    def _accept(self, plan: FieldPlan, value: Any, events: list[Event]) -> None:
        events.append({"type": "region_close", "field": plan.name, "value": value})
        add_value(self._values, plan, value)

    def _repair(
        self,
        region: _Region,
        body: str,
        closing: str,
        groups: Mapping[str, str | None],
        error: ContentError,
        events: list[Event],
    ) -> bool:
        """Try the body as repaired JSON; it is still listed as malformed."""
        if region.plan.field.content != "json":
            return False
        try:
            content = repaired_json(body, thaw(region.plan.field.content_args))
            value = self._shape(region.plan, content, merged_groups(region.groups, groups))
        except ContentError:
            return False
        if is_empty(value):
            return False
        text = region.opening + body + closing
        entry = {"field": region.plan.name, "text": text, "error": str(error), "repaired": True}
        self._malformed.append(entry)
        self._accept(region.plan, value, events)
        return True

    def _reject(self, region: _Region, text: str, error: str, events: list[Event]) -> None:
        name = region.plan.name
        if self._errors == "strict":
            position = region.begin - self._origin
            self._fail(f"field {name!r}, at character {position} of the generation: {error}", name, text, position)
        self._rejected |= {name}  # it is reported once, as malformed; it isn't missing as well
        self._malformed.append({"field": name, "text": text, "error": error})
        events.append({"type": "region_malformed", "field": name, "text": text, "error": error})

    def _fail(self, message: str, name: str, text: str, position: int) -> None:
        self._plain = None
        self._failure = ParseError(message, field=name, text=text, position=position, partial=self._message())
        raise self._failure

    # -- the message ---------------------------------------------------------------------------------------------

    def _check_missing(self) -> None:
        for name in self._plan.required:
            if name in self._values or name in self._rejected:
                continue
            error = f"field {name!r} is not optional, but the generation does not have it"
            if self._errors == "strict":
                self._fail(error, name, "", self._buffer.end - self._origin)
            self._malformed.append({"field": name, "text": "", "error": error})

    def _message(self) -> Message:
        return assemble(self._plan, self._values, self._malformed)

    # -- where each character went -------------------------------------------------------------------------------

    def _note(self, kind: str, name: str | None, text: str) -> None:
        """Every character passes here once (or `_note_passed`); `explain` listens."""

    def _note_passed(self, pieces: list[str]) -> None:
        """As `_note`, for text of the open region that went the fast way."""


def _check_arguments(prefix: Any, errors: Any) -> None:
    if errors not in _ERRORS:
        raise InputTypeError(f"errors must be one of {', '.join(map(repr, _ERRORS))}, not {errors!r}")
    if prefix is None:
        raise PrefixRequiredError(
            "prefix is required: pass the prompt that was given to the model, because the chat template may have"
            ' pre-written part of the message (such as "<think>"); prefix="" says that there is none'
        )
    _check_text(prefix, "prefix")
    if errors == "repair":
        load_library()  # missing: say so now, not at the first fault


def _prewritten(plan: Plan, prefix: str) -> str:
    """What the prompt holds of the message already: all behind its last anchor."""
    if not prefix:
        return prefix
    try:
        anchor = plan.last_anchor(prefix)
    except TimeoutError:
        seconds = patterns.REGEX_SECONDS
        raise TemplateError(f"'start_anchor_pattern' took more than {seconds} seconds on this prefix") from None
    return prefix if anchor is None else prefix[anchor[1] :]


def _check_text(text: Any, name: str) -> None:
    if not isinstance(text, str):
        hint = " (decode it first)" if isinstance(text, (bytes, bytearray)) else ""
        raise InputTypeError(f"{name} must be a str, not {type(text).__name__}{hint}")


@overload
def parse_response(
    text: str,
    response_template: TemplateSource,
    *,
    prefix: str | None = None,
    tools: Sequence[Any] | None = None,
    errors: Errors = "strict",
    offsets: bool = False,
) -> Message: ...


@overload
def parse_response(
    text: list[str],
    response_template: TemplateSource,
    *,
    prefix: str | list[str] | None = None,
    tools: Sequence[Any] | None = None,
    errors: Errors = "strict",
    offsets: bool = False,
) -> list[Message]: ...


def parse_response(
    text: str | list[str],
    response_template: TemplateSource,
    *,
    prefix: str | list[str] | None = None,
    tools: Sequence[Any] | None = None,
    errors: Errors = "strict",
    offsets: bool = False,
) -> Message | list[Message]:
    """Parse whole generations: a str gives a message, a list of them a list of messages.

    Args:
        text: what the model generated, special tokens included.
        response_template: a template, in any form that `load_template` takes.
        prefix: the prompt; for a list one for all, or one each. `""` opts out.
        tools, errors: as for `ResponseParser`.
        offsets: the message gets a key `offsets`, which says where each region is (see `OffsetParser`).

    Raises:
        ParseError: under `errors="strict"`, a region doesn't parse.
        PrefixRequiredError, TemplateError, InputTypeError: as for `ResponseParser`.
    """
    one_shot = _OneShot(load_template(response_template), tools, errors, _kind(offsets))
    if isinstance(text, (list, tuple)):
        prefixes = one_each(prefix, len(text))
        return [one_shot.parse(each, before) for each, before in zip(text, prefixes, strict=True)]
    if isinstance(prefix, (list, tuple)):
        raise InputTypeError("prefix is a list, but text is a single str")
    return one_shot.parse(text, prefix)


def one_each(prefix: str | Sequence[str] | None, count: int) -> Sequence[str | None]:
    """One prefix for all of `count` texts, or one each.

    Raises:
        InputTypeError: there are more, or fewer; or it is something else.
    """
    if prefix is None or isinstance(prefix, str):
        return [prefix] * count
    if not isinstance(prefix, (list, tuple)):
        raise InputTypeError(f"prefix must be a str or a list of str, not {type(prefix).__name__}")
    if len(prefix) != count:
        raise InputTypeError(f"there are {count} texts but {len(prefix)} prefixes; give one for all, or one each")
    return prefix


def _kind(offsets: bool) -> type[ResponseParser]:
    if not offsets:
        return ResponseParser
    from .offsets import OffsetParser  # built on this module

    return OffsetParser


class _OneShot:
    """Parses whole texts; what they share is made once."""

    __slots__ = ("_errors", "_kind", "_plan", "_prefix", "_template", "_tools", "_types", "_written")

    def __init__(
        self, template: ResponseTemplate, tools: Sequence[Any] | None, errors: Errors, kind: type[ResponseParser]
    ) -> None:
        self._template = template
        self._tools = tools
        self._errors = errors
        self._kind = kind
        self._plan = plan_for(template)
        self._types = ToolTypes.from_tools(tools) if tools else None
        self._prefix: str | None = ""  # the last one, and what it pre-wrote: most often all texts have the same
        self._written = ""

    def parse(self, text: str, prefix: str | None) -> Message:
        _check_text(text, "text")
        _check_arguments(prefix, self._errors)
        if prefix is not self._prefix:
            self._prefix, self._written = prefix, _prewritten(self._plan, prefix or "")
        message = None
        if self._kind is ResponseParser:  # another kind tells more than a message of values
            message = message_of(self._plan, self._written + text, self._types)
        if message is None:
            parser = self._kind(self._template, prefix, tools=self._tools, errors=self._errors)
            message = parser._finish_with(text)
        return message
