"""Finding delimiters: what is watched for in each state of the parser, and how.

A `WatchList` is the delimiters that may come next; it is compiled once, with the template, into one of three ways to
search, all behind one interface (`begin` gives a search of one stream, see `Search`):

- `_Literals`: nothing but literals, none of which hides in another: C-level string search;
- `_Patterns`: the machine of `automaton`, for patterns and for literals that do hide in one another;
- `_Guarded`: a pattern outside the machine's subset. Nothing is known of it before the text is complete, so all text
  is held until then, and `regex` searches with a limit on its time.

Invariant: the delimiter found is the one that starts first, at the same place the longest, then an open before a close,
then by field name; it is reported when, and only when, no further text can change it.
Bound: linear in the text for the first two; the third is bounded in time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import regex

from . import automaton, patterns, search, skips, syntax
from .captures import Tracker
from .control import ControlTokens
from .errors import TemplateError
from .search import Budget, Match
from .syntax import Unsupported
from .template import Field
from .whole import Find, WholeFinder

Role = Literal["open", "close"]
Plain: TypeAlias = "Callable[..., object]"
_NO_GROUPS: Mapping[str, str | None] = {}


@dataclass(frozen=True, slots=True)
class Delimiter:
    """A literal or a pattern that opens or closes the regions of a field."""

    role: Role
    field: str
    literal: str | None = None
    pattern: str | None = None


def delimiters_of(field: Field, role: Role) -> list[Delimiter]:
    """The delimiters that open (or close) `field`; each literal of a list counts for itself."""
    literals, pattern = (field.open, field.open_pattern) if role == "open" else (field.close, field.close_pattern)
    if pattern is not None:
        return [Delimiter(role, field.name, pattern=pattern)]
    return [Delimiter(role, field.name, literal=literal) for literal in literals]


class Search(Protocol):
    """A search of one stream from one position on. Positions count characters of the stream."""

    position: int
    steps: int

    @property
    def held_from(self) -> int:
        """From here on text may be (part of) a delimiter; all before is free."""

    def feed(self, text: str, offset: int = 0) -> int:
        """Read on in `text` from `offset`; returns where it stopped: behind the text, or before that once settled.

        Raises:
            TimeoutError: the stream's budget is spent.
        """

    def skip(self, count: int, context: str) -> None:
        """`count` characters went by that `WatchList.plain` found nothing in, while nothing was held."""

    def settled(self) -> Match | None:
        """The match once no further text can change it. `Match.pattern` is an index into the watch list."""

    def finish(self) -> Match | None:
        """The match if the stream ends here.

        Raises:
            TimeoutError: a pattern left to `regex` took too long.
        """


class WatchList:
    """The delimiters that may come next, compiled. Immutable; shared by all streams.

    With `controls` they are compiled for text in which control tokens are marked (see `control`).
    """

    def __init__(self, delimiters: Iterable[Delimiter], controls: ControlTokens | None = None) -> None:
        self.delimiters = tuple(sorted(delimiters, key=lambda each: (each.role == "close", each.field)))
        self._finder = _finder(self.delimiters) if controls is None else _marked_finder(self.delimiters, controls)
        self.plain: Plain | None = self._finder.plain
        self.width: int = self._finder.width
        self.find: Find | None = self._finder.find  # None: only a search in a stream knows
        self.guarded = isinstance(self._finder, _Guarded)

    def begin(
        self,
        position: int,
        context: str = "",
        blocked: frozenset[int] = frozenset(),
        budget: Budget | None = None,
    ) -> Search:
        """A search from `position` on.

        Args:
            context: what stands just before, for lookbehinds; `width` characters are enough.
            blocked: indices of delimiters that must not match at this very position.
            budget: what the searches of this stream may cost (by default this one has one of its own).
        """
        return self._finder.begin(position, context, blocked, Budget() if budget is None else budget)

    def numbers(self, met: frozenset[tuple[str, str]]) -> frozenset[int]:
        """The indices of the delimiters with one of these roles and fields."""
        return frozenset(number for number, each in enumerate(self.delimiters) if (each.role, each.field) in met)

    def groups(self, match: Match, text: str, offset: int, context: str, at_end: bool) -> Mapping[str, str | None]:
        """The named groups of a settled match; `text` goes from position `offset` to where it was settled."""
        if match.groups is not None:
            return match.groups
        return self._finder.groups(match, text, offset, context, at_end)


class _Finder(Protocol):
    plain: Plain | None  # truthy if the text holds a character that a delimiter can begin with
    width: int  # characters of context that lookbehinds ask for
    find: Find | None

    def begin(self, position: int, context: str, blocked: frozenset[int], budget: Budget) -> Search: ...

    def groups(self, match: Match, text: str, offset: int, context: str, at_end: bool) -> dict[str, str | None]: ...


def _finder(delimiters: tuple[Delimiter, ...]) -> _Finder:
    literals = [each.literal for each in delimiters if each.literal is not None]
    if len(literals) == len(delimiters) and not _entangled(literals):
        return _Literals(literals)
    try:
        return _Patterns([_tree(each) for each in delimiters])
    except Unsupported:
        return _Guarded(delimiters)


def _marked_finder(delimiters: tuple[Delimiter, ...], controls: ControlTokens) -> _Finder:
    """As `_finder`, for marked text. (What `Unsupported` says was said when the control tokens were looked for.)"""
    trees = [controls.rewritten(_tree(each)) for each in delimiters]
    literals = [text for text in map(syntax.literal_text, trees) if text]
    if len(literals) == len(trees) and not _entangled(literals):
        return _Literals(literals)
    try:
        return _Patterns(trees)
    except Unsupported as error:
        raise TemplateError(f"token_delimiters=True can't be used with this template: a pattern is {error}") from None


def _entangled(literals: list[str]) -> bool:
    """Does one of the literals stand inside another, or twice in the list? Then later text may decide between them."""
    return len(set(literals)) < len(literals) or any(
        one is not other and one in other for one in literals for other in literals
    )


def _tree(delimiter: Delimiter) -> syntax.Node:
    if delimiter.pattern is not None:
        return syntax.parse(delimiter.pattern)
    literal = delimiter.literal or ""
    return syntax.Sequence(tuple(syntax.Char(re.escape(char), char) for char in literal))


# --- literals ----------------------------------------------------------------------------------------------------


class _Literals:
    """Literals none of which hides in another: a complete one is settled at once, and it is the only one there.

    (If one that starts earlier could still become complete, it would have this one inside it.)
    """

    width = 0

    def __init__(self, literals: list[str]) -> None:
        self.numbers = {literal: number for number, literal in enumerate(literals)}
        self.longest = max(map(len, literals), default=0)
        self.search = re.compile("|".join(map(re.escape, literals))).search if literals else _never
        firsts = sorted({literal[0] for literal in literals})
        self.first = re.compile("[" + re.escape("".join(firsts)) + "]").search if firsts else _never
        self.plain: Plain | None = _plain(literals)
        self.find: Find | None = self._find
        self.beginnings = frozenset(literal[:size] for literal in literals for size in range(1, len(literal)))

    def begin(self, position: int, context: str, blocked: frozenset[int], budget: Budget) -> Search:
        return _LiteralSearch(self, position)

    def _find(self, text: str, at: int, blocked: frozenset[int], base: int, budget: Budget) -> tuple[Match | None, int]:
        found = self.search(text, at)
        if found is None:
            return None, base + len(text)
        begin, end = found.span()
        return Match(self.numbers[found[0]], base + begin, base + end, _NO_GROUPS), base + end

    def groups(self, match: Match, text: str, offset: int, context: str, at_end: bool) -> dict[str, str | None]:
        return {}


def _plain(literals: list[str]) -> Plain:
    return skips.beginning_search(frozenset(each[:2] for each in literals)) if literals else _never


def _never(text: str, begin: int = 0) -> None:
    return None


class _LiteralSearch:
    """Keeps only the tail of what was read: the beginning of a literal that the next text may complete."""

    __slots__ = ("_found", "_literals", "_tail", "position", "steps")

    def __init__(self, literals: _Literals, position: int) -> None:
        self._literals = literals
        self._tail = ""
        self._found: Match | None = None
        self.position = position
        self.steps = 0

    @property
    def held_from(self) -> int:
        return self.position - len(self._tail)

    def feed(self, text: str, offset: int = 0) -> int:
        literals = self._literals
        size = len(text)
        if self._tail:
            reach = min(size, offset + literals.longest)
            window = self._tail + text[offset:reach]
            match = literals.search(window)
            if match is not None:
                return self._settle(match, self.position - len(self._tail), offset - len(self._tail))
            if reach == size:
                self._tail = self._beginning(window, 0)
                self.position += size - offset
                self.steps += size - offset
                return size
        match = literals.search(text, offset)
        if match is not None:
            return self._settle(match, self.position - offset, 0)
        self._tail = self._beginning(text, max(offset, size - literals.longest + 1))
        self.position += size - offset
        self.steps += size - offset
        return size

    def skip(self, count: int, context: str) -> None:
        self.position += count

    def _settle(self, match: re.Match[str], base: int, shift: int) -> int:
        """`base` is the position, `shift` the offset in the fed text, of the searched text's first character."""
        self._found = Match(self._literals.numbers[match[0]], base + match.start(), base + match.end())
        self.position = self._found.end
        self._tail = ""
        return shift + match.end()

    def _beginning(self, text: str, at: int) -> str:
        """The longest end of `text`, from `at` on, that a literal begins with."""
        literals = self._literals
        while True:
            match = literals.first(text, at)
            if match is None:
                return ""
            at = match.start()
            if text[at:] in literals.beginnings:
                return text[at:]
            at += 1

    def settled(self) -> Match | None:
        return self._found

    def finish(self) -> Match | None:
        return self._found


