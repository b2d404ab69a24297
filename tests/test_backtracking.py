"""What may be left to a backtracking engine: the proof, the classes it rests on, patterns cut at their gaps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from response_templates import backtracking, patterns, registry, syntax
from response_templates.backtracking import NotProved, Unsure, chain, is_proved, limited

PROVED = [
    r"</think>",
    r"(?<![`\"'])<think>|<think>(?![`\"'])",
    r"<tool_call>\s*<function=(?P<name>[^<>\s]+)>",
    r"</a>(?:\s*</b>)?",
    r"<\|channel\|>final[^<=]{0,64}(?:<\|constrain\|>[^<=]{0,64})?<\|message\|>",
    r"<a>[ \t]*\n\s*\"",
    r"x\s*\Z",
    r"(?=<a>\s*<b>)",
    r"(?<=</p>\s?)</f>",
]
NOT_PROVED = {
    "a loop in a loop": r"(?:ab*)*c",
    "alternatives in a loop": r"(?:a|a)*b",
    "any text": r"<a>.*?<b>",
    "any text, greedy": r"<a>.*<b>",
    "a loop that nothing outside its class stands before": r"\s*<a>",
    "the same behind characters of its class": r"<p=[^>]+>",
    "two loops that share characters": r"<a>\s*\s*<b>",
    "a loop, and then one of its characters": r"<a>\s*\n",
    "a limited loop that shares many characters with what follows": r"<a>[a-z]{0,200}b",
    "choices that multiply": r"<" + r"(?:a|ab)" * 8 + ">",
    "a counted group": r"<(?:ab){2,3}>",
    "too long": r"<[^<]{0,1000}>",
    "white space between two loops of it": r"<a>\s*\[?\s*\{",
}


@pytest.mark.parametrize("pattern", PROVED)
def test_proved(pattern: str) -> None:
    assert is_proved(syntax.parse(pattern))


@pytest.mark.parametrize("pattern", NOT_PROVED.values(), ids=NOT_PROVED)
def test_not_proved(pattern: str) -> None:
    assert not is_proved(syntax.parse(pattern))


def test_what_repeats_in_a_proved_pattern_is_tried_once_a_start() -> None:
    """The claim behind rule 2, counted: runs taken from different starts overlap only so often."""
    node = syntax.parse(r"<a>\s*<b>")
    assert is_proved(node)
    text = "<a>" + " " * 500 + "<a>" + " " * 500
    runs = [found.span(1) for found in re.finditer(r"(?=<a>(\s*))", text)]
    assert sum(end - begin for begin, end in runs) <= len(text)


# --- what is known of classes -------------------------------------------------------------------------------------

EVERY_CHARACTER = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)


def registered_patterns() -> Iterator[str]:
    def within(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for key, inner in value.items():
                if key.endswith("pattern") and isinstance(inner, str):
                    yield inner
                else:
                    yield from within(inner)

    for path in sorted(registry.templates_folder().glob("*.json")):
        if not path.name.endswith(".meta.json"):
            yield from within(json.loads(path.read_text(encoding="utf-8")))


def tree(pattern: str) -> syntax.Node:
    try:
        return syntax.parse(pattern)
    except syntax.Unsupported:
        return syntax.EMPTY


def classes_in(node: syntax.Node) -> Iterator[syntax.Char]:
    if isinstance(node, syntax.Char):
        if node.literal is None:
            yield node
    elif isinstance(node, (syntax.Sequence, syntax.Choice)):
        for item in node.items if isinstance(node, syntax.Sequence) else node.options:
            yield from classes_in(item)
    else:
        yield from classes_in(node.item)


def test_what_is_known_of_classes_is_true_of_every_character() -> None:
    """For each class in the registry: `re`'s form, its members, and which classes have none in common."""
    classes = {syntax.Char(source) for source in (r"\s", r"\S", r"[^\s<]", r"[\s<]", "[a-f0-9]", r"[\]}]", "[^a-c]")}
    classes |= {each for pattern in registered_patterns() for each in classes_in(tree(pattern))}
    members = {each: frozenset(regex.findall(each.source, EVERY_CHARACTER, regex.DOTALL)) for each in classes}
    for each, having in members.items():
        for_re = backtracking._re_source(each)
        if for_re is not None:
            assert frozenset(re.findall(for_re, EVERY_CHARACTER, re.DOTALL)) == having, each
        known = backtracking._members(each)
        assert known is None or frozenset(known) == having, each
        for other, theirs in members.items():
            if not backtracking._overlap(each, other):
                assert not having & theirs, (each, other)
    assert not backtracking._overlap(syntax.Char(r"[^\s<]"), syntax.Char(r"\s"))
    assert set(backtracking.WHITE_SPACE) == members[syntax.Char(r"\s")]


