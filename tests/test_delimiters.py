"""Which delimiter is found, where, and what is held back for it."""

from __future__ import annotations

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from response_templates.delimiters import Delimiter, WatchList, delimiters_of, last_match
from response_templates.search import Match
from response_templates.template import Field
from strategies import LITERALS, splits


def literals(*texts: str) -> WatchList:
    return WatchList(Delimiter("close", "f", literal=text) for text in texts)


def pattern(source: str) -> WatchList:
    return WatchList([Delimiter("close", "f", pattern=source)])


def find(watch: WatchList, chunks: list[str], begin: int = 0) -> Match | None:
    search = watch.begin(begin)
    for chunk in chunks:
        search.feed(chunk)
        if search.settled() is not None:
            return search.settled()
    return search.finish()


def naive(texts: list[str], text: str) -> tuple[int, int] | None:
    """The literal that starts first, at the same place the longest."""
    for at in range(len(text)):
        here = [each for each in texts if text.startswith(each, at)]
        if here:
            return at, at + max(map(len, here))
    return None


_literal_lists = st.lists(st.sampled_from(LITERALS) | st.text("ab<|", min_size=1, max_size=4), min_size=1, max_size=5)
_texts = st.lists(st.sampled_from(LITERALS) | st.text("ab<|>x", max_size=4), max_size=6).map("".join)


@st.composite
def _cut(draw: st.DrawFn) -> tuple[str, list[str]]:
    text = draw(_texts)
    return text, draw(splits(text))


@given(_literal_lists, _cut(), st.integers(0, 50))
def test_literals_are_found_as_a_naive_search_finds_them(texts: list[str], cut: tuple[str, list[str]], at: int) -> None:
    text, chunks = cut
    want = naive(texts, text)
    watch = literals(*texts)
    for pieces in (chunks, [text], list(text)):
        got = find(watch, pieces, at)
        assert (None if got is None else (got.start - at, got.end - at)) == want
        if got is not None:
            assert watch.delimiters[got.pattern].literal == text[got.start - at : got.end - at]


@given(_literal_lists, _cut())
def test_only_the_beginning_of_a_literal_is_held(texts: list[str], cut: tuple[str, list[str]]) -> None:
    _, chunks = cut
    search = literals(*texts).begin(0)
    fed = ""
    for chunk in chunks:
        search.feed(chunk)
        fed += chunk
        if search.settled() is not None:
            return
        beginnings = [at for at in range(len(fed)) if any(each.startswith(fed[at:]) for each in texts)]
        complete = naive(texts, fed)
        earliest = min([*beginnings, *(complete or ())[:1]], default=len(fed))
        assert search.held_from == earliest


@pytest.mark.parametrize(
    ("texts", "finder"),
    [
        (["</a>"], "_Literals"),
        (["<|end|>", "<|return|>"], "_Literals"),
        (["ab", "bc"], "_Literals"),
        (["a", "ab"], "_Patterns"),
        (["aab", "a"], "_Patterns"),
        (["a", "a"], "_Patterns"),
    ],
)
def test_which_way_literals_are_searched(texts: list[str], finder: str) -> None:
    assert type(literals(*texts)._finder).__name__ == finder


ENTANGLED: dict[str, tuple[list[str], str, str, tuple[int, int] | None]] = {
    "the longer one came": (["a", "ab"], "xab", "", (1, 3)),
    "the longer one can't come": (["a", "ab"], "xac", "", (1, 2)),
    "the longer one may come": (["a", "ab"], "xa", "held", (1, 2)),
    "an inner one, the outer one came": (["b", "abc"], "abc", "", (0, 3)),
    "an inner one, the outer one may come": (["b", "abc"], "ab", "held", (1, 2)),
    "an inner one, the outer one can't come": (["b", "abc"], "abx", "", (1, 2)),
    "a tail of the other": (["<a>", "<a><b>"], "<a><c", "", (0, 3)),
}


@pytest.mark.parametrize(("texts", "text", "held", "span"), ENTANGLED.values(), ids=ENTANGLED.keys())
def test_literals_that_hide_in_one_another(
    texts: list[str], text: str, held: str, span: tuple[int, int] | None
) -> None:
    search = literals(*texts).begin(0)
    search.feed(text)
    assert (search.settled() is None) == bool(held)
    match = search.settled() or search.finish()
    assert match is not None
    assert (match.start, match.end) == span


def test_opens_come_before_closes_then_fields_by_name() -> None:
    watch = WatchList(
        [
            Delimiter("close", "a", literal="x"),
            Delimiter("open", "c", literal="x"),
            Delimiter("open", "b", literal="x"),
            Delimiter("open", "d", pattern="y"),
        ]
    )
    match = find(watch, ["x"])
    assert match is not None
    assert watch.delimiters[match.pattern] == Delimiter("open", "b", literal="x")


