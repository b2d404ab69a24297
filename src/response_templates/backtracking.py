"""Which patterns may be left to a backtracking engine (`re`, `regex`) on a whole text, and that engine's form of them.

The automaton is linear on every pattern and exact on every cut of a text, but it steps in Python. Where the whole text
is there, a backtracking engine in C finds the same match, and for most parts of most patterns one can prove beforehand
that it can't be slow. `prove` does that for a tree of `syntax`, by four rules that bound how often a character is
looked at, whatever the text:

1. A repeat without a limit repeats one character class, and nothing else.
2. Some literal character outside that class stands before it, with nothing in between that could take that literal
   (but a bounded number of characters). So the runs that it takes for different starts of the pattern overlap only so
   often: else the literal of one would lie inside what another takes. (Or the start of the text stands there: that
   happens once.)
3. What may follow it can't begin with a character of its class, so giving back characters fails at once.
4. Choices that are left multiply; their product is limited. (Those inside a lookahead end with it: it is tried once
   for each way to get there, and the first way through it is enough.)

Everything else (`.*?`, loops in loops, backreferences) is not proved, and goes to the automaton.

Invariant: a proved pattern, tried at each place of a text in turn, costs a bounded number of steps a character.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import regex

from . import syntax
from .syntax import Capture, Char, Choice, Lookahead, Lookbehind, Node, Repeat, Sequence

MAX_WAYS = 64  # ways to match at one place, all choices multiplied
MAX_LENGTH = 1_000  # characters that the limited repeats of a pattern can take together
LOOKED_AT = 6  # characters that a limited form's lookaheads take of an endless repeat
NEAR = 16  # a limited repeat of more characters than these puts what stands before it too far away for rule 2

# What `regex` takes for white space (Unicode's property White_Space); `re` has four more. It is both the body of a
# class and an argument of `rstrip`, so it holds no ranges.
WHITE_SPACE = "".join(map(chr, (*range(9, 14), 32, 133, 160, 5760, *range(8192, 8203), 8232, 8233, 8239, 8287, 12288)))
_ASCII_CLASS = re.compile(r"\[(?:\w-\w|[\w <>{}()/=,.:;!?\"'`*+#@%$]|\\[!-/:-@\[-`{-~])+\]", re.ASCII)
_ITEM = re.compile(r"\\.|\w-\w|.", re.DOTALL | re.ASCII)  # of a class: an escape, a range, a character
_PLAIN_CLASS = re.compile(r"\[\^?(?:[\w <>{}()|/=,.:;!?\"'`*+#@%$~&-]|\\[nrts]|\\[!-/:-@\[-`{-~])+\]", re.ASCII)

Matcher: TypeAlias = "Callable[[str, int], re.Match[str] | regex.Match[str] | None]"


class NotProved(Exception):
    """The pattern could make a backtracking engine slow, as far as the rules can tell."""


class Unsure(Exception):
    """A chain can't tell what matches. Attributes: `place`: no match begins before it."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


# --- the proof --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Follow:
    """What can come next: one of `chars`, or (`end`) the match is complete."""

    chars: frozenset[Char]
    end: bool


@dataclass(frozen=True, slots=True)
class _Cost:
    """`ways` to match at one place; `before`: literals that are known to stand before what follows."""

    ways: int
    before: frozenset[str]


_END = _Follow(frozenset(), True)
_AT_START = frozenset(("",))  # what stands before the text: no class takes it


def prove(node: Node) -> int:
    """Prove that a backtracking engine is linear on `node`, by the rules above; returns the ways to match at one place.

    Raises:
        NotProved: the rules don't cover it.
    """
    if _reach(node) > MAX_LENGTH:
        raise NotProved
    return _cost(node, frozenset(), _END).ways


def is_proved(node: Node) -> bool:
    """As `prove`: is it proved?"""
    try:
        prove(node)
    except NotProved:
        return False
    return True


def limited(node: Node, most: int) -> Node:
    """`node` with the endless repeats that every match goes through limited to `most` characters.

    Those in its lookaheads are limited to a few: all that counts there is whether there is a match.

    Raises:
        NotProved: even that is not proved, or there is more than one way to match.

    Where it matches, `node` has the same match: there is only one way, and each such repeat ended because the class did
    (what follows it is not of its class). Where it doesn't, `node` may match all the same.
    """
    form = _limited(node, most)
    if prove(form) > 1:
        raise NotProved
    return form


