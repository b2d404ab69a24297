"""A search in one stream: what a machine (see `automaton`) has seen of it so far, and what that means.

The machine knows which state follows on which character. A search adds what depends on the stream: the position, where
the living threads started, the match that is the best so far, and what the search may still cost.

Bound: a step a character at most; far less where nothing begins, or a state turns to itself (see `skips`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from . import program
from .automaton import BEFORE, JUMP, MAX_JUMPS, Accept, Jump, Machine, Move, State


class Match(NamedTuple):
    """A match: `pattern` is the number of the pattern; `start` and `end` are positions in the text.

    `groups`: what the named groups hold, where the search found that out on the way; None: it is still to be asked.
    """

    pattern: int
    start: int
    end: int
    groups: Mapping[str, str | None] | None = None


# --- what a stream may cost -------------------------------------------------------------------------------------

WORK_TO_BEGIN_WITH = 500_000  # threads that a stream may follow; about a second
WORK_PER_CHARACTER = 8  # and more for each character; known text costs nothing, whatever its length


class Budget:
    """What the searches of one stream may spend on transitions that are not known yet.

    No template in use comes near it. It is there for templates that were made to be slow: with thousands of threads
    that no memo helps.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = WORK_TO_BEGIN_WITH

    def spend(self, work: int) -> None:
        """Spend `work`.

        Raises:
            TimeoutError: there is not so much left.
        """
        self.left -= work
        if self.left < 0:
            raise TimeoutError("the delimiter patterns are too costly for this text")


# --- a search in one stream -------------------------------------------------------------------------------------


class Search:
    """One search for the patterns of a machine, from one place of a stream on. Fed with text; says when it is settled.

    Positions are in the text that is fed, counted from `begin`.
    """

    __slots__ = (
        "_budget",
        "_context",
        "_ends",
        "_machine",
        "_match_start",
        "_matches",
        "_starts",
        "_state",
        "position",
        "steps",
    )

    def __init__(
        self,
        machine: Machine,
        begin: int,
        context: str = "",
        blocked: frozenset[int] = frozenset(),
        budget: Budget | None = None,
    ) -> None:
        self._machine = machine
        self._budget = Budget() if budget is None else budget
        self._context = context  # the last characters before what is fed next; kept only where a lookbehind asks
        self._state, accepts = machine.enter(context, blocked)
        self.position = begin
        self.steps = 0  # characters looked at one by one: what a complexity test counts
        self._starts: list[int] = []  # of each group of threads but the one that starts here
        self._ends = [begin] * len(self._state.threads)
        self._match_start = -1
        self._matches: dict[int, int] = {}  # pattern → end
        if accepts:
            self._record(accepts, [], [])

    @property
    def held_from(self) -> int:
        """The position from which on text may still be part of a match; all before is free."""
        if self._matches:
            return min([self._match_start, *self._starts])
        return self._starts[0] if self._starts else self.position

    def feed(self, text: str, offset: int = 0) -> int:
        """Read on in `text` from `offset`; returns where it stopped: behind it, or before that once it is settled.

        Raises:
            TimeoutError: the budget is spent.
        """
        machine = self._machine
        self._budget.left += WORK_PER_CHARACTER * (len(text) - offset)
        vectors = machine._vectors
        state, at, size = self._state, offset, len(text)
        base = self.position - offset
        while at < size and not (state.matched and not state.threads):
            if state.skip is not None:
                found = state.skip(text, at)
                stop = size if found is None else found.start()
                if stop > at:
                    if state.idle:
                        state = self._idle(text, offset, stop, base)
                    for thread in state.ending:
                        self._ends[thread] = base + stop
                    at = stop
                    if at == size:
                        break
            if state.skip is None or state.idle:
                jump = self._jump(state, text[at : at + JUMP], base + at)
                if jump is not None:
                    at += jump.length
                    state = jump.state
                    continue
            move = state.moves.get(vectors.get(text[at], -1))
            if move is None or move.state is state:
                before = machine.work
                move = machine.move(state, text[at])
                if machine.work > before:
                    self._budget.spend(machine.work - before)
            at += 1
            self.steps += 1
            if move.groups is not None or move.ends is not None or move.accepts:
                self._apply(move, base + at)
            state = move.state
        self._state = state
        self.position = base + at
        if machine.width:
            self._context = (self._context + text[max(offset, at - machine.width) : at])[-machine.width :]
        return at

    def _jump(self, state: State, word: str, position: int) -> Jump | None:
        """Take several characters at once, where that is possible."""
        jump = state.jumps.get(word)
        if jump is None:
            if len(state.jumps) >= MAX_JUMPS:
                return None
            before = self._machine.work
            jump = self._machine.jump(state, word)
            self._budget.spend(self._machine.work - before)
        if not jump.length:
            return None
        self.steps += jump.length
        if jump.groups is not None:
            starts = self._starts
            self._starts = [starts[group] if group >= 0 else position - 1 - group for group in jump.groups]
        return jump

    def _idle(self, text: str, offset: int, stop: int, base: int) -> State:
        """Text went by in which nothing begins, up to `stop`."""
        width = self._machine.width
        context = ""
        if width:
            context = text[max(offset, stop - width) : stop]
            if len(context) < width:
                context = (self._context + context)[-width:]
        state = self._machine.enter(context)[0]
        self._starts = []
        self._ends = [base + stop] * len(state.threads)
        return state

    def skip(self, count: int, context: str = "") -> None:
        """`count` characters went by, ending in `context`, in which no match can begin, while none had begun."""
        self.position += count
        self._context = context
        self._state = self._machine.enter(context)[0]
        self._starts = []
        self._ends = [self.position] * len(self._state.threads)

    def _apply(self, move: Move, position: int) -> None:
        starts, ends = self._starts, self._ends
        if move.groups is not None:
            self._starts = [position - 1 if group == BEFORE else starts[group] for group in move.groups]
        if move.ends is not None:
            self._ends = [position if end < 0 else ends[end] for end in move.ends]
        if move.accepts:
            self.position = position
            self._record(move.accepts, starts, ends)

    def _record(self, accepts: tuple[Accept, ...], starts: list[int], ends: list[int]) -> None:
        for accept in accepts:
            start = starts[accept.group] if accept.group >= 0 else self.position - (accept.group == BEFORE)
            if start != self._match_start:  # an earlier start than what was recorded: that one has lost
                self._match_start = start
                self._matches = {}
            self._matches[accept.pattern] = self.position if accept.waiting < 0 else ends[accept.waiting]

    def settled(self) -> Match | None:
        """The match, once no further text can change it."""
        return self._best() if self._state.settled else None

    def finish(self) -> Match | None:
        """The match if the text ends here, or None."""
        decided: set[int] = set()
        group, start = -1, 0
        for index, thread in enumerate(self._state.threads):
            if thread.group != group:
                if decided:
                    break
                group = thread.group
                start = self._starts[group] if group < len(self._starts) else self.position
                if self._matches and start > self._match_start:
                    break
            if thread.pattern in decided:
                continue
            if isinstance(self._machine.program[thread.at], program.Match) and self._machine.holds_at_end(
                thread.conditions
            ):
                decided.add(thread.pattern)
                if start != self._match_start:
                    self._match_start, self._matches = start, {}
                self._matches[thread.pattern] = self._ends[index]
        return self._best()

    def _best(self) -> Match | None:
        if not self._matches:
            return None
        pattern = min(self._matches, key=lambda number: (-self._matches[number], number))
        return Match(pattern, self._match_start, self._matches[pattern])
