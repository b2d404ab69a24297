"""From the text of a pattern to its tree; what is outside the subset is refused."""

from __future__ import annotations

from typing import Any

import pytest
import regex

from response_templates import syntax
from response_templates.syntax import (
    ANY,
    EMPTY,
    END,
    END_OR_LAST_NEWLINE,
    START,
    Capture,
    Char,
    Choice,
    Lookahead,
    Lookbehind,
    Repeat,
    Sequence,
    Unsupported,
    parse,
)

A, B = Char("a", "a"), Char("b", "b")
DIGIT = Char(r"\d")

TREES: dict[str, tuple[str, Any]] = {
    "literal": ("a", A),
    "sequence": ("ab", Sequence((A, B))),
    "nothing": ("", EMPTY),
    "any": (".", ANY),
    "any but a newline": ("(?-s:.)", Char(r"[^\n]")),
    "escaped": (r"\|", Char(r"\|", "|")),
    "newline": (r"\n", Char("\\\n", "\n")),
    "hex": (r"\x41\u0042", Sequence((Char("A", "A"), Char("B", "B")))),
    "class": ("[^ab]", Char("[^ab]")),
    "class that begins with a bracket": ("[]a]", Char("[]a]")),
    "class with an escaped bracket": (r"[\]a]", Char(r"[\]a]")),
    "class of a kind": ("[[:alpha:]_]", Char("[[:alpha:]_]")),
    "digit": (r"\d", DIGIT),
    "property": (r"\p{Lu}", Char(r"\p{Lu}")),
    "choice": ("a|b", Choice((A, B))),
    "choice with nothing": ("a|", Choice((A, EMPTY))),
    "group": ("(?:ab)", Sequence((A, B))),
    "numbered group": ("(a)", A),
    "named group": ("(?P<n>a)", Capture("n", A)),
    "named group, short": ("(?<n>a)", Capture("n", A)),
    "star": ("a*", Repeat(A, 0, None, True)),
    "plus, lazy": ("a+?", Repeat(A, 1, None, False)),
    "optional": ("a?", Repeat(A, 0, 1, True)),
    "counted": ("a{2}", Repeat(A, 2, 2, True)),
    "counted, open": ("a{2,}", Repeat(A, 2, None, True)),
    "counted, from nothing": ("a{,3}?", Repeat(A, 0, 3, False)),
    "counted, both": ("a{2,3}", Repeat(A, 2, 3, True)),
    "braces that count nothing": ("a{x", Sequence((A, Char(r"\{", "{"), Char("x", "x")))),
    "possessive": ("a*+", Sequence((Repeat(A, 0, None, True), Lookahead(A, True)))),
    "lookahead": ("(?=a)", Lookahead(A, False)),
    "negative lookahead": ("(?!a)", Lookahead(A, True)),
    "lookbehind": ("(?<=a)", Lookbehind(A, False)),
    "negative lookbehind": ("(?<!ab)", Lookbehind(Sequence((A, B)), True)),
    "start": ("^", START),
    "start, too": (r"\A", START),
    "end": (r"\Z", END),
    "end or last newline": ("$", END_OR_LAST_NEWLINE),
    "ignore case": ("(?i)a", Char("(?i:a)")),
    "ignore case in a group": ("(?i:a)b", Sequence((Char("(?i:a)"), B))),
    "ignore case of what has none": ("(?i)<", Char("<", "<")),
    "comment": ("a(?#b)", Sequence((A, EMPTY))),
}


@pytest.mark.parametrize(("pattern", "tree"), TREES.values(), ids=TREES.keys())
def test_the_tree_of_a_pattern(pattern: str, tree: Any) -> None:
    regex.compile(pattern, regex.DOTALL)  # it is one
    assert parse(pattern) == tree


UNSUPPORTED = {
    "backreference": r"(a)\1",
    "named backreference": r"(?P<n>a)(?P=n)",
    "recursion": r"a(?R)?b",
    "atomic group": r"(?>a|ab)c",
    "conditional": r"(a)?(?(1)b|c)",
    "fuzzy": r"(?:abc){e<=1}",
    "loop of what can be empty": r"(?:a*)*",
    "loop of lookaround": r"(?:(?=a))+",
    "long lookbehind": r"(?<=a{100})b",
    "endless lookbehind": r"(?<=a*)b",
    "possessive group": r"(?:ab)*+",
    "word start": r"\mfoo",
    "grapheme": r"\X",
    "reset of the match": r"a\Kb",
    "multi-line flag": r"(?m)^a",
    "verbose flag": r"(?x)a b",
    "version flag": r"(?V1)a",
    "branch reset": r"(?|a|b)",
    "deep nesting": "(?:" * 120 + "a" + ")" * 120,
}


@pytest.mark.parametrize("pattern", UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_what_is_outside_the_subset_is_refused(pattern: str) -> None:
    regex.compile(pattern, regex.DOTALL)
    with pytest.raises(Unsupported):
        parse(pattern)


@pytest.mark.parametrize(
    ("pattern", "width"),
    [
        ("abc", 3),
        ("a|bcd", 3),
        ("a{2,5}", 5),
        ("a*", float("inf")),
        ("(?P<n>ab)?", 2),
        ("(?=abc)a", 1),
        ("", 0),
    ],
)
def test_longest(pattern: str, width: float) -> None:
    assert syntax.longest(parse(pattern)) == width


@pytest.mark.parametrize(
    ("pattern", "can_be_empty"),
    [("a", False), ("a*", True), ("a+", False), ("a|", True), ("(?=a)", True), ("(?P<n>a?)b?", True), (r"\Z", True)],
)
def test_nullable(pattern: str, can_be_empty: bool) -> None:
    assert syntax.nullable(parse(pattern)) is can_be_empty


@pytest.mark.parametrize(
    ("pattern", "first"),
    [
        ("ab", {"a"}),
        ("a|b", {"a", "b"}),
        ("a?b", {"a", "b"}),
        (r"\s*<", {r"\s", "<"}),
        ("(?P<n>a)b", {"a"}),
        ("(?=a)", {"a"}),
        ("(?<=x)a", {"a"}),
        (".", {ANY.source}),
        ("a*", None),
        ("", None),
        ("(?!a)", None),
        ("a|", None),
    ],
)
def test_first_chars(pattern: str, first: set[str] | None) -> None:
    assert syntax.first_chars(parse(pattern)) == (None if first is None else frozenset(first))


@pytest.mark.parametrize(
    ("pattern", "width"),
    [("a", 0), ("(?<=ab)c", 2), ("(?<!a|bcd)", 3), ("^a", 1), (r"\b", 1), ("(?=(?<=ab)c)", 2), ("(?:x(?<=x))+", 1)],
)
def test_lookbehind_width(pattern: str, width: int) -> None:
    assert syntax.lookbehind_width(parse(pattern)) == width


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("<think>", "<think>"),
        (r"<\|end\|>", "<|end|>"),
        ("", ""),
        ("a|b", None),
        ("a.", None),
        (r"\d", None),
        ("^a", None),
    ],
)
def test_literal_text(pattern: str, text: str | None) -> None:
    assert syntax.literal_text(parse(pattern)) == text