def _limited(node: Node, most: int, *, ends: bool = True) -> Node:
    """`ends`: may the match end behind `node`? A repeat there would be cut short, so it stays as it is."""
    if isinstance(node, Sequence):
        parts = []
        for number, item in enumerate(node.items):
            first = _firsts_of_sequence(node.items[number + 1 :])
            parts.append(_limited(item, most, ends=ends and (first is None or first[1])))
        return Sequence(tuple(parts))
    if isinstance(node, Repeat) and node.most is None and isinstance(node.item, Char) and not ends:
        return Repeat(node.item, node.least, max(most, node.least), node.greedy)
    if isinstance(node, Capture):
        return Capture(node.name, _limited(node.item, most, ends=ends))
    if isinstance(node, Lookahead) and not node.negative:
        if syntax.has_captures(node.item):
            return Lookahead(_limited(node.item, most), negative=False)
        return Lookahead(_shortened(node.item), negative=False)
    return node


def _shortened(node: Node) -> Node:
    """`node` with all endless repeats of a character shortened: what it matches, `node` matches at least so far."""
    if isinstance(node, Sequence):
        return Sequence(tuple(map(_shortened, node.items)))
    if isinstance(node, Choice):
        return Choice(tuple(map(_shortened, node.options)))
    if isinstance(node, Repeat) and node.most is None and isinstance(node.item, Char):
        return Repeat(node.item, node.least, max(LOOKED_AT, node.least), node.greedy)
    return node


def _reach(node: Node) -> float:
    """The most characters that the limited repeats can take, those of lookaheads counted in."""
    if isinstance(node, Sequence):
        return sum(map(_reach, node.items))
    if isinstance(node, Choice):
        return max(map(_reach, node.options))
    if isinstance(node, Repeat):
        return _reach(node.item) * (1 if node.most is None else node.most)
    if isinstance(node, (Capture, Lookahead)):
        return _reach(node.item)
    return 1


def _cost(node: Node, before: frozenset[str], after: _Follow | None) -> _Cost:
    if isinstance(node, Char):
        return _Cost(1, before | {node.literal} if node.literal is not None else before)
    if isinstance(node, Sequence):
        return _of_sequence(node, before, after)
    if isinstance(node, Choice):
        return _of_choice(node, before, after)
    if isinstance(node, Repeat):
        return _of_repeat(node, before, after)
    if isinstance(node, Capture):
        return _cost(node.item, before, after)
    if isinstance(node, Lookahead):
        ways = _checked(_cost(node.item, before, _END).ways)
        return _Cost(ways if syntax.has_captures(node.item) else 1, before)
    return _Cost(1, before | _AT_START if node == syntax.START else before)  # a lookbehind: its length is bounded


def _of_sequence(node: Sequence, before: frozenset[str], after: _Follow | None) -> _Cost:
    ways = 1
    for number, item in enumerate(node.items):
        cost = _cost(item, before, _follow(node.items[number + 1 :], after))
        ways, before = _checked(ways * cost.ways), cost.before
    return _Cost(ways, before)


def _of_choice(node: Choice, before: frozenset[str], after: _Follow | None) -> _Cost:
    costs = [_cost(option, before, after) for option in node.options]
    ways = sum(cost.ways for cost in costs)
    if _exclusive(node.options):
        ways = max(cost.ways for cost in costs)
    return _Cost(_checked(ways), frozenset.intersection(*(cost.before for cost in costs)))


def _exclusive(options: tuple[Node, ...]) -> bool:
    """Does the next character tell which of the options it can be?"""
    firsts = [_firsts(option) for option in options]
    known = [first[0] for first in firsts if first is not None and not first[1]]
    return len(known) == len(options) and not any(
        _overlap(one, other)
        for number, chars in enumerate(known)
        for others in known[number + 1 :]
        for one in chars
        for other in others
    )


def _of_repeat(node: Repeat, before: frozenset[str], after: _Follow | None) -> _Cost:
    if not isinstance(node.item, Char):
        if node.most != 1:
            raise NotProved
        cost = _cost(node.item, before, after)
        ways = cost.ways if after is not None and _decides(node.item, after) else 1 + cost.ways
        return _Cost(_checked(ways), before & cost.before)
    decided = after is not None and not any(_overlap(node.item, char) for char in after.chars)
    outside = frozenset(literal for literal in before if _outside(literal, node.item))
    if node.most is not None:
        return _Cost(1 if decided else _checked(node.most - node.least + 1), before if node.most <= NEAR else outside)
    if not decided or not outside:
        raise NotProved
    return _Cost(1, outside)


def _decides(item: Node, after: _Follow) -> bool:
    """Does the next character tell whether `item` or what comes after it is there?"""
    first = _firsts(item)
    return first is not None and not first[1] and not any(_overlap(a, b) for a in first[0] for b in after.chars)


def _checked(ways: int) -> int:
    if ways > MAX_WAYS:
        raise NotProved
    return ways