# --- patterns cut at their gaps -----------------------------------------------------------------------------------

CHAINS = [
    r"<p=(?P<key>[^>]+)>\s*(?P<value>.*?)\s*</p>",
    r"<p=(?P<key>[^<>\n]+)>\n?(?P<value>.*?)(?:\n?</p>(?=\s*(?:<p=|</f>|\Z))|\n?(?=\n<p=[^<>\n]+>\n|</f>\s*\Z|\Z))",
    r"<k>(?P<key>.*?)</k>\s*<v>(?P<value>.*?)</v>",
    r"<p=(?P<key>\w+)>(?P<value>.*?)</p>",
    r"<p (?P<key>[a-z]+)=\"(?P<value>[^\"]*)\">",
    r"<k>(?P<key>[^<]*)</k>",
]
PIECES = ["<p=", "<p ", "k", ">", "\n", " ", "</p>", "</f>", "<k>", "</k>", "<v>", "</v>", "x", '="', '">', "<", "\x1c"]
texts = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)


@pytest.mark.parametrize("pattern", CHAINS)
def test_chain_is_there(pattern: str) -> None:
    assert chain(syntax.parse(pattern)) is not None


@pytest.mark.parametrize("pattern", [r"\s*", r"(?P<value>.*?)", r"<a>(?:x.*?)*<b>", r"<a>(?P<v>.*?)\s*\n"])
def test_no_chain(pattern: str) -> None:
    assert chain(syntax.parse(pattern)) is None


@pytest.mark.parametrize("pattern", CHAINS)
@given(text=texts)
def test_chain_finds_what_regex_finds(pattern: str, text: str) -> None:
    ours = [(found.start, found.end, found.groups) for found in patterns.compile_pattern(pattern).finditer(text)]
    theirs = [(found.start(), found.end(), found.groupdict()) for found in regex.finditer(pattern, text, regex.DOTALL)]
    assert ours == theirs


def test_chain_says_where_it_does_not_know() -> None:
    found = chain(syntax.parse(r"<p>(?P<v>.*?)</p>"))
    assert found is not None
    assert found.find("x<p>1</p>", 0) == (1, 9, {"v": "1"})
    assert found.find("x<p>1</p>", 9) is None
    with pytest.raises(Unsure) as caught:
        found.find("xy<p>1", 0)
    assert caught.value.place == 2


# --- short runs ---------------------------------------------------------------------------------------------------


def test_limited() -> None:
    node = syntax.parse(r"<f=(?P<n>[^>]+)>")
    assert not is_proved(node)
    short = backtracking.compiled(limited(node, 4)).match
    assert short("<f=abcd>", 0).groupdict() == {"n": "abcd"}
    assert short("<f=abcde>", 0) is None  # which means: not known


@pytest.mark.parametrize(
    "pattern",
    [r"</a>(?:\s*\s*</b>)?", r"<a(?:[^>]+>|b)", r"<a>(?!\s*\s*x)", r"<p=[^>]+>?"],
    ids=["optional", "one of two", "negative", "optional end"],
)
def test_what_a_limit_could_change_is_not_limited(pattern: str) -> None:
    """With the run cut short these would match in another way, instead of not at all."""
    with pytest.raises(NotProved):
        limited(syntax.parse(pattern), 4)