# --- nothing to look for -----------------------------------------------------------------------------------------


class NoSearch:
    """Finds nothing: for a stream whose patterns turned out to be too costly."""

    __slots__ = ("position", "steps")

    def __init__(self, position: int) -> None:
        self.position = position
        self.steps = 0

    @property
    def held_from(self) -> int:
        return self.position

    def feed(self, text: str, offset: int = 0) -> int:
        self.position += len(text) - offset
        return len(text)

    def skip(self, count: int, context: str) -> None:
        self.position += count

    def settled(self) -> Match | None:
        return None

    def finish(self) -> Match | None:
        return None


# --- patterns ----------------------------------------------------------------------------------------------------


class _Patterns:
    def __init__(self, trees: list[syntax.Node]) -> None:
        self._machine = automaton.Machine(trees)
        self.width = self._machine.width
        self.plain: Plain | None = self._machine.plain
        self.find: Find | None = WholeFinder(self._machine, trees).find
        self._trackers = [Tracker(self._machine, number) for number in range(len(trees))]

    def begin(self, position: int, context: str, blocked: frozenset[int], budget: Budget) -> Search:
        return search.Search(self._machine, position, context, blocked, budget)

    def groups(self, match: Match, text: str, offset: int, context: str, at_end: bool) -> dict[str, str | None]:
        return self._trackers[match.pattern].groups(match, text, offset, context, at_end)


