"""The syntax of patterns: from the text of a regex to a small tree.

The tree covers the common subset of the `regex` module's language, which is what templates use: literals, classes,
groups, alternatives, greedy and lazy repeats, lookahead, lookbehind of bounded length, anchors and word boundaries.
What a class contains is not decided here: a `Char` keeps its source, and `regex` itself is asked (see `automaton`).

Invariant: a pattern that parses here means exactly what it means to `regex` (DOTALL, VERSION0); anything else raises
`Unsupported`, and the caller falls back on `regex`. Bound: linear in the pattern's length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

MAX_LOOKBEHIND = 64
_MAX_NESTING = 100


class Unsupported(Exception):
    """The pattern is outside the subset; the message says why."""


@dataclass(frozen=True, slots=True)
class Char:
    """One character. `source` is a regex for it; `literal` the character itself where there is only one."""

    source: str
    literal: str | None = None


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternatives, the preferred one first."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    item: Node
    least: int
    most: int | None
    greedy: bool


@dataclass(frozen=True, slots=True)
class Capture:
    name: str
    item: Node


@dataclass(frozen=True, slots=True)
class Lookahead:
    item: Node
    negative: bool


@dataclass(frozen=True, slots=True)
class Lookbehind:
    item: Node
    negative: bool


Node: TypeAlias = Char | Sequence | Choice | Repeat | Capture | Lookahead | Lookbehind

EMPTY = Sequence(())
ANY = Char("(?s:.)")
WORD = Char(r"\w")
END = Lookahead(ANY, negative=True)
START = Lookbehind(ANY, negative=True)
END_OR_LAST_NEWLINE = Lookahead(Sequence((Repeat(Char(r"\n", "\n"), 0, 1, True), END)), negative=False)


def _word_boundary(inside: bool) -> Node:
    """`\\b` (or, with `inside`, `\\B`): is one side a word character and the other not?"""
    return Choice(
        (
            Sequence((Lookbehind(WORD, negative=False), Lookahead(WORD, negative=not inside))),
            Sequence((Lookbehind(WORD, negative=True), Lookahead(WORD, negative=inside))),
        )
    )


_ASSERTIONS: dict[str, Node] = {
    "A": START,
    "Z": END,
    "b": _word_boundary(inside=False),
    "B": _word_boundary(inside=True),
}
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_CLASS_LETTERS = frozenset("dDsSwW")
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_COUNTED = re.compile(r"\{(\d+)?(,)?(\d+)?\}")
_FUZZY = re.compile(r"\{[\d\sside<=,+:.]*\}")
_NAMED_GROUP = re.compile(r"\?P?<([^\W\d]\w*)>")
_FLAGS = re.compile(r"\?([a-zA-Z0-9]*)(?:-([a-z]+))?([:)])")
_OPENINGS = (
    ("?=", Lookahead, False),
    ("?!", Lookahead, True),
    ("?<=", Lookbehind, False),
    ("?<!", Lookbehind, True),
)


@dataclass(frozen=True, slots=True)
class _Flags:
    ignore_case: bool = False
    dot_all: bool = True

    def switch(self, on: str, off: str) -> _Flags:
        if set(on) - set("isu") or set(off) - set("is"):
            raise Unsupported(f"inline flags {on!r}, {off!r}")
        ignore_case = (self.ignore_case or "i" in on) and "i" not in off
        return _Flags(ignore_case, (self.dot_all or "s" in on) and "s" not in off)


class _Reader:
    """Reads one pattern from left to right; `at` is where it is."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0

    def choice(self, flags: _Flags) -> Node:
        """Alternatives up to a `)` or the end."""
        self.depth += 1
        if self.depth > _MAX_NESTING:
            raise Unsupported("groups are nested too deep")
        options: list[Node] = []
        items: list[Node] = []
        while self.at < len(self.pattern) and self.pattern[self.at] != ")":
            if self.pattern[self.at] == "|":
                self.at += 1
                options.append(_sequence(items))
                items = []
                continue
            items.append(self._repeated(self._atom(flags)))
        options.append(_sequence(items))
        self.depth -= 1
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def flags(self) -> _Flags:
        """Inline flags such as `(?i)`. In VERSION0 they hold for the whole pattern, so only the front is plain."""
        match = _FLAGS.match(self.pattern, 1) if self.pattern.startswith("(?") else None
        if match is None or match[3] != ")":
            return _Flags()
        self.at = match.end()
        return _Flags().switch(match[1], match[2] or "")

    def _atom(self, flags: _Flags) -> Node:
        char = self.pattern[self.at]
        if char == "(":
            return self._group(flags)
        if char == "[":
            return self._class(flags)
        if char == "\\":
            return self._escape(flags)
        self.at += 1
        if char == ".":
            return ANY if flags.dot_all else Char(r"[^\n]")
        if char == "^":
            return START
        if char == "$":
            return END_OR_LAST_NEWLINE
        if char in "*+?":
            raise Unsupported("a repeat of nothing")
        if char == "{" and _FUZZY.match(self.pattern, self.at - 1):
            raise Unsupported("fuzzy matching")
        return _literal(char, flags)

    def _group(self, flags: _Flags) -> Node:
        self.at += 1
        rest = self.pattern[self.at : self.at + 3]
        if rest.startswith("?#"):
            self.at = self.pattern.index(")", self.at) + 1
            return EMPTY
        for opening, kind, negative in _OPENINGS:
            if rest.startswith(opening):
                self.at += len(opening)
                return self._look(kind, self._closed(flags), negative)
        named = _NAMED_GROUP.match(self.pattern, self.at)
        if named is not None:
            self.at = named.end()
            item = self._closed(flags)
            if has_captures(item, named[1]):
                raise Unsupported("a group inside a group of the same name")
            return Capture(named[1], item)
        if not rest.startswith("?"):
            return self._closed(flags)
        switch = _FLAGS.match(self.pattern, self.at)
        if switch is None or switch[3] != ":":
            raise Unsupported(f"the group ({rest}…")
        self.at = switch.end()
        return self._closed(flags.switch(switch[1], switch[2] or ""))

    def _look(self, kind: type[Lookahead] | type[Lookbehind], item: Node, negative: bool) -> Node:
        if has_captures(item):
            raise Unsupported("a named group inside lookaround")
        if kind is Lookbehind and longest(item, looks=False) > MAX_LOOKBEHIND:
            raise Unsupported(f"a lookbehind of more than {MAX_LOOKBEHIND} characters")
        return kind(item, negative)

    def _closed(self, flags: _Flags) -> Node:
        node = self.choice(flags)
        self.at += 1  # the ")": `regex` has compiled the pattern, so it is there
        return node

    def _class(self, flags: _Flags) -> Node:
        begin = self.at
        self.at += 1
        if self.pattern.startswith("^", self.at):
            self.at += 1
        if self.pattern.startswith("]", self.at):
            self.at += 1
        while self.pattern[self.at] != "]":
            if self.pattern[self.at] == "\\":
                self.at += 2
            elif self.pattern.startswith("[:", self.at):
                end = self.pattern.find(":]", self.at)
                self.at = end + 2 if end > 0 else self.at + 1
            else:
                self.at += 1
        self.at += 1
        return _char(self.pattern[begin : self.at], flags)

    def _escape(self, flags: _Flags) -> Node:
        letter = self.pattern[self.at + 1]
        if letter in _ASSERTIONS:
            self.at += 2
            return _ASSERTIONS[letter]
        if letter in _CLASS_LETTERS:
            self.at += 2
            return _char("\\" + letter, flags)
        if letter in "pPN" and self.pattern.startswith("{", self.at + 2):
            begin, self.at = self.at, self.pattern.index("}", self.at) + 1
            return _char(self.pattern[begin : self.at], flags)
        if letter in _HEX_DIGITS:
            begin, self.at = self.at + 2, self.at + 2 + _HEX_DIGITS[letter]
            return _literal(chr(int(self.pattern[begin : self.at], 16)), flags)
        if letter in _CONTROL:
            self.at += 2
            return _literal(_CONTROL[letter], flags)
        if letter.isalnum():
            raise Unsupported(f"the escape \\{letter}")
        self.at += 2
        return _literal(letter, flags)

    def _repeated(self, item: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return item
        least, most = bounds
        if nullable(item) and (most != 1 or looks_ahead(item)):
            raise Unsupported("a repeat of what can be empty")  # engines differ on when such a loop ends
        suffix = self.pattern[self.at : self.at + 1]
        if suffix == "?":
            self.at += 1
            return Repeat(item, least, most, greedy=False)
        if suffix == "+":
            self.at += 1
            return _possessive(item, least, most)
        return Repeat(item, least, most, greedy=True)

    def _bounds(self) -> tuple[int, int | None] | None:
        char = self.pattern[self.at : self.at + 1]
        if char and char in "*+?":
            self.at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        counted = _COUNTED.match(self.pattern, self.at) if char == "{" else None
        if counted is None or not (counted[1] or counted[3]):
            return None
        self.at = counted.end()
        least = int(counted[1] or 0)
        if counted[2] is None:
            return least, least
        return least, int(counted[3]) if counted[3] else None


def _possessive(item: Node, least: int, most: int | None) -> Node:
    """`x*+` gives nothing back: for one character that is `x*` that no further `x` follows."""
    if not isinstance(item, Char):
        raise Unsupported("a possessive repeat of more than one character")
    stop = Lookahead(item, negative=True)
    if most is None:
        return Sequence((Repeat(item, least, None, greedy=True), stop))
    if (least, most) == (0, 1):
        return Choice((item, stop))
    raise Unsupported("a counted possessive repeat")


def _char(source: str, flags: _Flags) -> Char:
    return Char(f"(?i:{source})" if flags.ignore_case else source)


def _literal(char: str, flags: _Flags) -> Char:
    source = re.escape(char)
    if flags.ignore_case and (char.isalpha() or ord(char) > 127):
        return Char(f"(?i:{source})")
    return Char(source, char)


def _sequence(items: list[Node]) -> Node:
    return items[0] if len(items) == 1 else Sequence(tuple(items))


def longest(node: Node, *, looks: bool = True) -> float:
    """The most characters that `node` can take; `looks=False`: it must not hold lookaround."""
    if isinstance(node, Char):
        return 1
    if isinstance(node, Sequence):
        return sum(longest(item, looks=looks) for item in node.items)
    if isinstance(node, Choice):
        return max(longest(option, looks=looks) for option in node.options)
    if isinstance(node, Repeat):
        width = longest(node.item, looks=looks)
        return 0 if width == 0 else width * (float("inf") if node.most is None else node.most)
    if isinstance(node, Capture):
        return longest(node.item, looks=looks)
    if not looks:
        raise Unsupported("lookaround inside a lookbehind")
    return 0


def nullable(node: Node) -> bool:
    """Can `node` match without taking a character?"""
    if isinstance(node, Char):
        return False
    if isinstance(node, Sequence):
        return all(nullable(item) for item in node.items)
    if isinstance(node, Choice):
        return any(nullable(option) for option in node.options)
    if isinstance(node, Repeat):
        return node.least == 0 or nullable(node.item)
    if isinstance(node, Capture):
        return nullable(node.item)
    return True


def first_chars(node: Node) -> frozenset[str] | None:
    """Sources of the characters that a match of `node` can begin with (or that a lookahead at its front asks for).

    None: that isn't known, for `node` may match without a character and without asking for one.
    """
    if isinstance(node, Char):
        return frozenset((node.source,))
    if isinstance(node, Sequence):
        return _first_of_sequence(node.items)
    if isinstance(node, Choice):
        firsts = [first_chars(option) for option in node.options]
        return None if None in firsts else frozenset().union(*(first for first in firsts if first))
    if isinstance(node, Repeat):
        return first_chars(node.item) if node.least else None
    if isinstance(node, Capture):
        return first_chars(node.item)
    if isinstance(node, Lookahead) and not node.negative:
        return first_chars(node.item)
    return None


def _first_of_sequence(items: tuple[Node, ...]) -> frozenset[str] | None:
    passed: frozenset[str] = frozenset()
    for item in items:
        first = first_chars(item)
        if first is not None:
            return passed | first
        optional = _optional_first(item)
        if optional is None:
            return None
        passed |= optional
    return None


def _optional_first(node: Node) -> frozenset[str] | None:
    """For what may also match nothing: the characters that it begins with if it does take some."""
    if isinstance(node, (Lookahead, Lookbehind)):
        return frozenset()
    if isinstance(node, Repeat):
        return first_chars(node.item) or _optional_first(node.item)
    if isinstance(node, Capture):
        return _optional_first(node.item)
    if isinstance(node, Choice):
        firsts = [first_chars(option) or _optional_first(option) for option in node.options]
        return None if None in firsts else frozenset().union(*(first for first in firsts if first))
    if isinstance(node, Sequence):
        firsts = [first_chars(item) or _optional_first(item) for item in node.items]
        return None if None in firsts else frozenset().union(*(first for first in firsts if first))
    return None


def beginnings(node: Node, size: int) -> frozenset[str] | None:
    """Texts of up to `size` characters, one of which stands where a match of `node` begins; None: that isn't known."""
    texts = frozenset(text for text, _ in _literal_beginnings(node, size))
    return None if "" in texts else texts


def _literal_beginnings(node: Node, size: int) -> set[tuple[str, bool]]:
    """Each text with: does what follows `node` follow it directly (it is all that `node` takes there)?"""
    if isinstance(node, Char):
        return {("", False)} if node.literal is None else {(node.literal, True)}
    if isinstance(node, Choice):
        return set().union(*(_literal_beginnings(option, size) for option in node.options))
    if isinstance(node, Capture):
        return _literal_beginnings(node.item, size)
    if isinstance(node, Repeat):
        inner = {(text, False) for text, _ in _literal_beginnings(node.item, size)}
        return inner if node.least else {("", True), *inner}
    if isinstance(node, Sequence):
        return _sequence_beginnings(node, size)
    if isinstance(node, Lookahead) and not node.negative:
        asked = {(text, False) for text, _ in _literal_beginnings(node.item, size)}
        return {("", True)} if ("", False) in asked else asked
    return {("", True)}


def _sequence_beginnings(node: Sequence, size: int) -> set[tuple[str, bool]]:
    found: set[tuple[str, bool]] = {("", True)}
    for item in node.items:
        if not any(goes_on for _, goes_on in found):
            break
        following = _literal_beginnings(item, size)
        found = {
            ((text + more)[:size], on and len(text + more) < size) if goes_on else (text, False)
            for text, goes_on in found
            for more, on in following
        }
    return found


def lookbehind_width(node: Node) -> int:
    """How many characters before a match its lookbehinds ask for."""
    if isinstance(node, Lookbehind):
        return int(longest(node.item))
    if isinstance(node, (Sequence, Choice)):
        items = node.items if isinstance(node, Sequence) else node.options
        return max(map(lookbehind_width, items), default=0)
    if isinstance(node, (Repeat, Capture, Lookahead)):
        return lookbehind_width(node.item)
    return 0


def has_captures(node: Node, name: str | None = None) -> bool:
    """Does `node` hold a named group (called `name`, if that is given)?"""
    if isinstance(node, (Sequence, Choice)):
        items = node.items if isinstance(node, Sequence) else node.options
        return any(has_captures(item, name) for item in items)
    if isinstance(node, Capture) and name in (None, node.name):
        return True
    return not isinstance(node, Char) and has_captures(node.item, name)


def looks_ahead(node: Node) -> bool:
    """Does `node` hold a lookahead?"""
    if isinstance(node, (Sequence, Choice)):
        return any(looks_ahead(item) for item in (node.items if isinstance(node, Sequence) else node.options))
    if isinstance(node, (Repeat, Capture)):
        return looks_ahead(node.item)
    return isinstance(node, Lookahead)


def parse(pattern: str) -> Node:
    """The tree of `pattern`, which `regex` is known to accept.

    Raises:
        Unsupported: it is outside the subset.
    """
    reader = _Reader(pattern)
    node = reader.choice(reader.flags())
    if reader.at != len(pattern):
        raise Unsupported("an unexpected closing parenthesis")
    return node


def literal_text(node: Node) -> str | None:
    """The text that `node` stands for if it is nothing but literal characters, else None."""
    if isinstance(node, Char):
        return node.literal
    if isinstance(node, Sequence):
        parts = [literal_text(item) for item in node.items]
        return None if None in parts else "".join(part for part in parts if part)
    return None
