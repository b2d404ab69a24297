"""Control tokens told from text: an alphabet in which the two differ.

A control token is a token that encoding makes for its own text and for nothing else (an added token of the tokenizer,
such as `<|im_end|>`). A model can also write the same characters with ordinary tokens, when it quotes them; read from
ids, the two can be told apart. For that, each character of a control token that the model emitted is replaced by a
*mark*: a character of its own for each place of each token. Marks are lone surrogates, which no decoded text holds. The
delimiters are rewritten to the same alphabet: where one spells out a control token, only that token's marks will do;
everywhere else a character, a class or a lookaround takes a mark for the character that it stands for. So searching is
as ever, exact for patterns, too; and as a mark is one character for one, all positions stay what they were.

Invariant: `unmark` of what was marked is the text; a text without marks is its own `unmark`.
Bound: linear; text without marks costs one C-level search.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import product
from typing import TypeAlias

import regex

from . import syntax
from .errors import TemplateError
from .template import ResponseTemplate

FIRST_MARK, LAST_MARK = 0xD800, 0xDFFF
MAX_WAYS = 256  # ways to go through choices that a control token's text may be spread over
find_mark = re.compile("[\ud800-\udfff]").search

_marks_in = re.compile("[\ud800-\udfff]+")


class ControlTokens:
    """The control tokens that a template's delimiters spell out, and their alphabet. Immutable; shared by all streams.

    Args:
        texts: the texts of the tokens.

    Attributes:
        marked: for the text of each token the same text in marks.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self.marked: dict[str, str] = {}
        self._real: dict[int, str] = {}
        number = FIRST_MARK
        for text in sorted(texts, key=lambda each: (-len(each), each)):
            if number + len(text) > LAST_MARK + 1:
                raise TemplateError("the template's delimiters hold too many control tokens for token_delimiters")
            self.marked[text] = "".join(map(chr, range(number, number + len(text))))
            self._real.update(zip(range(number, number + len(text)), text, strict=True))
            number += len(text)
        self._marks_of: dict[str, str] = {}
        for mark, char in self._real.items():
            self._marks_of[char] = self._marks_of.get(char, "") + chr(mark)
        longest_first = "|".join(map(re.escape, self.marked))
        self._spelled = re.compile(longest_first) if longest_first else None

    def unmark(self, text: str) -> str:
        """The text that `text` stands for."""
        return _marks_in.sub(lambda marks: marks[0].translate(self._real), text)

    def mark_all(self, text: str) -> str:
        """`text` with all that spells a control token taken for that token, as encoding it would."""
        return self._spelled.sub(lambda found: self.marked[found[0]], text) if self._spelled is not None else text

    # -- delimiters ----------------------------------------------------------------------------------------------

    def rewritten(self, node: syntax.Node) -> syntax.Node:
        """The pattern `node` in the alphabet with marks."""
        if isinstance(node, syntax.Sequence):
            return _sequence(self._rewritten_items(_flat(node)))
        if isinstance(node, syntax.Char):
            return _sequence(self._rewritten_items([node]))
        if isinstance(node, syntax.Choice):
            return syntax.Choice(tuple(self.rewritten(option) for option in node.options))
        if isinstance(node, syntax.Repeat):
            return syntax.Repeat(self.rewritten(node.item), node.least, node.most, node.greedy)
        if isinstance(node, syntax.Capture):
            return syntax.Capture(node.name, self.rewritten(node.item))
        return type(node)(self.rewritten(node.item), node.negative)

    def _rewritten_items(self, items: list[syntax.Node]) -> list[syntax.Node]:
        """A sequence's items. Where a control token's text is spread over choices, these are multiplied out first."""
        spread = self._spread(items)
        done: list[syntax.Node] = []
        literals: list[syntax.Char] = []
        at = 0
        while at < len(items):
            item = items[at]
            if at in spread:
                done += self._spelled_out(literals)
                literals = []
                ways = _ways(items[at : spread[at]])
                done.append(syntax.Choice(tuple(self.rewritten(syntax.Sequence(tuple(way))) for way in ways)))
                at = spread[at]
                continue
            if isinstance(item, syntax.Char) and item.literal is not None:
                literals.append(item)
            else:
                done += self._spelled_out(literals)
                literals = []
                done.append(self._widened(item) if isinstance(item, syntax.Char) else self.rewritten(item))
            at += 1
        return done + self._spelled_out(literals)

    def _spelled_out(self, chars: list[syntax.Char]) -> list[syntax.Node]:
        """A run of literal characters: what spells a control token asks for it, the rest takes both."""
        text = "".join(char.literal or "" for char in chars)
        done: list[syntax.Node] = []
        at = 0
        for found in self._spelled.finditer(text) if self._spelled is not None else ():
            done += map(self._widened, chars[at : found.start()])
            done += (syntax.Char(re.escape(mark), mark) for mark in self.marked[found[0]])
            at = found.end()
        return done + [self._widened(char) for char in chars[at:]]

    def _spread(self, items: list[syntax.Node]) -> dict[int, int]:
        """Where a control token's text goes through a choice: the first item of such a stretch, and the one behind."""
        found: list[tuple[int, int]] = []
        for begin, end in _branching_runs(items):
            for way in _ways_with_items(items[begin:end], begin):
                text = "".join(
                    char.literal if isinstance(char, syntax.Char) and char.literal is not None else "\0"
                    for char, _ in way
                )
                for match in self._spelled.finditer(text) if self._spelled is not None else ():
                    first, last = way[match.start()][1], way[match.end() - 1][1]
                    if first < last and any(_branches(item) for item in items[first : last + 1]):
                        found.append((first, last + 1))
        return dict(_merged(found))

    def _widened(self, char: syntax.Char) -> syntax.Char:
        """One character, or the mark of such a one."""
        return _widened(self, char)


