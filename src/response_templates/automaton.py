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

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import regex

from . import syntax
from .syntax import Unsupported

MAX_PROGRAM = 3_000
MAX_STATES = 2_000
MAX_KNOWN_CHARACTERS = 20_000

# --- the program: a list of instructions; a thread is a position in it ------------------------------------------


@dataclass(slots=True)
class _Take:
    """Take one character that `predicate` holds for."""

    predicate: int
    next: int = -1


@dataclass(slots=True)
class _Split:
    """Go on at both; `prefer` first."""

    prefer: int = -1
    other: int = -1


@dataclass(slots=True)
class _Save:
    """Note the position under `slot` (two a group: begin and end)."""

    slot: int
    next: int = -1


@dataclass(slots=True)
class _Ahead:
    """Go on if the program at `body` matches (or, negative, does not match) from here."""

    body: int
    negative: bool
    next: int = -1


@dataclass(slots=True)
class _Behind:
    """Go on if lookbehind number `watch` has just matched (or, negative, has not)."""

    watch: int
    negative: bool
    next: int = -1


@dataclass(slots=True)
class _Match:
    """The end of pattern number `pattern`; of a lookaround's body where `pattern` is negative."""

    pattern: int


_Instruction: TypeAlias = _Take | _Split | _Save | _Ahead | _Behind | _Match

# A condition of a thread: a lookahead that is still open. Sub-threads are unordered: any of them will do.
_SubThread: TypeAlias = "tuple[int, frozenset[_Condition]]"


@dataclass(frozen=True, slots=True)
class _Condition:
    negative: bool
    threads: frozenset[_SubThread]


_NO_CONDITIONS: frozenset[_Condition] = frozenset()


class _Compiler:
    """Trees to one program. `pieces` are emitted so that each instruction falls through to the one after it."""

    def __init__(self) -> None:
        self.program: list[_Instruction] = []
        self.predicates: dict[str, int] = {}
        self.literals: dict[int, str] = {}
        self.slots: dict[tuple[int, str], int] = {}
        self.watches: list[int] = []  # where the body of each lookbehind begins
        self._known_watches: dict[syntax.Node, int] = {}
        self._pattern = 0

    def pattern(self, number: int, node: syntax.Node) -> int:
        """Compile pattern `number`; returns where it begins."""
        self._pattern = number
        return self._body(node, number)

    def _body(self, node: syntax.Node, end: int) -> int:
        over = self._add(_Split())  # jumps over the body when the enclosing code falls into it
        begin = len(self.program)
        self._emit(node)
        self._add(_Match(end))
        self._jump(over, len(self.program))
        return begin

    def _add(self, instruction: _Instruction) -> int:
        if len(self.program) >= MAX_PROGRAM:
            raise Unsupported(f"too large (more than {MAX_PROGRAM} instructions; are there huge repeats?)")
        self.program.append(instruction)
        return len(self.program) - 1

    def _jump(self, split: int, target: int) -> None:
        self.program[split] = _Split(target, target)

    def _emit(self, node: syntax.Node) -> None:
        if isinstance(node, syntax.Char):
            at = self._add(_Take(self._predicate(node)))
            self.program[at].next = at + 1  # type: ignore[union-attr]
        elif isinstance(node, syntax.Sequence):
            for item in node.items:
                self._emit(item)
        elif isinstance(node, syntax.Choice):
            self._choice(node)
        elif isinstance(node, syntax.Repeat):
            self._repeat(node)
        elif isinstance(node, syntax.Capture):
            slot = self.slots.setdefault((self._pattern, node.name), 2 * len(self.slots))
            self._then(_Save(slot))
            self._emit(node.item)
            self._then(_Save(slot + 1))
        elif isinstance(node, syntax.Lookahead):
            self._then(_Ahead(self._body(node.item, -1), node.negative))
        else:
            self._then(_Behind(self._watch(node.item), node.negative))

    def _then(self, instruction: _Save | _Ahead | _Behind) -> None:
        instruction.next = self._add(instruction) + 1

    def _choice(self, node: syntax.Choice) -> None:
        ends = []
        for option in node.options[:-1]:
            split = self._add(_Split())
            self._emit(option)
            ends.append(self._add(_Split()))
            self.program[split] = _Split(split + 1, len(self.program))
        self._emit(node.options[-1])
        for end in ends:
            self._jump(end, len(self.program))

    def _repeat(self, node: syntax.Repeat) -> None:
        for _ in range(node.least):
            self._emit(node.item)
        if node.most is None:
            self._loop(node)
            return
        splits = []
        for _ in range(node.most - node.least):
            splits.append(self._add(_Split()))
            self._emit(node.item)
        for split in splits:
            self._either(split, split + 1, len(self.program), node.greedy)

    def _loop(self, node: syntax.Repeat) -> None:
        entry = self._add(_Split())
        self._emit(node.item)
        again = self._add(_Split())
        self._jump(again, entry)
        self._either(entry, entry + 1, len(self.program), node.greedy)

    def _either(self, split: int, go: int, leave: int, greedy: bool) -> None:
        self.program[split] = _Split(go, leave) if greedy else _Split(leave, go)

    def _watch(self, node: syntax.Node) -> int:
        if node not in self._known_watches:
            self._known_watches[node] = len(self.watches)
            self.watches.append(self._body(node, -2 - len(self.watches)))
        return self._known_watches[node]

    def _predicate(self, char: syntax.Char) -> int:
        number = self.predicates.setdefault(char.source, len(self.predicates))
        if char.literal is not None:
            self.literals[number] = char.literal
        return number


