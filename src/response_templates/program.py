"""Patterns as programs: a tree (see `syntax`) becomes a list of instructions; a thread is a position in it.

These are Thompson's instructions, with lookaround as two more: a lookahead's body is a program of its own inside the
list, and a lookbehind's body is one that runs beside the search all the time.

Bound: the program is linear in the pattern, a counted repeat counting as often as it says; its size is capped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from . import syntax
from .syntax import Unsupported

MAX_PROGRAM = 3_000


@dataclass(slots=True)
class Take:
    """Take one character that `predicate` holds for."""

    predicate: int
    next: int = -1


@dataclass(slots=True)
class Split:
    """Go on at both; `prefer` first."""

    prefer: int = -1
    other: int = -1


@dataclass(slots=True)
class Save:
    """Note the position under `slot` (two a group: begin and end)."""

    slot: int
    next: int = -1


@dataclass(slots=True)
class Ahead:
    """Go on if the program at `body` matches (or, negative, does not match) from here."""

    body: int
    negative: bool
    next: int = -1


@dataclass(slots=True)
class Behind:
    """Go on if lookbehind number `watch` has just matched (or, negative, has not)."""

    watch: int
    negative: bool
    next: int = -1


@dataclass(slots=True)
class Match:
    """The end of pattern number `pattern`; of a lookaround's body where `pattern` is negative."""

    pattern: int


Instruction: TypeAlias = Take | Split | Save | Ahead | Behind | Match


class Compiler:
    """Trees to one program. `pieces` are emitted so that each instruction falls through to the one after it."""

    def __init__(self) -> None:
        self.program: list[Instruction] = []
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
        over = self._add(Split())  # jumps over the body when the enclosing code falls into it
        begin = len(self.program)
        self._emit(node)
        self._add(Match(end))
        self._jump(over, len(self.program))
        return begin

    def _add(self, instruction: Instruction) -> int:
        if len(self.program) >= MAX_PROGRAM:
            raise Unsupported(f"too large (more than {MAX_PROGRAM} instructions; are there huge repeats?)")
        self.program.append(instruction)
        return len(self.program) - 1

    def _jump(self, split: int, target: int) -> None:
        self.program[split] = Split(target, target)

    def _emit(self, node: syntax.Node) -> None:
        if isinstance(node, syntax.Char):
            at = self._add(Take(self._predicate(node)))
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
            self._then(Save(slot))
            self._emit(node.item)
            self._then(Save(slot + 1))
        elif isinstance(node, syntax.Lookahead):
            self._then(Ahead(self._body(node.item, -1), node.negative))
        else:
            self._then(Behind(self._watch(node.item), node.negative))

    def _then(self, instruction: Save | Ahead | Behind) -> None:
        instruction.next = self._add(instruction) + 1

    def _choice(self, node: syntax.Choice) -> None:
        ends = []
        for option in node.options[:-1]:
            split = self._add(Split())
            self._emit(option)
            ends.append(self._add(Split()))
            self.program[split] = Split(split + 1, len(self.program))
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
            splits.append(self._add(Split()))
            self._emit(node.item)
        for split in splits:
            self._either(split, split + 1, len(self.program), node.greedy)

    def _loop(self, node: syntax.Repeat) -> None:
        entry = self._add(Split())
        self._emit(node.item)
        again = self._add(Split())
        self._jump(again, entry)
        self._either(entry, entry + 1, len(self.program), node.greedy)

    def _either(self, split: int, go: int, leave: int, greedy: bool) -> None:
        self.program[split] = Split(go, leave) if greedy else Split(leave, go)

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