@lru_cache(maxsize=4096)
def _widened(controls: ControlTokens, char: syntax.Char) -> syntax.Char:
    if char == syntax.ANY:
        return char
    holds = regex.compile(char.source, regex.DOTALL).fullmatch
    wanted = [chr(mark) for mark, real in controls._real.items() if holds(real)]
    given = [chr(mark) for mark in controls._real if holds(chr(mark))]
    if wanted == given:
        return char
    if char.literal is not None:
        return syntax.Char("[" + re.escape(char.literal) + "".join(wanted) + "]")
    unwanted = "".join(mark for mark in given if mark not in wanted)
    for candidate in _bracketed(char.source, "".join(wanted), unwanted):
        again = regex.compile(candidate, regex.DOTALL).fullmatch
        if [chr(mark) for mark in controls._real if again(chr(mark))] == wanted:
            return syntax.Char(candidate)
    source = f"(?![{unwanted}]){char.source}" if unwanted else char.source
    return syntax.Char(f"(?:{source}|[{''.join(wanted)}])" if wanted else f"(?:{source})")


def _bracketed(source: str, wanted: str, unwanted: str) -> Iterator[str]:
    """One class, which is much faster to search for than a lookahead and a choice."""
    if source.startswith("[^") and source.endswith("]"):
        yield f"{source[:-1]}{unwanted}]"
    elif source.startswith("[") and source.endswith("]"):
        yield f"{source[:-1]}{wanted}]"
    elif len(source) == 2 and source[0] == "\\":
        yield f"[{source}{wanted}]"


# --- which tokens ------------------------------------------------------------------------------------------------


def spelled_texts(template: ResponseTemplate) -> list[str]:
    """All runs of literal characters in the delimiters of `template`, through choices as well."""
    trees: list[syntax.Node] = []
    for field in template.fields.values():
        for pattern in (field.open_pattern, field.close_pattern):
            if pattern is not None:
                try:
                    trees.append(syntax.parse(pattern))
                except syntax.Unsupported as error:
                    raise TemplateError(
                        f"field {field.name!r}: token_delimiters=True can't be used with {pattern!r}, because it has"
                        f" {error}"
                    ) from None
    literals = [literal for field in template.fields.values() for literal in (*field.open, *field.close)]
    return literals + [text for tree in trees for text in _texts(tree)]