# --- states and transitions -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Thread:
    """`group` counts the different starts among a state's threads, the earliest first."""

    group: int
    pattern: int
    at: int
    conditions: frozenset[_Condition]


@dataclass(frozen=True, slots=True)
class _Accept:
    """A match: of the threads of `group` (of the state before; -1: begun here). `waiting`: the thread before that had
    its end already and only now had its conditions met (-1: it ends here)."""

    group: int
    pattern: int
    waiting: int


@dataclass(slots=True)
class _State:
    """`threads` in order of preference. `matched`: a match is recorded, so that no new threads are started."""

    threads: tuple[_Thread, ...]
    groups: int
    matched: bool
    watching: frozenset[int]
    seen: frozenset[int]
    moves: dict[int, _Move] = field(default_factory=dict)
    idle: bool = False  # nothing but the threads that start here: no text is held
    skip: Any = None  # when idle: finds the next character that could begin a match

    @property
    def settled(self) -> bool:
        return self.matched and not self.threads


@dataclass(slots=True)
class _Move:
    """A transition: where each group (and each waiting thread's end) of the new state comes from."""

    state: _State
    groups: tuple[int, ...] | None  # None: as before
    ends: tuple[int, ...] | None  # for each thread the old thread whose end it keeps, -1: here, -2: none; None: no ends
    accepts: tuple[_Accept, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """A match: `pattern` is the number of the pattern; `start` and `end` are positions in the text."""

    pattern: int
    start: int
    end: int


class Machine:
    """Several patterns compiled together. Immutable but for its memo; shared by all streams.

    Args:
        patterns: the trees (`syntax.parse`), the more preferred first.
    """

    def __init__(self, patterns: Sequence[syntax.Node]) -> None:
        compiler = _Compiler()
        self._starts = [compiler.pattern(number, node) for number, node in enumerate(patterns)]
        self._program = compiler.program
        self._predicates = [regex.compile(source, regex.DOTALL).fullmatch for source in compiler.predicates]
        self._sources = list(compiler.predicates)
        self._watches = compiler.watches
        self.slots = compiler.slots
        self._vectors: dict[str, int] = {}  # character → number of its class
        self._classes: dict[tuple[bool, ...], int] = {}
        self._class_list: list[tuple[bool, ...]] = []
        self._states: dict[Any, _State] = {}
        self._entries: dict[tuple[frozenset[int], frozenset[int], frozenset[int]], tuple[_State, tuple[_Accept, ...]]] = {}
        self.needs_context = bool(self._watches)
        self.work = 0  # threads followed while making transitions: what a step count in a test adds up
        self.plain: Any = None  # finds a character that a match can begin with; None if that isn't known
        if not self._watches:
            self.plain = self.enter("")[0].skip

    # -- characters ----------------------------------------------------------------------------------------------

    def _class_of(self, char: str) -> int:
        if len(self._vectors) > MAX_KNOWN_CHARACTERS:
            self._vectors.clear()
        vector = tuple(holds(char) is not None for holds in self._predicates)
        number = self._classes.get(vector)
        if number is None:
            number = self._classes[vector] = len(self._class_list)
            self._class_list.append(vector)
        self._vectors[char] = number
        return number

    # -- closures ------------------------------------------------------------------------------------------------

    def closure(
        self,
        at: int,
        conditions: frozenset[_Condition],
        saves: tuple[int, ...],
        seen: frozenset[int],
        known: set[tuple[int, frozenset[_Condition]]],
    ) -> Iterator[tuple[int, frozenset[_Condition], tuple[int, ...]]]:
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
            step = self._program[at]
            if isinstance(step, (_Take, _Match)):
                yield at, conditions, saves
            elif isinstance(step, _Split):
                stack.append((step.other, conditions, saves))
                stack.append((step.prefer, conditions, saves))
            elif isinstance(step, _Save):
                stack.append((step.next, conditions, (*saves, step.slot)))
            elif isinstance(step, _Behind):
                if (step.watch in seen) != step.negative:
                    stack.append((step.next, conditions, saves))
            else:
                opened = self._open(step, seen)
                if opened is not None:
                    stack.append((step.next, conditions | opened, saves))

    def _open(self, step: _Ahead, seen: frozenset[int]) -> frozenset[_Condition] | None:
        """The condition that a lookahead adds here (none if it is met at once), or None if it has failed."""
        known: set[tuple[int, frozenset[_Condition]]] = set()
        threads = [(at, inner) for at, inner, _ in self.closure(step.body, _NO_CONDITIONS, (), seen, known)]
        return self._judge(step.negative, threads)

    def _judge(self, negative: bool, threads: list[_SubThread]) -> frozenset[_Condition] | None:
        met = any(isinstance(self._program[at], _Match) and not inner for at, inner in threads)
        if met or not threads:
            return _NO_CONDITIONS if met != negative else None
        return frozenset((_Condition(negative, frozenset(threads)),))

    def _advance(
        self, conditions: frozenset[_Condition], vector: tuple[bool, ...], seen: frozenset[int]
    ) -> frozenset[_Condition] | None:
        """Conditions after one character: those still open, or None if one has failed."""
        result = _NO_CONDITIONS
        for condition in conditions:
            known: set[tuple[int, frozenset[_Condition]]] = set()
            threads: list[_SubThread] = []
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
        inner: frozenset[_Condition],
        vector: tuple[bool, ...],
        seen: frozenset[int],
        known: set[tuple[int, frozenset[_Condition]]],
    ) -> Iterator[_SubThread]:
        step = self._program[at]
        target = at
        if isinstance(step, _Take):
            if not vector[step.predicate]:
                return
            target = step.next
        if inner:
            advanced = self._advance(inner, vector, seen)
            if advanced is None:
                return
            inner = advanced
        for where, conditions, _ in self.closure(target, inner, (), seen, known):
            yield where, conditions

    def holds_at_end(self, conditions: frozenset[_Condition]) -> bool:
        """Are the open conditions met if the text ends here?"""
        return all(self._met_at_end(condition) != condition.negative for condition in conditions)

    def _met_at_end(self, condition: _Condition) -> bool:
        return any(
            isinstance(self._program[at], _Match) and self.holds_at_end(inner) for at, inner in condition.threads
        )

    # -- lookbehinds ---------------------------------------------------------------------------------------------

    def _watch_step(
        self, watching: frozenset[int], vector: tuple[bool, ...] | None
    ) -> tuple[frozenset[int], frozenset[int]]:
        """Threads of all lookbehinds after one more character, and which of them match just there."""
        if not self._watches:
            return frozenset(), frozenset()
        known: set[tuple[int, frozenset[_Condition]]] = set()
        targets = list(self._watches)
        if vector is not None:
            for at in watching:
                step = self._program[at]
                if isinstance(step, _Take) and vector[step.predicate]:
                    targets.append(step.next)
        threads: set[int] = set()
        seen: set[int] = set()
        for target in targets:
            for at, _, _ in self.closure(target, _NO_CONDITIONS, (), frozenset(), known):
                step = self._program[at]
                if isinstance(step, _Match):
                    seen.add(-2 - step.pattern)
                else:
                    threads.add(at)
        return frozenset(threads), frozenset(seen)

    # -- states --------------------------------------------------------------------------------------------------

    def enter(self, context: str, blocked: frozenset[int] = frozenset()) -> tuple[_State, tuple[_Accept, ...]]:
        """The state in which a search begins.

        Args:
            context: the characters just before (only the last `syntax.MAX_LOOKBEHIND` matter, and only to lookbehinds).
            blocked: patterns that must not match at this very place.
        """
        watching, seen = self._watch_step(frozenset(), None)
        if self._watches:
            for char in context[-syntax.MAX_LOOKBEHIND :]:
                watching, seen = self._watch_step(watching, self._class_list[self._number(char)])
        key = (watching, seen, blocked)
        entry = self._entries.get(key)
        if entry is None:
            building = _Building(self, watching, seen)
            building.seed(blocked)
            entry = self._entries[key] = (building.state(bool(building.accepts)), tuple(building.accepts))
        return entry

    def _number(self, char: str) -> int:
        number = self._vectors.get(char)
        return self._class_of(char) if number is None else number

    def move(self, state: _State, char: str) -> _Move:
        """The transition of `state` on `char`, memoised."""
        number = self._number(char)
        move = state.moves.get(number)
        if move is None:
            move = self._make_move(state, self._class_list[number])
            if len(self._states) <= MAX_STATES:
                state.moves[number] = move
            else:
                self._forget(state)
        return move

    def _forget(self, current: _State) -> None:
        """Too many states: drop the memo. Streams keep the state that they are in; it is only no longer shared."""
        for state in self._states.values():
            state.moves.clear()
        self._states.clear()
        self._entries.clear()
        current.moves.clear()

    def _make_move(self, state: _State, vector: tuple[bool, ...]) -> _Move:
        watching, seen = self._watch_step(state.watching, vector)
        building = _Building(self, watching, seen)
        for index, thread in enumerate(state.threads):
            if building.cut_group is not None and thread.group > building.cut_group:
                break
            building.follow(index, thread, vector)
        if not state.matched and not building.accepts:
            building.seed(frozenset())
        new = building.state(state.matched or bool(building.accepts))
        groups: tuple[int, ...] | None = tuple(building.group_origins)
        if groups == tuple(range(state.groups)) and -1 not in building.group_origins:
            groups = None
        ends = tuple(building.end_origins)
        return _Move(new, groups, ends if any(end != -2 for end in ends) else None, tuple(building.accepts))

    def intern(self, state: _State) -> _State:
        key = (state.threads, state.matched, state.watching, state.seen)
        known = self._states.get(key)
        if known is not None:
            return known
        self._states[key] = state
        if state.idle and not self._watches:
            state.skip = self._skip(state)
        return state

    def _skip(self, state: _State) -> Any:
        """A search for the next character that any of the threads takes; None if one of them takes (nearly) all."""
        sources = set()
        for thread in state.threads:
            step = self._program[thread.at]
            if not isinstance(step, _Take):
                return None  # a match that waits for its conditions: every character counts
            sources.add(self._sources[step.predicate])
        if not sources:
            return None
        return regex.compile("|".join(sorted(sources)), regex.DOTALL).search


