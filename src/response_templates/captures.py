"""What the named groups of a settled match hold.

A search (see `search`) knows where a match begins and ends, not which way its pattern went. This follows the one
pattern once more over the text of the match, anchored at its start, noting for each character from which thread each
thread came and what it saved; the winner's way is then read backwards. As `regex` does, it takes the way that the
pattern prefers among those that end where the match ends.

Bound: linear in the match's length, whatever the pattern; transitions are memoised as in the search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from . import automaton, program
from .automaton import NO_CONDITIONS, Condition, Machine
from .search import Match
from .skips import Find


@dataclass(slots=True, eq=False)
class _Step:
    """A transition: for each new thread the thread that it came from, and the slots that it saved on the way."""

    state: _State
    origins: tuple[int, ...]
    saves: tuple[tuple[int, ...], ...]
    repeatable: bool  # taken twice in a row it leads each thread back to the same one, which saves nothing


@dataclass(slots=True, eq=False)
class _State:
    """Threads of one pattern in order of preference: where each is in the program, and its open conditions."""

    threads: tuple[tuple[int, frozenset[Condition]], ...]
    seen: frozenset[int]
    watching: frozenset[int]
    steps: dict[int, _Step] = field(default_factory=dict)
    loops: int = 0
    skip: Find | None = None  # finds the next character on which the step is another one than `loop`
    loop: _Step | None = None


class Tracker:
    """Finds the captures of one pattern of a machine. Immutable but for its memo; shared by all streams."""

    def __init__(self, machine: Machine, pattern: int) -> None:
        self._machine = machine
        self._pattern = pattern
        self.names = {name: slot for (number, name), slot in machine.slots.items() if number == pattern}
        self._states: dict[tuple[tuple[tuple[int, frozenset[Condition]], ...], frozenset[int], frozenset[int]], _State]
        self._states = {}
        self._entries: dict[str, tuple[_State, tuple[tuple[int, ...], ...]]] = {}

    def groups(self, match: Match, text: str, offset: int, context: str, at_end: bool) -> dict[str, str | None]:
        """What each group holds; None: it took no part.

        Args:
            text: holds the match, and goes on as far as the search did (lookaheads look past the match's end).
            offset: the position of the first character of `text`.
            context: what stands before the match, for lookbehinds.
            at_end: does the stream end where `text` does?
        """
        if not self.names:
            return {}
        begin, end = match.start - offset, match.end - offset
        first, saved = self._enter(context)
        state = first
        trail: list[tuple[_Step, int, int]] = []  # a step, the position behind it, and how often in a row it was taken
        at = begin
        while at < end:
            if state.skip is not None and state.loop is not None:
                found = state.skip(text, at)
                stop = end if found is None else min(found.start(), end)
                if stop > at:
                    trail.append((state.loop, stop, stop - at))
                    at = stop
                    continue
            step = self._step(state, text[at])
            at += 1
            trail.append((step, at, 1))
            state = step.state
        winner = self._winner(state, text, end, at_end)
        return self._read_back(winner, trail, saved, text, begin)

    def _read_back(
        self,
        thread: int,
        trail: list[tuple[_Step, int, int]],
        saved: tuple[tuple[int, ...], ...],
        text: str,
        begin: int,
    ) -> dict[str, str | None]:
        slots: dict[int, int] = {}
        for step, position, count in reversed(trail):
            for slot in step.saves[thread]:
                slots.setdefault(slot, position)
            thread = step.origins[thread]
            if count > 1:
                thread = step.origins[thread]  # and so on: it stays there
        for slot in saved[thread]:
            slots.setdefault(slot, begin)
        return {
            name: text[slots[slot] : slots[slot + 1]] if slot in slots and slot + 1 in slots else None
            for name, slot in self.names.items()
        }

    def _winner(self, state: _State, text: str, end: int, at_end: bool) -> int:
        """The preferred thread that has matched here and whose conditions the following text meets."""
        waiting = [
            (number, conditions)
            for number, (at, conditions) in enumerate(state.threads)
            if isinstance(self._machine.program[at], program.Match)
        ]
        for number, conditions in waiting[:-1]:
            if self._come_true(conditions, state, text, end, at_end):
                return number
        return waiting[-1][0]

    def _come_true(self, conditions: frozenset[Condition], state: _State, text: str, at: int, at_end: bool) -> bool:
        machine, watching = self._machine, state.watching
        open_still: frozenset[Condition] | None = conditions
        for place in range(at, len(text)):
            if not open_still:
                break
            open_still, watching = machine.look_on(open_still, watching, text[place])
        if open_still is None:
            return False
        return not open_still or (at_end and machine.holds_at_end(open_still))

    # -- states and steps ----------------------------------------------------------------------------------------

    def _enter(self, context: str) -> tuple[_State, tuple[tuple[int, ...], ...]]:
        context = context[-self._machine.width :] if self._machine.width else ""
        entry = self._entries.get(context)
        if entry is None:
            if len(self._entries) >= automaton.MAX_ENTRIES:
                self._entries.clear()
            entry = self._entries[context] = self._make_entry(context)
        return entry

    def _make_entry(self, context: str) -> tuple[_State, tuple[tuple[int, ...], ...]]:
        watching, seen = self._machine.lookbehinds(context)
        known: set[tuple[int, frozenset[Condition]]] = set()
        begun = self._machine.closure(self._machine.starts[self._pattern], NO_CONDITIONS, (), seen, known)
        threads = list(begun)
        state = self._intern(tuple((at, conditions) for at, conditions, _ in threads), seen, watching)
        return state, tuple(saves for _, _, saves in threads)

    def _intern(
        self, threads: tuple[tuple[int, frozenset[Condition]], ...], seen: frozenset[int], watching: frozenset[int]
    ) -> _State:
        if len(self._states) > automaton.MAX_STATES:
            for old in list(self._states.values()):  # other threads add to it
                old.steps.clear()
            self._states.clear()
            self._entries.clear()
        key = (threads, seen, watching)
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = _State(threads, seen, watching)
        return state

    def _step(self, state: _State, char: str) -> _Step:
        number = self._machine.number(char)
        step = state.steps.get(number)
        if step is None:
            step = self._make_step(state, self._machine.class_list[number])
            state.steps[number] = step
        elif step.state is state and step.repeatable:
            state.loops += 1
            if state.loops == automaton.LOOPS_BEFORE_SKIP:
                state.skip = self._machine.way_out(state.threads, state.watching, [], number)
                state.loop = step
        return step

    def _make_step(self, state: _State, vector: tuple[bool, ...]) -> _Step:
        watching, seen = self._machine.watch_step(state.watching, vector)
        threads: list[tuple[int, frozenset[Condition]]] = []
        origins: list[int] = []
        saves: list[tuple[int, ...]] = []
        known: set[tuple[int, frozenset[Condition]]] = set()
        for origin, (at, conditions) in enumerate(state.threads):
            for where, open_still, slots in self._follow(at, conditions, vector, seen, known):
                threads.append((where, open_still))
                origins.append(origin)
                saves.append(slots)
        new = self._intern(tuple(threads), seen, watching)
        settled = new is state and all(origins[origin] == origin and not saves[origin] for origin in origins)
        return _Step(new, tuple(origins), tuple(saves), settled)

    def _follow(
        self,
        at: int,
        conditions: frozenset[Condition],
        vector: tuple[bool, ...],
        seen: frozenset[int],
        known: set[tuple[int, frozenset[Condition]]],
    ) -> Iterator[tuple[int, frozenset[Condition], tuple[int, ...]]]:
        """What one thread becomes on a character. One that has matched is over: the match goes on here."""
        step = self._machine.program[at]
        if not isinstance(step, program.Take) or not vector[step.predicate]:
            return
        advanced = self._machine.advance(conditions, vector, seen) if conditions else conditions
        if advanced is not None:
            yield from self._machine.closure(step.next, advanced, (), seen, known)
