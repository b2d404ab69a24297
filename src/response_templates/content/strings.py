"""Where the strings of a structured body are: an incremental lexer that knows nothing else of the body's grammar.

Invariant: after any number of `StringTracker.advance` calls the state is that of reading all their text at once,
however it was cut: an escape or a marker of several characters that the cut goes through is kept pending.
Bound: linear in the text, and for a call a constant number of steps beyond its own text; ordinary text is skipped by
C-level searches. Nothing is kept but the pending characters, fewer than the longest marker has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class StringDialect:
    """How strings are written.

    Attributes:
        quotes: characters that open a string and close it; a backslash inside escapes the next character.
        pairs: (open, close) markers of any length; everything between them is the string, there are no escapes.

    Where several markers could open a string at the same place, the longest does; of equal ones a pair counts, and the
    later of two pairs.
    """

    quotes: tuple[str, ...] = ('"',)
    pairs: tuple[tuple[str, str], ...] = ()


def string_dialect(quotes: Iterable[str], pairs: Iterable[Sequence[str]] = ()) -> StringDialect:
    """A dialect from plain lists, as templates hold them."""
    return StringDialect(tuple(quotes), tuple((opening, closing) for opening, closing in pairs))


def opening_pattern(markers: Iterable[str]) -> re.Pattern[str]:
    """Finds the leftmost of `markers`, at the same place the longest."""
    longest_first = sorted(set(markers), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)))


def closing_quote(text: str, at: int, quote: str) -> tuple[int, bool]:
    """Where the string that goes on at `at` ends.

    Returns:
        The offset of the first `quote` that no backslash escapes, or -1; and, for -1, whether `text` ends in a
        backslash that escapes what comes next.
    """
    while True:
        end = text.find(quote, at)
        run = text[at:] if end < 0 else text[at:end]  # the runs don't overlap, so all copies together are linear
        escaped = run.endswith("\\") and (len(run) - len(run.rstrip("\\"))) % 2 == 1
        if end < 0 or not escaped:
            return end, escaped
        at = end + 1


@dataclass(frozen=True, slots=True)
class _Quoted:
    """Inside a string that the quote `mark` closes, with backslash escapes."""

    mark: str

    def close(self, text: str, at: int) -> tuple[int | None, str]:
        """The offset behind the close, or None and what has to be read again with the next text."""
        end, escaping = closing_quote(text, at, self.mark)
        if end >= 0:
            return end + 1, ""
        return None, "\\" if escaping else ""


@dataclass(frozen=True, slots=True)
class _Raw:
    """Inside a string that only `mark` closes."""

    mark: str

    def close(self, text: str, at: int) -> tuple[int | None, str]:
        """As `_Quoted.close`."""
        end = text.find(self.mark, at)
        if end >= 0:
            return end + len(self.mark), ""
        for begin in range(max(at, len(text) - len(self.mark) + 1), len(text)):
            if self.mark.startswith(text[begin:]):
                return None, text[begin:]
        return None, ""


_Ending: TypeAlias = "_Quoted | _Raw"


@dataclass(frozen=True, slots=True)
class _State:
    """Where the lexer is.

    Attributes:
        ending: what the string that was opened last ends with (None: there was none).
        inside: has it not ended yet?
        opened: how many strings were opened.
        pending: the last characters, which have to be read again with the next text.
    """

    ending: _Ending | None
    inside: bool
    opened: int
    pending: str


class _Lexer:
    """A dialect, compiled. Immutable; shared by all trackers."""

    def __init__(self, dialect: StringDialect) -> None:
        self.endings: dict[str, _Ending] = {quote: _Quoted(quote) for quote in dialect.quotes}
        self.endings.update((opening, _Raw(closing)) for opening, closing in dialect.pairs)
        self.search = opening_pattern(self.endings).search
        self.longest = max(map(len, self.endings))
        self.beginnings = frozenset(mark[:size] for mark in self.endings for size in range(1, len(mark)))

    def read(self, text: str, state: _State, reach: int) -> _State:
        """The state after `text`.

        Args:
            state: where reading goes on; its pending characters are the first of `text`.
            reach: how many of the last characters may be the beginning of a longer marker (0: the text is over).
        """
        ending, inside, opened = state.ending, state.inside, state.opened
        at = 0
        while True:
            if inside and ending is not None:
                close, pending = ending.close(text, at)
                if close is None:
                    return _State(ending, True, opened, pending)
                at = close
            match = self.search(text, at)
            pending = self._beginning(text, max(at, len(text) - reach), match.start() if match else len(text))
            if pending or match is None:
                return _State(ending, False, opened, pending)
            at, ending, inside, opened = match.end(), self.endings[match[0]], True, opened + 1

    def _beginning(self, text: str, begin: int, stop: int) -> str:
        """The end of `text` from the first place up to `stop` where a longer marker may have begun."""
        for at in range(begin, min(stop + 1, len(text))):
            if text[at:] in self.beginnings:
                return text[at:]
        return ""


@lru_cache(maxsize=256)
def _lexer(dialect: StringDialect) -> _Lexer:
    return _Lexer(dialect)


_OUTSIDE = _State(None, False, 0, "")


class StringTracker:
    """Follows the strings of one body as it streams in.

    Attributes:
        inside: does the text so far end inside a string? (A marker that is complete but may still become a longer one
            counts; a close counts once it is complete.)
        serial: how many strings were opened so far; two places inside a string are inside the same one if it is equal.
        closing: what ends the string that was opened last ("" before the first).
    """

    __slots__ = ("_lexer", "_state", "closing", "inside", "serial")

    def __init__(self, dialect: StringDialect) -> None:
        self._lexer = _lexer(dialect)
        self._state = _OUTSIDE
        self.inside = False
        self.serial = 0
        self.closing = ""

    def advance(self, text: str) -> None:
        """Read on."""
        lexer = self._lexer
        now = self._state = lexer.read(self._state.pending + text, self._state, lexer.longest - 1)
        if not now.inside and now.pending:  # what is it if nothing follows?
            now = lexer.read(now.pending, now, 0)
        self.inside = now.inside
        self.serial = now.opened
        self.closing = now.ending.mark if now.ending is not None else ""