def _texts(node: syntax.Node) -> Iterator[str]:
    """Literal runs of `node`."""
    items = _flat(syntax.Sequence((node,)))
    for begin, end in _branching_runs(items):
        for way in _ways(items[begin:end]):
            text = ""
            for item in way:
                if isinstance(item, syntax.Char) and item.literal is not None:
                    text += item.literal
                else:
                    yield text
                    text = ""
            yield text
    for item in items:
        if isinstance(item, syntax.Choice):
            for option in item.options:
                yield from _texts(option)
        elif not isinstance(item, (syntax.Char, syntax.Sequence)):
            yield from _texts(item.item)


def controls_for(template: ResponseTemplate, tokens: Iterable[str]) -> ControlTokens:
    """The control tokens of `template`: those of `tokens` (texts) that its delimiters spell out.

    Raises:
        TemplateError: a pattern is outside the subset that can be told (see `syntax`).
    """
    texts = spelled_texts(template)
    return _interned(frozenset(token for token in tokens if token.strip() and any(token in text for text in texts)))


@lru_cache(maxsize=512)
def _interned(texts: frozenset[str]) -> ControlTokens:
    return ControlTokens(texts)


# --- choices, multiplied out -------------------------------------------------------------------------------------

_Way: TypeAlias = "tuple[syntax.Node, ...]"


def _flat(node: syntax.Sequence) -> list[syntax.Node]:
    """The items of a sequence, those of sequences inside it as well."""
    done: list[syntax.Node] = []
    for item in node.items:
        done += _flat(item) if isinstance(item, syntax.Sequence) else [item]
    return done


def _sequence(items: list[syntax.Node]) -> syntax.Node:
    return items[0] if len(items) == 1 else syntax.Sequence(tuple(items))


def _branches(node: syntax.Node) -> bool:
    """Is it a choice, or something that may be left out?"""
    return isinstance(node, syntax.Choice) or (isinstance(node, syntax.Repeat) and (node.least, node.most) == (0, 1))


def _branching_runs(items: list[syntax.Node]) -> Iterator[tuple[int, int]]:
    """Stretches of literal characters and choices, as far as they can be multiplied out."""
    begin, count = 0, 1
    for at, item in enumerate(items):
        ways = len(_ways_through(item)) if _branches(item) else 1
        if count * ways > MAX_WAYS:
            yield begin, at
            begin, count = at, 1
        count *= min(ways, MAX_WAYS)
        if not _branches(item) and not (isinstance(item, syntax.Char) and item.literal is not None):
            if at > begin:
                yield begin, at
            begin, count = at + 1, 1
    if begin < len(items):
        yield begin, len(items)


def _ways(items: list[syntax.Node]) -> list[_Way]:
    """All ways through `items`, the preferred ones first."""
    return [tuple(node for part in parts for node in part) for parts in product(*map(_ways_through, items))]


def _ways_with_items(items: list[syntax.Node], begin: int) -> Iterator[list[tuple[syntax.Node, int]]]:
    """As `_ways`, each node with the number of the item that it comes from, counted from `begin`."""
    for parts in product(*map(_ways_through, items)):
        yield [(node, number) for number, part in enumerate(parts, begin) for node in part]


def _ways_through(node: syntax.Node) -> list[_Way]:
    if isinstance(node, syntax.Choice):
        return [way for option in node.options for way in _ways_through(option)]
    if isinstance(node, syntax.Repeat) and (node.least, node.most) == (0, 1):
        ways = _ways_through(node.item)
        return [*ways, ()] if node.greedy else [(), *ways]
    if isinstance(node, syntax.Sequence):
        if sum(len(_ways_through(item)) > 1 for item in node.items) > 4:
            return [(node,)]
        return _ways(list(node.items))
    return [(node,)]


def _merged(stretches: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Stretches that overlap become one."""
    begin = end = -1
    for first, behind in sorted(stretches):
        if first >= end:
            if end > begin:
                yield begin, end
            begin, end = first, behind
        else:
            end = max(end, behind)
    if end > begin:
        yield begin, end
