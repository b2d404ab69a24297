"""Finding patterns in a stream, exactly and in linear time.

A `Machine` searches for several patterns at once, as a stream brings the text. What it finds is what a search of the
whole text would find: for each pattern the leftmost match with the pattern's own preferences (as `regex` has it), and
among the patterns the match that starts first, at the same place the longest, then the pattern that comes first.

How it knows that a match is settled
    The patterns are compiled to one Thompson program, and the machine follows all threads of it at once, in order of
    preference: an earlier start first, then the pattern's own preferences. A thread that reaches the end of its pattern
    cuts every thread that is less preferred. So the match is settled exactly when no thread is left that could replace
    it, and no further text can change that. The text that may still become part of a match begins where the earliest
    living thread began; all text before is free.

Lookaround
    A lookahead is a condition that a thread carries along: the set of sub-threads of the lookahead's own program. It is
    met, or has failed, when that set reaches its end or dies. A thread that has matched but for its conditions waits.
    A lookbehind runs beside the search, at every position; it is of bounded length, so that a search that begins in
    the middle of a stream is told enough by the last few characters. Anchors and word boundaries are lookaround.

Bound
    An ordered set of threads is a state; its transitions are memoised (a lazy DFA), so that known text costs a lookup a
    character. The number of states that are kept is capped; a transition that is not known costs at most the size of
    the program. Where each thread started is not part of the state: it is kept beside, in one register a group of
    threads with the same start.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import regex

from . import program, syntax
from .skips import Find, difference_search, first_search

MAX_STATES = 2_000
MAX_ENTRIES = 5_000
MAX_KNOWN_CHARACTERS = 20_000
JUMP = 8  # characters that are memoised together inside a delimiter
MAX_JUMPS = 256  # such words that a state keeps
LOOPS_BEFORE_SKIP = 6  # turns of a state to itself before a search for its way out is compiled


# A condition of a thread: a lookahead that is still open. Sub-threads are unordered: any of them will do.
SubThread: TypeAlias = "tuple[int, frozenset[Condition]]"


@dataclass(frozen=True, slots=True)
class Condition:
    negative: bool
    threads: frozenset[SubThread]


NO_CONDITIONS: frozenset[Condition] = frozenset()


# --- states and transitions -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Thread:
    """`group` counts the different starts among a state's threads, the earliest first."""

    group: int
    pattern: int
    at: int
    conditions: frozenset[Condition]


HERE = -1  # a start: where the new state is
BEFORE = -2  # a start: where the state before was


@dataclass(frozen=True, slots=True)
class Accept:
    """A match: of the threads of `group` (of the state before, see `Move`; `HERE`: begun here). `waiting`: the thread
    before that had its end already and only now had its conditions met (-1: it ends here)."""

    group: int
    pattern: int
    waiting: int


@dataclass(slots=True, eq=False)
class State:
    """`threads` in order of preference. `matched`: a match is recorded, so that no new threads are started."""

    threads: tuple[Thread, ...]
    groups: int  # with a start of their own; the threads that start here are one more
    matched: bool
    watching: frozenset[int]
    seen: frozenset[int]
    idle: bool  # nothing but the threads that start here: no text is held
    moves: dict[int, Move] = field(default_factory=dict)
    jumps: dict[str, Jump] = field(default_factory=dict)
    loops: int = 0  # how often a character led back to this very state
    skip: Find | None = None  # finds the next character that leads away (or, in an idle state, that begins a match)
    ending: tuple[int, ...] = ()  # threads that at each turn are new, and wait with an end that is here

    @property
    def settled(self) -> bool:
        return self.matched and not self.threads


@dataclass(slots=True)
class Move:
    """A transition: where each group (and each waiting thread's end) of the new state comes from."""

    state: State
    groups: tuple[int, ...] | None  # the old group; `BEFORE`: the threads that started there; None: as before
    ends: tuple[int, ...] | None  # for each thread the old one whose end it keeps, -1: here, -2: none; None: as before
    accepts: tuple[Accept, ...]