class _Building:
    """A state in the making: threads are added in order of preference."""

    def __init__(self, machine: Machine, watching: frozenset[int], seen: frozenset[int]) -> None:
        self.machine = machine
        self.watching = watching
        self.seen = seen
        self.threads: list[_Thread] = []
        self.accepts: list[_Accept] = []
        self.group_origins: list[int] = []
        self.end_origins: list[int] = []
        self.cut_group: int | None = None
        self._known: list[set[tuple[int, frozenset[_Condition]]]] = [set() for _ in machine._starts]
        self._done: set[int] = set()  # patterns of the current group that have matched: what follows is less preferred
        self._origin: int | None = None
        self._seeds_only = True

    def follow(self, index: int, thread: _Thread, vector: tuple[bool, ...]) -> None:
        """What `thread` (number `index` of the state before) becomes on a character."""
        machine = self.machine
        step = machine._program[thread.at]
        self._begin_group(thread.group)
        if thread.pattern in self._done:
            return
        taken = isinstance(step, _Take)
        if taken and not vector[step.predicate]:
            return
        conditions: frozenset[_Condition] | None = thread.conditions
        if conditions:
            conditions = machine._advance(conditions, vector, self.seen)
            if conditions is None:
                return
        self._seeds_only = False
        target = step.next if isinstance(step, _Take) else thread.at
        self._spread(thread.group, thread.pattern, target, conditions or _NO_CONDITIONS, -1 if taken else index)

    def seed(self, blocked: frozenset[int]) -> None:
        """New threads for matches that begin here."""
        self._begin_group(-1)
        for pattern, start in enumerate(self.machine._starts):
            if pattern not in blocked:
                self._spread(-1, pattern, start, _NO_CONDITIONS, -1)

    def state(self, matched: bool) -> _State:
        idle = self.group_origins == [-1] and not matched
        threads = tuple(self.threads)
        state = _State(threads, len(self.group_origins), matched, self.watching, self.seen, idle=idle)
        return self.machine.intern(state)

    def _begin_group(self, origin: int) -> None:
        if origin != self._origin:
            self._origin = origin
            self._done = set()

    def _spread(self, group: int, pattern: int, at: int, conditions: frozenset[_Condition], waiting: int) -> None:
        machine = self.machine
        for where, open_conditions, _ in machine.closure(at, conditions, (), self.seen, self._known[pattern]):
            is_end = isinstance(machine._program[where], _Match)
            if is_end and not open_conditions:
                self.accepts.append(_Accept(group, pattern, waiting))
                self._done.add(pattern)
                self.cut_group = group if group >= 0 else None
                return
            if not self.group_origins or self.group_origins[-1] != group:
                self.group_origins.append(group)
            self.threads.append(_Thread(len(self.group_origins) - 1, pattern, where, open_conditions))
            self.end_origins.append(waiting if is_end else -2)