def _overlap(one: Char, other: Char) -> bool:
    """May a character be both? Unknown counts as yes."""
    for this, that in ((one, other), (other, one)):
        members = _members(this)
        if members is not None:
            return not all(_outside(member, that) for member in members)
    return not (_negates(one, other) or _negates(other, one))


def _negates(one: Char, other: Char) -> bool:
    """Does `one` exclude all that `other` is, by how they are written (`[^<>\\s]` and `\\s` or `[\\s<]`)?"""
    if not one.source.startswith("[^") or other.source.startswith("[^"):
        return False
    body = other.source[1:-1] if other.source.startswith("[") else other.source
    return set(_ITEM.findall(body)) <= set(_ITEM.findall(one.source[2:-1]))


@lru_cache(maxsize=4096)
def _members(char: Char) -> tuple[str, ...] | None:
    """All characters of a class of ASCII characters, or of a literal; None: they aren't known."""
    if char.literal is not None:
        return (char.literal,)
    if _ASCII_CLASS.fullmatch(char.source) is None:
        return None
    return tuple(member for member in map(chr, range(128)) if not _outside(member, char))


@lru_cache(maxsize=4096)
def _outside(literal: str, char: Char) -> bool:
    return regex.fullmatch(char.source, literal, regex.DOTALL) is None


def _follow(items: tuple[Node, ...], after: _Follow | None) -> _Follow | None:
    """What comes after an item that `items` follow; None: that isn't known."""
    first = _firsts(Sequence(items))
    if first is None:
        return None
    chars, passes = first
    if not passes:
        return _Follow(chars, False)
    return None if after is None else _Follow(chars | after.chars, after.end)


def _firsts(node: Node) -> tuple[frozenset[Char], bool] | None:
    """The characters that can come first, and whether `node` may pass without one; None: that isn't known."""
    if isinstance(node, Char):
        return frozenset((node,)), False
    if isinstance(node, Sequence):
        return _firsts_of_sequence(node.items)
    if isinstance(node, Choice):
        each = [_firsts(option) for option in node.options]
        known = [first for first in each if first is not None]
        if len(known) < len(each):
            return None
        return frozenset().union(*(chars for chars, _ in known)), any(passes for _, passes in known)
    if isinstance(node, Repeat):
        first = _firsts(node.item)
        return None if first is None else (first[0], first[1] or node.least == 0)
    if isinstance(node, Capture):
        return _firsts(node.item)
    if isinstance(node, Lookbehind):
        return frozenset(), True
    if node == syntax.END:  # no character at all comes first
        return frozenset(), False
    first = None if node.negative else _firsts(node.item)
    return None if first is None or first[1] else first


def _firsts_of_sequence(items: tuple[Node, ...]) -> tuple[frozenset[Char], bool] | None:
    chars: frozenset[Char] = frozenset()
    for item in items:
        first = _firsts(item)
        if first is None:
            return None
        chars |= first[0]
        if not first[1]:
            return chars, False
    return chars, True


# --- as a pattern of the engine ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Engine:
    """A proved pattern, compiled: `match` at a place, `search` from a place on; both see the text before it."""

    match: Any
    search: Any


def compiled(node: Node) -> Engine:
    """`node` for a backtracking engine: `re` where that means the same (its calls cost a third), else `regex`."""
    source = written(node, _re_source)
    if source is not None:
        try:
            quick = re.compile(source, re.DOTALL)
        except re.error:  # a lookbehind of more than one length, a group twice
            pass
        else:
            return Engine(quick.match, quick.search)
    source = written(node, lambda char: char.source) or ""
    pattern = regex.compile(source, regex.DOTALL | regex.VERSION0)
    return Engine(pattern.match, pattern.search)


def written(node: Node, char_source: Callable[[Char], str | None]) -> str | None:
    """`node` as the text of a regex; None where `char_source` has none for a character."""
    if isinstance(node, Char):
        return char_source(node)
    if isinstance(node, (Sequence, Choice)):
        items = node.items if isinstance(node, Sequence) else node.options
        parts = [written(item, char_source) for item in items]
        if None in parts:
            return None
        known = [part for part in parts if part is not None]
        return "".join(known) if isinstance(node, Sequence) else "(?:" + "|".join(known) + ")"
    inner = written(node.item, char_source)
    if inner is None:
        return None
    if isinstance(node, Repeat):
        most = "" if node.most is None else node.most
        return f"(?:{inner}){{{node.least},{most}}}" + ("" if node.greedy else "?")
    if isinstance(node, Capture):
        return f"(?P<{node.name}>{inner})"
    behind = "<" if isinstance(node, Lookbehind) else ""
    return f"(?{behind}{'!' if node.negative else '='}{inner})"


