"""One pattern, whole texts: what content parsers (and anchors) search with.

Most patterns are cut at their `.*?` into parts that C code can search for (see `backtracking.Chain`); the rest, and
what that can't tell, is for the automaton.

Invariant: the matches are those of `regex.finditer`. Bound: linear in the text's length; for a pattern outside the
machine's subset (see `syntax`), `regex` itself searches, with a limit on its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import regex

from . import syntax
from .automaton import Machine
from .backtracking import Unsure, chain
from .captures import Tracker
from .search import Match, Search
from .syntax import Unsupported

REGEX_SECONDS = 1.0  # what one search by `regex` may take, for a pattern that the machine cannot follow


@dataclass(frozen=True, slots=True)
class Found:
    """A match in a whole text, with what its named groups hold (None: took no part)."""

    start: int
    end: int
    groups: dict[str, str | None]


class Pattern:
    """One pattern for searches of whole texts: linear in the text's length."""

    def __init__(self, node: syntax.Node) -> None:
        self._machine = Machine([node])
        self._tracker = Tracker(self._machine, 0)
        self._chain = chain(node)

    def finditer(self, text: str) -> Iterator[Found]:
        """Matches from left to right that do not overlap, as `regex.finditer` gives them."""
        at = 0
        try:
            while self._chain is not None:
                found = self._chain.find(text, at)
                if found is None:
                    return
                start, at, groups = found
                yield Found(start, at, groups)
        except Unsure as error:
            at = error.place
        yield from self._finditer(text, at)

    def _finditer(self, text: str, at: int) -> Iterator[Found]:
        """As `finditer` from `at` on, by the machine alone."""
        blocked = frozenset[int]()
        while at <= len(text):
            match = self._search(text, at, blocked).finish()
            if match is None:
                return
            yield Found(match.start, match.end, self._groups(match, text))
            at = match.end
            blocked = frozenset((0,)) if match.start == match.end else frozenset()

    def open_at_end(self, text: str) -> bool:
        """Has a match begun (a character of it is there) that `text` ends inside of?"""
        search = self._search(text, 0, frozenset())
        return search.settled() is None and search.held_from < len(text)

    def _search(self, text: str, at: int, blocked: frozenset[int]) -> Search:
        search = Search(self._machine, at, self._context(text, at), blocked)
        search.feed(text, at)
        return search

    def _groups(self, match: Match, text: str) -> dict[str, str | None]:
        if not self._tracker.names:
            return {}
        return self._tracker.groups(match, text, 0, self._context(text, match.start), at_end=True)

    def _context(self, text: str, at: int) -> str:
        return text[max(0, at - self._machine.width) : at] if self._machine.width else ""


class GuardedPattern:
    """A pattern outside the machine's subset: `regex` itself, with a limit on its time.

    Raises (from its methods):
        TimeoutError: a search took longer than `REGEX_SECONDS`.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = regex.compile(pattern, regex.DOTALL | regex.VERSION0)

    def finditer(self, text: str) -> Iterator[Found]:
        for match in self._pattern.finditer(text, timeout=REGEX_SECONDS):
            yield Found(match.start(), match.end(), match.groupdict())

    def open_at_end(self, text: str) -> bool:
        match = self._pattern.search(text, partial=True, timeout=REGEX_SECONDS)
        return match is not None and match.partial and match.start() < len(text)


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Pattern | GuardedPattern:
    """`pattern` (a regex that `regex` accepts) for searches of whole texts."""
    try:
        return Pattern(syntax.parse(pattern))
    except Unsupported:
        return GuardedPattern(pattern)