# --- a search in one stream -------------------------------------------------------------------------------------


class Search:
    """One search for the patterns of a machine, from one place of a stream on. Fed with text; says when it is settled.

    Positions are in the text that is fed, counted from `begin`.
    """

    __slots__ = ("_ends", "_machine", "_match_start", "_matches", "_starts", "_state", "position", "steps")

    def __init__(self, machine: Machine, begin: int, context: str = "", blocked: frozenset[int] = frozenset()) -> None:
        self._machine = machine
        self._state, accepts = machine.enter(context, blocked)
        self.position = begin
        self.steps = 0  # characters looked at one by one: what a complexity test counts
        self._starts = [begin] * self._state.groups
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
        return self._starts[0] if self._starts and not self._state.idle else self.position

    def feed(self, text: str, offset: int = 0) -> int:
        """Read on in `text` from `offset`. Returns where it stopped: behind `text`, or before that once it is settled."""
        state = self._state
        machine = self._machine
        vectors, position = machine._vectors, self.position
        at, size = offset, len(text)
        while at < size and not (state.matched and not state.threads):
            if state.skip is not None:
                found = state.skip(text, at)
                skipped = (size if found is None else found.start()) - at
                if skipped:
                    at += skipped
                    position += skipped
                    self._starts = [position]
                if at == size:
                    break
            char = text[at]
            move = state.moves.get(vectors.get(char, -1)) or machine.move(state, char)
            at += 1
            position += 1
            self.steps += 1
            self._apply(move, position)
            state = move.state
        self._state = state
        self.position = position
        return at

    def skip(self, count: int) -> None:
        """`count` characters went by in which no match can begin, while none had begun."""
        self.position += count
        self._starts = [self.position] * self._state.groups

    def _apply(self, move: _Move, position: int) -> None:
        if move.accepts or move.ends is not None or move.groups is not None:
            starts, ends = self._starts, self._ends
            self.position = position
            if move.groups is not None:
                self._starts = [position if group < 0 else starts[group] for group in move.groups]
            if move.ends is not None:
                self._ends = [position if end < 0 else ends[end] for end in move.ends]
            if move.accepts:
                self._record(move.accepts, starts, ends)

    def _record(self, accepts: tuple[_Accept, ...], starts: list[int], ends: list[int]) -> None:
        for accept in accepts:
            start = self.position if accept.group < 0 else starts[accept.group]
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
        group = -1
        for index, thread in enumerate(self._state.threads):
            if thread.group != group:
                if decided:
                    break
                group = thread.group
                if self._matches and self._starts[group] > self._match_start:
                    break
            if thread.pattern in decided:
                continue
            if isinstance(self._machine._program[thread.at], _Match) and self._machine.holds_at_end(thread.conditions):
                decided.add(thread.pattern)
                start = self._starts[group]
                if start != self._match_start:
                    self._match_start, self._matches = start, {}
                self._matches[thread.pattern] = self._ends[index]
        return self._best()

    def _best(self) -> Match | None:
        if not self._matches:
            return None
        pattern = min(self._matches, key=lambda number: (-self._matches[number], number))
        return Match(pattern, self._match_start, self._matches[pattern])