def _re_source(char: Char) -> str | None:
    """The same class for `re`; None where the two engines may differ."""
    if char.literal is not None:
        return re.escape(char.literal)
    if char == syntax.ANY:
        return "(?s:.)"
    if char.source == r"\s":
        return f"[{WHITE_SPACE}]"
    if char.source == r"\S":
        return f"[^{WHITE_SPACE}]"
    if _PLAIN_CLASS.fullmatch(char.source) and not any(pair in char.source[1:] for pair in ("&&", "--", "~~", "||")):
        return char.source.replace(r"\s", WHITE_SPACE)
    return None


# --- patterns with `.*?` ----------------------------------------------------------------------------------------

_LAZY = Repeat(syntax.ANY, 0, None, greedy=False)
_WHITE = Char(r"\s")


@dataclass(frozen=True, slots=True)
class _Gap:
    """What is between two parts of a pattern: `.*?`, or a repeat of a class that the next character isn't of."""

    name: str | None = None  # if it is a named group
    run: Any = None  # matches that repeat; None: it is `.*?`


@dataclass(frozen=True, slots=True)
class _Part:
    """A proved part of a pattern, and the gap before it (the first part has none)."""

    gap: _Gap
    engine: Engine
    grouped: bool
    spaces: bool  # white space may stand before it, and goes to it as far back as it goes


@dataclass(frozen=True, slots=True)
class Chain:
    """A pattern cut at its gaps: proved parts, each looked for from where the one before ends.

    That finds the pattern's own match: of the ways that a backtracking engine goes through, the first is the first way
    of the first part, then the shortest gap behind which the second part matches, and so on; and if a later part can't
    be found, then no longer gap before it would help. Only another way of a part, or a later start, might: there `find`
    says that it doesn't know.
    """

    parts: tuple[_Part, ...]

    def find(self, text: str, at: int) -> tuple[int, int, dict[str, str | None]] | None:
        """The first match from `at` on: start, end, named groups; None: there is none.

        Raises:
            Unsure: that can't be told in this way.
        """
        first, *rest = self.parts
        found = first.engine.search(text, at)
        if found is None:
            return None
        start, end = found.span()
        groups = found.groupdict() if first.grouped else {}
        for part in rest:
            found = _behind(part, text, end)
            if found is None:
                raise Unsure(start)
            place = found.start()
            if part.spaces:
                place = end + len(text[end:place].rstrip(WHITE_SPACE))
            if part.gap.name is not None:
                groups[part.gap.name] = text[end:place]
            if part.grouped:
                groups.update(found.groupdict())
            end = found.end()
        return start, end, groups


def _behind(part: _Part, text: str, end: int) -> Any:
    """The match of `part` behind the gap that begins at `end`; None: there is none in this way."""
    if part.gap.run is None:
        return part.engine.search(text, end)
    run = part.gap.run(text, end)
    return None if run is None else part.engine.match(text, run.end())


def chain(node: Node) -> Chain | None:
    """`node` as a chain, if all of its parts are proved and it can't match the empty text."""
    cut: list[tuple[_Gap, list[Node]]] = [(_Gap(), [])]
    items = node.items if isinstance(node, Sequence) else (node,)
    for item, following in zip(items, (*items[1:], syntax.EMPTY), strict=True):
        gap = _gap(item, following)
        if gap is not None:
            cut.append((gap, []))
        else:
            cut[-1][1].append(item)
    try:
        return Chain(tuple(_part(gap, part, number) for number, (gap, part) in enumerate(cut)))
    except NotProved:
        return None


def _gap(item: Node, following: Node) -> _Gap | None:
    name = item.name if isinstance(item, Capture) else None
    inner = item.item if isinstance(item, Capture) else item
    if inner == _LAZY:
        return _Gap(name)
    if not isinstance(inner, Repeat) or not isinstance(inner.item, Char) or inner.most is not None:
        return None
    if isinstance(following, Char) and not _overlap(inner.item, following):
        return _Gap(name, compiled(inner).match)
    return None


def _part(gap: _Gap, items: list[Node], number: int) -> _Part:
    spaces = number > 0 and gap.run is None and items[:1] == [Repeat(_WHITE, 0, None, greedy=True)]
    node = Sequence(tuple(items[1:] if spaces else items))
    if spaces:
        first = _firsts(node)
        if first is None or first[1] or any(_overlap(_WHITE, char) for char in first[0]):
            raise NotProved  # where the white space ends wouldn't be certain
    if number == 0 and syntax.nullable(node):
        raise NotProved
    prove(node)
    return _Part(gap, compiled(node), syntax.has_captures(node), spaces)