# --- patterns outside the machine's subset -----------------------------------------------------------------------


class _Guarded:
    width = syntax.MAX_LOOKBEHIND
    plain: Plain | None = None
    find: Find | None = None

    def __init__(self, delimiters: tuple[Delimiter, ...]) -> None:
        sources = (each.pattern if each.pattern is not None else regex.escape(each.literal) for each in delimiters)
        self.patterns = [regex.compile(source, regex.DOTALL | regex.VERSION0) for source in sources]

    def begin(self, position: int, context: str, blocked: frozenset[int], budget: Budget) -> Search:
        return _GuardedSearch(self, position, context, blocked)

    def groups(self, match: Match, text: str, offset: int, context: str, at_end: bool) -> dict[str, str | None]:
        whole = context + text
        at = match.start - offset + len(context)
        try:
            found = self.patterns[match.pattern].match(whole, at, timeout=patterns.REGEX_SECONDS)
        except TimeoutError:  # it has just been found in less, so that is the machine's fault, not the pattern's
            return {}
        return found.groupdict() if found is not None else {}


class _GuardedSearch:
    """Collects the text and searches it when it is complete."""

    __slots__ = ("_begin", "_blocked", "_context", "_guarded", "_pieces", "position", "steps")

    def __init__(self, guarded: _Guarded, begin: int, context: str, blocked: frozenset[int]) -> None:
        self._guarded = guarded
        self._begin = begin
        self._context = context
        self._blocked = blocked
        self._pieces: list[str] = []
        self.position = begin
        self.steps = 0

    @property
    def held_from(self) -> int:
        return self._begin

    def feed(self, text: str, offset: int = 0) -> int:
        self._pieces.append(text[offset:])
        self.position += len(text) - offset
        self.steps += len(text) - offset
        return len(text)

    def skip(self, count: int, context: str) -> None:
        raise AssertionError("all text is held, so none can go by")

    def settled(self) -> Match | None:
        return None

    def finish(self) -> Match | None:
        text = self._context + "".join(self._pieces)
        base = self._begin - len(self._context)
        best: Match | None = None
        for number, pattern in enumerate(self._guarded.patterns):
            at = len(self._context) + (number in self._blocked)
            found = _guarded_search(pattern, text, at) if at <= len(text) else None
            if found is None:
                continue
            match = Match(number, base + found.start(), base + found.end())
            if best is None or (match.start, -match.end) < (best.start, -best.end):
                best = match
        return best


def _guarded_search(pattern: regex.Pattern[str], text: str, at: int) -> regex.Match[str] | None:
    try:
        return pattern.search(text, at, timeout=patterns.REGEX_SECONDS)
    except MemoryError:  # a recursive pattern takes memory faster than time
        raise TimeoutError("the pattern takes too much memory on this text") from None


def last_match(pattern: str | None, literals: Iterable[str]) -> Callable[[str], tuple[int, int] | None]:
    """A function that gives the last match of an anchor in a text: leftmost, longest, without overlap."""
    choices = sorted(literals, key=len, reverse=True)
    if choices:
        scan = re.compile("|".join(map(re.escape, choices)))
        return lambda text: _last(match.span() for match in scan.finditer(text))
    compiled = patterns.compile_pattern(pattern or "")
    return lambda text: _last((found.start, found.end) for found in compiled.finditer(text))


def _last(spans: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    last = None
    for last in spans:  # noqa: B007
        pass
    return last
