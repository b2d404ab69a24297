"""Searches of a text that is all there: the same matches as a search in a stream finds, at a fraction of the cost.

When no more text can come, nothing has to be held and every match is settled where it is found. So C code looks for the
next place where a delimiter can begin (its first two characters), and there each delimiter that begins so is tried: by
a backtracking engine, if that is proved to be linear on it (see `backtracking`), branch by branch of its alternatives.
A branch for which that isn't proved is passed over where its literal beginning isn't there; where it is, it is tried
with short runs only, and if that doesn't match the automaton takes over from that place on.

Invariant: what is found is what `search.Search` finds when it is fed the rest of the text and told that it ends.
Bound: a bounded number of steps a character, and the automaton's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from . import backtracking, skips, syntax
from .automaton import Machine
from .search import Budget, Match, Search
from .syntax import Choice, Node, Repeat, Sequence

# (text, offset, patterns blocked there, position of the text, budget) → the match, and what position it took to know
Find: TypeAlias = "Callable[[str, int, frozenset[int], int, Budget], tuple[Match | None, int]]"

RUN = 256  # characters of one class that are looked at for a branch whose repeats could make it slow
LOOKED_AT = 64  # characters of a branch's beginning that tell whether it can match
MAX_BRANCHES = 32  # that patterns are split into
NONE_BLOCKED: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class WholeText:
    """A text to its end. `base` is the position in the stream of its first character."""

    text: str
    base: int


@dataclass(frozen=True, slots=True)
class _Branch:
    """One alternative of a pattern. `match` is None where only the automaton may follow it."""

    order: int  # among all alternatives of all patterns
    number: int  # of the pattern
    match: Any
    sure: bool  # where `match` finds nothing, there is nothing
    begins: tuple[str, ...]  # with one of these
    grouped: bool


class WholeFinder:
    """Finds the matches of a machine's patterns in whole texts. Immutable; shared by all streams."""

    def __init__(self, machine: Machine, patterns: list[Node]) -> None:
        self._machine = machine
        self._first: skips.Find | None = None
        self._branches: dict[str, tuple[_Branch, ...]] = {}
        self._at_start: tuple[_Branch, ...] = ()
        options = [(number, option) for number, each in enumerate(patterns) for option in _alternatives(each)]
        begun = {option: syntax.beginnings(option, 2) for _, option in options if not _starts(option)}
        if any(texts is None for texts in begun.values()):
            return  # a match may begin anywhere: the automaton's own search is as good
        texts = frozenset().union(*(each for each in begun.values() if each))
        if not texts:
            return
        made = [(_branch(order, number, option), begun.get(option)) for order, (number, option) in enumerate(options)]
        self._first = skips.beginning_search(texts)
        self._at_start = tuple(branch for branch, begins in made if begins is None)
        self._branches = {
            text: tuple(branch for branch, begins in made if begins and any(text.startswith(each) for each in begins))
            for text in {*texts, *(text[0] for text in texts)}
        }

    def find(self, text: str, at: int, blocked: frozenset[int], base: int, budget: Budget) -> tuple[Match | None, int]:
        """The first match from offset `at` on, and the position up to which that took the text into account.

        Args:
            blocked: patterns that must not match at this very place.
            base: the position of the first character of `text`.
        """
        first, known = self._first, self._branches
        if first is None:
            return self._by_machine(text, at, blocked, base, budget)
        if at == 0 and self._at_start:
            decided = self._decide(text, 0, self._from_start(text), blocked, base, budget)
            if decided is not None:
                return decided
        place = at
        while (found := first(text, place)) is not None:
            place = found.start()
            branches = known.get(text[place : place + 2]) or known.get(text[place], ())
            decided = self._decide(text, place, branches, blocked if place == at else NONE_BLOCKED, base, budget)
            if decided is not None:
                return decided
            place += 1
        return None, base + len(text)

    def _from_start(self, text: str) -> tuple[_Branch, ...]:
        others = self._branches.get(text[:2]) or self._branches.get(text[:1], ())
        return tuple(sorted((*self._at_start, *others), key=lambda branch: branch.order))

    def _decide(
        self, text: str, place: int, branches: tuple[_Branch, ...], blocked: frozenset[int], base: int, budget: Budget
    ) -> tuple[Match | None, int] | None:
        """What matches at `place`; None: nothing does. The longest counts; of equal ones the first."""
        best: Any = None
        best_branch: _Branch | None = None
        matched = -1  # the pattern whose preferred branch has been found
        for branch in branches:
            number = branch.number
            if number == matched or number in blocked:
                continue
            match = branch.match(text, place) if branch.match is not None else None
            if match is None:
                if not branch.sure and text.startswith(branch.begins, place):
                    return self._by_machine(text, place, blocked, base, budget)
            else:
                matched = number
                if best is None or match.end() > best.end():
                    best, best_branch = match, branch
        if best is None or best_branch is None:
            return None
        end = base + best.end()
        groups = best.groupdict() if best_branch.grouped else {}
        return Match(best_branch.number, base + place, end, groups), end

    def _by_machine(
        self, text: str, place: int, blocked: frozenset[int], base: int, budget: Budget
    ) -> tuple[Match | None, int]:
        width = self._machine.width
        search = Search(self._machine, base + place, text[max(0, place - width) : place], blocked, budget)
        search.feed(text, place)
        return search.settled() or search.finish(), search.position