@dataclass(frozen=True, slots=True)
class Jump:
    """Several transitions in one: what the next `length` characters lead to. No match is among them."""

    length: int
    state: State
    groups: tuple[int, ...] | None  # as in `Move`; `-1 - n`: the threads that started `n` characters on


class Machine:
    """Several patterns compiled together. Immutable but for its memo; shared by all streams.

    Args:
        patterns: the trees (`syntax.parse`), the more preferred first.
    """

    def __init__(self, patterns: Sequence[syntax.Node]) -> None:
        compiler = program.Compiler()
        self.starts = [compiler.pattern(number, node) for number, node in enumerate(patterns)]
        self.program = compiler.program
        self.slots = compiler.slots
        self.width = max(map(syntax.lookbehind_width, patterns), default=0)  # characters that lookbehinds ask for
        self.work = 0  # threads followed while making transitions: what a step count in a test adds up
        self._sources = list(compiler.predicates)
        self._predicates = [regex.compile(source, regex.DOTALL).fullmatch for source in self._sources]
        self._watches = compiler.watches
        self._lock = threading.Lock()
        self._vectors: dict[str, int] = {}  # character → number of its class
        self._classes: dict[tuple[bool, ...], int] = {}
        self.class_list: list[tuple[bool, ...]] = []  # for each class, which predicates hold
        self._states: dict[_StateKey, State] = {}
        self._looks: dict[
            tuple[frozenset[Condition], frozenset[int], int], tuple[frozenset[Condition] | None, frozenset[int]]
        ] = {}
        self._entries: dict[tuple[str, frozenset[int]], tuple[State, tuple[Accept, ...]]] = {}
        self.plain = first_search(patterns)  # finds a character that a match can begin with; None: that isn't known

    # -- characters ----------------------------------------------------------------------------------------------

    def _class_of(self, char: str) -> int:
        vector = tuple(holds(char) is not None for holds in self._predicates)
        with self._lock:  # streams of several threads share the machine; a number must mean one class to all
            number = self._classes.get(vector)
            if number is None:
                number = len(self.class_list)
                self.class_list.append(vector)
                self._classes[vector] = number
            if len(self._vectors) > MAX_KNOWN_CHARACTERS:
                self._vectors.clear()
            self._vectors[char] = number
        return number

    def number(self, char: str) -> int:
        """The class of `char`: its place in `class_list`."""
        number = self._vectors.get(char)
        return self._class_of(char) if number is None else number

    # -- closures ------------------------------------------------------------------------------------------------

    def closure(
        self,
        at: int,
        conditions: frozenset[Condition],
        saves: tuple[int, ...],
        seen: frozenset[int],
        known: set[tuple[int, frozenset[Condition]]],
    ) -> Iterator[tuple[int, frozenset[Condition], tuple[int, ...]]]:
        """Threads that a thread at `at` becomes without taking a character, in order of preference.

        Args:
            saves: slots saved so far, in order.
            seen: the lookbehinds that have matched here.
            known: threads that are there already and win; grows.
        """
        stack = [(at, conditions, saves)]
        while stack:
            at, conditions, saves = stack.pop()
            if (at, conditions) in known:
                continue
            known.add((at, conditions))
            self.work += 1
            step = self.program[at]
            if isinstance(step, (program.Take, program.Match)):
                yield at, conditions, saves
            elif isinstance(step, program.Split):
                stack.append((step.other, conditions, saves))
                stack.append((step.prefer, conditions, saves))
            elif isinstance(step, program.Save):
                stack.append((step.next, conditions, (*saves, step.slot)))
            elif isinstance(step, program.Behind):
                if (step.watch in seen) != step.negative:
                    stack.append((step.next, conditions, saves))
            else:
                opened = self._open(step, seen)
                if opened is not None:
                    stack.append((step.next, conditions | opened, saves))

    def _open(self, step: program.Ahead, seen: frozenset[int]) -> frozenset[Condition] | None:
        """The condition that a lookahead adds here (none if it is met at once), or None if it has failed."""
        known: set[tuple[int, frozenset[Condition]]] = set()
        threads = [(at, inner) for at, inner, _ in self.closure(step.body, NO_CONDITIONS, (), seen, known)]
        return self._judge(step.negative, threads)

    def _judge(self, negative: bool, threads: list[SubThread]) -> frozenset[Condition] | None:
        met = any(isinstance(self.program[at], program.Match) and not inner for at, inner in threads)
        if met or not threads:
            return NO_CONDITIONS if met != negative else None
        return frozenset((Condition(negative, frozenset(threads)),))

    def advance(
        self, conditions: frozenset[Condition], vector: tuple[bool, ...], seen: frozenset[int]
    ) -> frozenset[Condition] | None:
        """Conditions after one character: those still open, or None if one has failed."""
        result = NO_CONDITIONS
        for condition in conditions:
            known: set[tuple[int, frozenset[Condition]]] = set()
            threads: list[SubThread] = []
            for at, inner in condition.threads:
                threads.extend(self._sub_step(at, inner, vector, seen, known))
            open_still = self._judge(condition.negative, threads)
            if open_still is None:
                return None
            result |= open_still
        return result

    def _sub_step(
        self,
        at: int,
        inner: frozenset[Condition],
        vector: tuple[bool, ...],
        seen: frozenset[int],
        known: set[tuple[int, frozenset[Condition]]],
    ) -> Iterator[SubThread]:
        step = self.program[at]
        target = at
        if isinstance(step, program.Take):
            if not vector[step.predicate]:
                return
            target = step.next
        if inner:
            advanced = self.advance(inner, vector, seen)
            if advanced is None:
                return
            inner = advanced
        for where, conditions, _ in self.closure(target, inner, (), seen, known):
            yield where, conditions

    def look_on(
        self, conditions: frozenset[Condition], watching: frozenset[int], char: str
    ) -> tuple[frozenset[Condition] | None, frozenset[int]]:
        """Conditions and lookbehinds after one more character, memoised (None: a condition has failed)."""
        number = self.number(char)
        key = (conditions, watching, number)
        after = self._looks.get(key)
        if after is None:
            if len(self._looks) > MAX_ENTRIES:
                self._looks.clear()
            vector = self.class_list[number]
            now_watching, seen = self.watch_step(watching, vector)
            after = self._looks[key] = (self.advance(conditions, vector, seen), now_watching)
        return after

    def holds_at_end(self, conditions: frozenset[Condition]) -> bool:
        """Are the open conditions met if the text ends here?"""
        return all(self._met_at_end(condition) != condition.negative for condition in conditions)

    def _met_at_end(self, condition: Condition) -> bool:
        return any(
            isinstance(self.program[at], program.Match) and self.holds_at_end(inner) for at, inner in condition.threads
        )

    # -- lookbehinds ---------------------------------------------------------------------------------------------

    def watch_step(
        self, watching: frozenset[int], vector: tuple[bool, ...] | None
    ) -> tuple[frozenset[int], frozenset[int]]:
        """Threads of all lookbehinds after one more character, and which of them match just there."""
        if not self._watches:
            return frozenset(), frozenset()
        known: set[tuple[int, frozenset[Condition]]] = set()
        targets = list(self._watches)
        if vector is not None:
            for at in watching:
                step = self.program[at]
                if isinstance(step, program.Take) and vector[step.predicate]:
                    targets.append(step.next)
        threads: set[int] = set()
        seen: set[int] = set()
        for target in targets:
            for at, _, _ in self.closure(target, NO_CONDITIONS, (), frozenset(), known):
                step = self.program[at]
                if isinstance(step, program.Match):
                    seen.add(-2 - step.pattern)
                else:
                    threads.add(at)
        return frozenset(threads), frozenset(seen)

    # -- states --------------------------------------------------------------------------------------------------

    def lookbehinds(self, context: str) -> tuple[frozenset[int], frozenset[int]]:
        """The threads of the lookbehinds after `context`, and which of them match just there."""
        watching, seen = self.watch_step(frozenset(), None)
        for char in context[-self.width :] if self.width else "":
            watching, seen = self.watch_step(watching, self.class_list[self.number(char)])
        return watching, seen

    def enter(self, context: str, blocked: frozenset[int] = frozenset()) -> tuple[State, tuple[Accept, ...]]:
        """The state in which a search begins.

        Args:
            context: the characters just before (only the last `width` matter).
            blocked: patterns that must not match at this very place.
        """
        key = (context[-self.width :] if self.width else "", blocked)
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) > MAX_ENTRIES:
                self._entries.clear()
            building = _Building(self, *self.lookbehinds(key[0]))
            building.seed(blocked)
            entry = self._entries[key] = (building.state(bool(building.accepts)), tuple(building.accepts))
        return entry

    def move(self, state: State, char: str) -> Move:
        """The transition of `state` on `char`, memoised."""
        number = self.number(char)
        move = state.moves.get(number)
        if move is None:
            move = self._make_move(state, self.class_list[number])
            if len(self._states) > MAX_STATES:
                self._forget(state)
            state.moves[number] = move
        elif move.state is state and move.groups is None and not move.accepts:
            self._note_loop(state, move, number)
        return move

    def jump(self, state: State, word: str) -> Jump:
        """As many transitions on `word` as nothing comes of but threads; memoised."""
        now, length = state, 0
        groups: list[int] = list(range(state.groups))
        for length, char in enumerate(word):
            move = self.move(now, char)
            if move.accepts or move.ends is not None:
                break
            if move.groups is not None:
                groups = [-1 - length if group == BEFORE else groups[group] for group in move.groups]
            now = move.state
            if now.skip is not None or not now.threads:
                length += 1
                break
        else:
            length = len(word)
        same = groups == list(range(state.groups))
        jump = state.jumps[word] = Jump(length, now, None if same else tuple(groups))
        return jump

    def _forget(self, current: State) -> None:
        """Too many states: drop the memo. Streams keep the state that they are in; it is only no longer shared."""
        for state in list(self._states.values()):  # other threads add to it
            state.moves.clear()
            state.jumps.clear()
        self._states.clear()
        self._entries.clear()
        current.moves.clear()

    def _make_move(self, state: State, vector: tuple[bool, ...]) -> Move:
        watching, seen = self.watch_step(state.watching, vector)
        building = _Building(self, watching, seen)
        for index, thread in enumerate(state.threads):
            if building.cut_group is not None and thread.group > building.cut_group:
                break
            building.follow(index, thread, thread.group if thread.group < state.groups else BEFORE, vector)
        if not state.matched and not building.accepts:
            building.seed(frozenset())
        new = building.state(state.matched or bool(building.accepts))
        groups: tuple[int, ...] | None = tuple(origin for origin in building.group_origins if origin != HERE)
        if groups == tuple(range(state.groups)):
            groups = None
        ends: tuple[int, ...] | None = tuple(building.end_origins)
        if all(end in (-2, index) for index, end in enumerate(building.end_origins)):
            ends = None
        return Move(new, groups, ends, tuple(building.accepts))

    def intern(self, state: State) -> State:
        """The one object for states that are alike."""
        key = (state.threads, state.groups, state.matched, state.watching, state.seen)
        known = self._states.get(key)
        if known is None:
            known = self._states[key] = state
            if state.idle:
                state.skip = self.plain
        return known

    # -- skipping: where a state turns to itself, C finds the next character that leads away -----------------------

    def _note_loop(self, state: State, move: Move, number: int) -> None:
        state.loops += 1
        ends = move.ends or ()
        if state.loops == LOOPS_BEFORE_SKIP and all(end in (-2, -1, index) for index, end in enumerate(ends)):
            state.ending = tuple(index for index, end in enumerate(ends) if end == -1)
            threads = [(thread.at, thread.conditions) for thread in state.threads]
            state.skip = self.way_out(threads, state.watching, [] if state.matched else self.starts, number)

    def way_out(
        self,
        threads: Iterable[tuple[int, frozenset[Condition]]],
        watching: frozenset[int],
        begun: list[int],
        number: int,
    ) -> Find | None:
        """A search for the next character that a state does not treat as those of class `number`.

        Args:
            threads, watching: the state's threads and those of the lookbehinds.
            begun: where threads are begun at each character.
        """
        takes: set[int] = set(watching)
        for at, conditions in threads:
            takes.add(at)
            self._takes_of(conditions, takes)
        takes.update(self.reachable([*self._watches, *begun]))
        steps = [self.program[at] for at in takes]
        asked = {step.predicate for step in steps if isinstance(step, program.Take)}
        vector = self.class_list[number]
        return difference_search((self._sources[each], vector[each]) for each in asked)

    def _takes_of(self, conditions: Iterable[Condition], takes: set[int]) -> None:
        for condition in conditions:
            for at, inner in condition.threads:
                takes.add(at)
                self._takes_of(inner, takes)

    def reachable(self, begun: Iterable[int]) -> set[int]:
        """Instructions that can be reached from `begun` without taking a character, whatever the lookaround says."""
        found: set[int] = set()
        stack = list(begun)
        while stack:
            at = stack.pop()
            if at in found:
                continue
            found.add(at)
            step = self.program[at]
            if isinstance(step, program.Split):
                stack += (step.prefer, step.other)
            elif isinstance(step, program.Ahead):
                stack += (step.body, step.next)
            elif isinstance(step, (program.Save, program.Behind)):
                stack.append(step.next)
        return found