def test_the_longest_comes_before_opens() -> None:
    watch = WatchList([Delimiter("open", "a", literal="x"), Delimiter("close", "b", literal="xy")])
    match = find(watch, ["xy"])
    assert match is not None
    assert watch.delimiters[match.pattern].role == "close"


def test_nothing_to_watch_for() -> None:
    watch = WatchList([])
    search = watch.begin(3)
    search.feed("anything")
    assert search.settled() is None
    assert search.held_from == 11
    assert search.finish() is None


def test_delimiters_of_a_field() -> None:
    field = Field("f", open=("a", "b"), close_pattern="c")
    assert delimiters_of(field, "open") == [Delimiter("open", "f", literal="a"), Delimiter("open", "f", literal="b")]
    assert delimiters_of(field, "close") == [Delimiter("close", "f", pattern="c")]
    assert delimiters_of(Field("f"), "close") == []


# --- patterns outside the machine's subset ---------------------------------------------------------------------

GUARDED = {
    "backreference": (r"(a)\1", "xaya<aa>"),
    "named backreference": (r"<(?P<t>\w+)>[^<]*</(?P=t)>", "<a></b><b>q</b>"),
    "atomic group": (r"(?>a|ab)c", "abc ac"),
    "long lookbehind": (r"(?<=a.*)b", "xba b"),
}


@pytest.mark.parametrize(("source", "text"), GUARDED.values(), ids=GUARDED.keys())
def test_other_patterns_hold_all_text_until_the_end(source: str, text: str) -> None:
    want = regex.search(source, text, regex.DOTALL)
    assert want is not None
    watch = pattern(source)
    for chunks in ([text], list(text)):
        search = watch.begin(7)
        for chunk in chunks:
            assert search.feed(chunk) == len(chunk)
            assert search.settled() is None
            assert search.held_from == 7
        match = search.finish()
        assert match is not None
        assert (match.start - 7, match.end - 7) == want.span()
        assert watch.groups(match, text[match.start - 7 :], match.start, text[: match.start - 7], True) == (
            want.groupdict()
        )


def test_other_patterns_beside_literals() -> None:
    watch = WatchList([Delimiter("open", "f", pattern=r"(a)\1"), Delimiter("close", "f", literal="<b>")])
    match = find(watch, ["x<b", ">aa"])
    assert match is not None
    assert watch.delimiters[match.pattern].literal == "<b>"
    assert (match.start, match.end) == (1, 4)


def test_a_blocked_pattern_outside_the_subset() -> None:
    watch = pattern(r"(?:(a)\1)?")
    search = watch.begin(0, "", frozenset([0]))
    search.feed("xaa")
    match = search.finish()
    assert match is not None
    assert (match.start, match.end) == (1, 3)


# --- anchors -----------------------------------------------------------------------------------------------------

ANCHORS: dict[str, tuple[str | None, list[str], str, tuple[int, int] | None]] = {
    "none": (None, ["A"], "bcd", None),
    "the last": (None, ["<A>"], "<A>x<A>y", (4, 7)),
    "one of several": (None, ["<A>", "<B>"], "<A>x<B>y", (4, 7)),
    "the longest": (None, ["<A>", "<A>\n"], "x<A>\ny", (1, 5)),
    "without overlap": (None, ["aa"], "aaa", (0, 2)),
    "a pattern": (r"<A>\s*", [], "<A> <A>\n\nx", (4, 9)),
    "a pattern outside the subset": (r"(a)\1", [], "aabaa", (3, 5)),
    "an empty match": ("(?=b)", [], "abab", (3, 3)),
    "at the end": (None, ["<A>"], "x<A>", (1, 4)),
    "half of it": (None, ["<A>"], "x<A", None),
}


@pytest.mark.parametrize(("source", "texts", "prompt", "span"), ANCHORS.values(), ids=ANCHORS.keys())
def test_the_last_anchor(source: str | None, texts: list[str], prompt: str, span: tuple[int, int] | None) -> None:
    assert last_match(source, texts)(prompt) == span


@given(st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=3), st.text("abc", max_size=12))
def test_literal_anchors_are_scanned_from_left_to_right(texts: list[str], prompt: str) -> None:
    spans, at = [], 0
    while (found := naive(texts, prompt[at:])) is not None:
        spans.append((at + found[0], at + found[1]))
        at += found[1]
    assert last_match(None, texts)(prompt) == (spans[-1] if spans else None)
    joined = "|".join(sorted(texts, key=len, reverse=True))
    assert last_match(joined, [])(prompt) == (spans[-1] if spans else None)