def _alternatives(node: Node) -> list[Node]:
    """Patterns that say the same if they are tried in turn; it isn't known where the last ones begin, or it is."""
    found: list[Node] = []
    waiting = [node]
    while waiting and len(found) + len(waiting) < MAX_BRANCHES:
        each = waiting.pop()
        options = _options(each)
        if isinstance(each, Choice) or (len(options) > 1 and not _starts(each) and syntax.beginnings(each, 2) is None):
            waiting += reversed(options)
        else:
            found.append(each)
    return found + waiting[::-1]


def _options(node: Node) -> tuple[Node, ...]:
    """The alternatives that `node` begins with, each with what follows."""
    if isinstance(node, Choice):
        return node.options
    if isinstance(node, Repeat) and (node.least, node.most, node.greedy) == (0, 1, True):
        return (node.item, syntax.EMPTY)
    if isinstance(node, Sequence) and node.items:
        first, *rest = node.items
        return tuple(Sequence((option, *rest)) for option in _options(first))
    return (node,)


def _starts(node: Node) -> bool:
    """Can `node` match only where the stream begins?"""
    return node == syntax.START or (isinstance(node, Sequence) and bool(node.items) and _starts(node.items[0]))


def _branch(order: int, number: int, node: Node) -> _Branch:
    begins = tuple(syntax.beginnings(node, LOOKED_AT) or ("",))
    sure = backtracking.is_proved(node)
    try:
        match = backtracking.compiled(node if sure else backtracking.limited(node, RUN)).match
    except backtracking.NotProved:
        match = None
    return _Branch(order, number, match, sure, begins, syntax.has_captures(node))


class Watch(Protocol):
    """What a search needs of a `delimiters.WatchList`."""

    find: Find | None

    def begin(self, position: int, context: str, blocked: frozenset[int], budget: Budget) -> Any: ...


class WholeSearch:
    """A search (see `delimiters.Search`) of a whole text for the delimiters of `watch`, from one position on.

    `context` is what stands before it; the delimiters in `blocked` must not match at this very place.
    """

    __slots__ = (
        "_begin",
        "_blocked",
        "_budget",
        "_context",
        "_found",
        "_looked",
        "_watch",
        "_whole",
        "position",
        "steps",
    )

    def __init__(
        self, whole: WholeText, watch: Watch, begin: int, context: str, blocked: frozenset[int], budget: Budget
    ) -> None:
        self._whole = whole
        self._watch = watch
        self._begin = begin
        self._context = context
        self._blocked = blocked
        self._budget = budget
        self._looked = False
        self._found: Match | None = None
        self.position = begin
        self.steps = 0

    def settled(self) -> Match | None:
        if not self._looked:
            self._looked = True
            whole, find = self._whole, self._watch.find
            base = whole.base
            assert find is not None
            self._found, self.position = find(whole.text, self._begin - base, self._blocked, base, self._budget)
        return self._found

    finish = settled

    @property
    def held_from(self) -> int:
        """Where the beginning of a match that the text's end cut off begins: that only a search in a stream knows."""
        search = self._watch.begin(self._begin, self._context, self._blocked, self._budget)
        search.feed(self._whole.text, self._begin - self._whole.base)
        held: int = search.held_from
        return held

    def feed(self, text: str, offset: int = 0) -> int:
        raise AssertionError("the whole text is there already")

    def skip(self, count: int, context: str) -> None:
        raise AssertionError("the whole text is there already")