_StateKey: TypeAlias = "tuple[tuple[Thread, ...], int, bool, frozenset[int], frozenset[int]]"


class _Building:
    """A state in the making: threads are added in order of preference."""

    def __init__(self, machine: Machine, watching: frozenset[int], seen: frozenset[int]) -> None:
        self.machine = machine
        self.watching = watching
        self.seen = seen
        self.threads: list[Thread] = []
        self.accepts: list[Accept] = []
        self.group_origins: list[int] = []
        self.end_origins: list[int] = []
        self.cut_group: int | None = None
        self._known: list[set[tuple[int, frozenset[Condition]]]] = [set() for _ in machine.starts]
        self._done: set[int] = set()  # patterns of the current group that have matched: what follows is less preferred
        self._origin: int | None = None

    def follow(self, index: int, thread: Thread, origin: int, vector: tuple[bool, ...]) -> None:
        """What `thread` (number `index` of the state before, its group `origin`) becomes on a character."""
        machine = self.machine
        step = machine.program[thread.at]
        taken = step if isinstance(step, program.Take) else None
        self._begin_group(origin)
        if thread.pattern in self._done or (taken is not None and not vector[taken.predicate]):
            return
        conditions: frozenset[Condition] | None = thread.conditions
        if conditions:
            conditions = machine.advance(conditions, vector, self.seen)
            if conditions is None:
                return
        target, waiting = (thread.at, index) if taken is None else (taken.next, -1)
        if self._spread(origin, thread.pattern, target, conditions or NO_CONDITIONS, waiting):
            self.cut_group = thread.group

    def seed(self, blocked: frozenset[int]) -> None:
        """New threads for matches that begin here."""
        self._begin_group(HERE)
        for pattern, start in enumerate(self.machine.starts):
            if pattern not in blocked:
                self._spread(HERE, pattern, start, NO_CONDITIONS, -1)

    def state(self, matched: bool) -> State:
        groups = sum(origin != HERE for origin in self.group_origins)
        idle = self.group_origins == [HERE] and not matched
        state = State(tuple(self.threads), groups, matched, self.watching, self.seen, idle)
        return self.machine.intern(state)

    def _begin_group(self, origin: int) -> None:
        if origin != self._origin:
            self._origin = origin
            self._done = set()

    def _spread(self, group: int, pattern: int, at: int, conditions: frozenset[Condition], waiting: int) -> bool:
        """Add what a thread becomes; true if that is a match."""
        machine = self.machine
        for where, open_conditions, _ in machine.closure(at, conditions, (), self.seen, self._known[pattern]):
            is_end = isinstance(machine.program[where], program.Match)
            if is_end and not open_conditions:
                self.accepts.append(Accept(group, pattern, waiting))
                self._done.add(pattern)
                return True
            if not self.group_origins or self.group_origins[-1] != group:
                self.group_origins.append(group)
            self.threads.append(Thread(len(self.group_origins) - 1, pattern, where, open_conditions))
            self.end_origins.append(waiting if is_end else -2)
        return False