def captures(machine: Machine, match: Match, text: str, offset: int, context: str, at_end: bool) -> dict[str, str | None]:
    """What the named groups of a settled match hold.

    Args:
        text: the text from which the match was found; `offset` is the position of its first character. It must reach
            as far as the search did (lookaheads look past the end of the match).
        context: what stands before `text`, as for `Machine.enter`.
        at_end: does the stream end where `text` does?
    """
    names = {name: slot for (pattern, name), slot in machine.slots.items() if pattern == match.pattern}
    if not names:
        return {}
    saves = _winning_saves(machine, match, text[match.start - offset :], context + text[: match.start - offset], at_end)
    positions = dict(saves)
    groups: dict[str, str | None] = dict.fromkeys(names)
    for name, slot in names.items():
        if slot in positions and slot + 1 in positions:
            groups[name] = text[match.start - offset + positions[slot] : match.start - offset + positions[slot + 1]]
    return groups


_Saves: TypeAlias = "tuple[Any, ...]"


def _winning_saves(machine: Machine, match: Match, text: str, context: str, at_end: bool) -> list[tuple[int, int]]:
    """Follow the threads of one pattern from the match's start, each with the slots that it has saved.

    The slots of a thread are a linked list (newest first), so that threads can share them.
    """
    size = match.end - match.start
    watching, seen = machine._watch_step(frozenset(), None)
    for char in context[-syntax.MAX_LOOKBEHIND :] if machine.needs_context else "":
        watching, seen = machine._watch_step(watching, machine._class_list[machine._number(char)])
    best: _Saves | None = None
    known: set[tuple[int, frozenset[_Condition]]] = set()
    threads: list[tuple[int, frozenset[_Condition], int, _Saves]] = []
    for at, conditions, slots in machine.closure(machine._starts[match.pattern], _NO_CONDITIONS, (), seen, known):
        threads.append((at, conditions, 0, _saved((), slots, 0)))
    for position, char in enumerate(itertools.chain(text, [""])):
        following: list[tuple[int, frozenset[_Condition], int, _Saves]] = []
        known = set()
        vector = machine._class_list[machine._number(char)] if char else ()
        if char:
            watching, next_seen = machine._watch_step(watching, vector)
        for at, conditions, end, saves in threads:
            step = machine._program[at]
            waiting = isinstance(step, _Match)
            if waiting and (not conditions or (not char and at_end and machine.holds_at_end(conditions))):
                if end == size:
                    best = saves
                break
            if not char or not (waiting or vector[step.predicate]):  # type: ignore[union-attr]
                continue
            advanced = machine._advance(conditions, vector, next_seen) if conditions else conditions
            if advanced is None:
                continue
            target = at if waiting else step.next  # type: ignore[union-attr]
            for where, open_still, slots in machine.closure(target, advanced, (), next_seen, known):
                following.append((where, open_still, end if waiting else position + 1, _saved(saves, slots, position + 1)))
        threads = following
        if not threads:
            break
        if char:
            seen = next_seen
    result = []
    while best:
        slot, position, best = best
        result.append((slot, position))
    return result[::-1]


def _saved(saves: _Saves, slots: tuple[int, ...], position: int) -> _Saves:
    for slot in slots:
        saves = (slot, position, saves)
    return saves


# --- one pattern, whole texts ------------------------------------------------------------------------------------

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

    def finditer(self, text: str) -> Iterator[Found]:
        """Matches from left to right that do not overlap, as `regex.finditer` gives them."""
        at, blocked = 0, frozenset[int]()
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
        context = text[max(0, at - syntax.MAX_LOOKBEHIND) : at] if self._machine.needs_context else ""
        search = Search(self._machine, at, context, blocked)
        search.feed(text, at)
        return search

    def _groups(self, match: Match, text: str) -> dict[str, str | None]:
        context = text[max(0, match.start - syntax.MAX_LOOKBEHIND) : match.start] if self._machine.needs_context else ""
        return captures(self._machine, match, text, 0, context, at_end=True)


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
