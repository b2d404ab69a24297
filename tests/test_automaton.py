"""What the machine finds in a stream is what `regex` finds in the whole text."""

from __future__ import annotations

import concurrent.futures
import threading

import pytest
import regex
from hypothesis import assume, given
from hypothesis import strategies as st

from response_templates import automaton, syntax
from response_templates.automaton import Machine
from response_templates.captures import Tracker
from response_templates.search import Match, Search
from response_templates.syntax import Unsupported

FLAGS = regex.DOTALL | regex.VERSION0
ATOMS = ["a", "b", "c", ".", "[ab]", "[^a]", "ab", r"\s", r"\w", "", "(?i:A)", r"\n"]
LOOKS = [r"\b", r"\B", "^", "$", r"\A", r"\Z", "(?=b)", "(?!a)", "(?<=a)", "(?<!b)", "(?=a.*c)", "(?!.*c)", "(?=a|$)"]
LOOKS += ["(?<=ab|c)", "(?=(?!a).b)", r"(?=\s*b)", r"(?![ab]*\Z)", "(?<!^)"]
REPEATS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{,2}?", "*+"]
ALPHABET = "aabbc \n"


def without_groups(pattern: str) -> str:
    """What a group inside a lookahead holds is a case of its own (below)."""
    return regex.sub(r"\(\?P<\w+>", "(?:", pattern)


def group(pattern: str, number: int) -> str:
    """A named group; a name inside a group of the same name is a case of its own (below)."""
    while f"<g{number}>" in pattern:
        number += 1
    return f"(?P<g{number}>{pattern})"


def patterns() -> st.SearchStrategy[str]:
    """Patterns of the subset, and some outside of it, in the alphabet of `texts`."""
    numbers = st.integers(0, 10**9)
    return st.recursive(
        st.sampled_from(ATOMS) | st.sampled_from(LOOKS),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
            st.tuples(inner, st.sampled_from(REPEATS)).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
            st.tuples(inner, st.sampled_from(["=", "!"])).map(lambda pair: f"(?{pair[1]}{without_groups(pair[0])})"),
            st.tuples(inner, numbers).map(lambda pair: group(*pair)),
        ),
        max_leaves=7,
    )


def compiled(pattern: str) -> tuple[regex.Pattern[str], syntax.Node]:
    """The pattern as `regex` has it, and its tree; the example is dropped if either refuses it."""
    try:
        return regex.compile(pattern, FLAGS), syntax.parse(pattern)
    except (regex.error, Unsupported):
        assume(False)
        raise


def run(machine: Machine, text: str, begin: int, chunk: int) -> tuple[Search, Match | None]:
    """A search from `begin` on, fed with `chunk` characters at a time until it is settled or the text is over."""
    search = Search(machine, begin, text[:begin])
    for at in range(begin, len(text), chunk):
        search.feed(text[at : at + chunk])
        if search.settled() is not None:
            break
    return search, search.settled() or search.finish()


def span(match: Match | regex.Match[str] | None) -> tuple[int, int] | None:
    if match is None:
        return None
    return (match.start, match.end) if isinstance(match, Match) else match.span()


texts = st.text(ALPHABET, max_size=10)


@given(patterns(), st.lists(texts, min_size=1, max_size=5), st.integers(0, 10))
def test_the_match_and_its_groups_are_those_of_regex(pattern: str, samples: list[str], begin: int) -> None:
    expected, tree = compiled(pattern)
    machine = Machine([tree])
    tracker = Tracker(machine, 0)
    for text in samples:
        start = min(begin, len(text))
        want = expected.search(text, start)
        for chunk in (100, 1, 3):
            _, got = run(machine, text, start, chunk)
            assert span(got) == span(want), (text, chunk)
            if got is not None and want is not None:
                assert tracker.groups(got, text, 0, text[: got.start], True) == want.groupdict(), text


@given(patterns(), texts, texts)
def test_what_is_settled_stays_whatever_comes(pattern: str, text: str, more: str) -> None:
    expected, tree = compiled(pattern)
    search = Search(Machine([tree]), 0)
    stop = search.feed(text)
    settled = search.settled()
    if settled is None:
        assert stop == len(text)
        return
    for rest in ("", *ALPHABET, more):
        assert span(settled) == span(expected.search(text + rest))


@given(patterns(), texts, texts)
def test_what_is_free_is_in_no_match(pattern: str, text: str, more: str) -> None:
    expected, tree = compiled(pattern)
    search = Search(Machine([tree]), 0)
    search.feed(text)
    if search.settled() is None:
        for rest in ("", *ALPHABET, more):
            want = expected.search(text + rest)
            assert want is None or want.start() >= search.held_from


@given(st.lists(patterns(), min_size=2, max_size=4), texts, st.sampled_from([1, 2, 100]))
def test_of_several_patterns_the_first_then_the_longest_then_the_preferred_wins(
    sources: list[str], text: str, chunk: int
) -> None:
    pairs = [compiled(source) for source in sources]
    found = [(number, each.search(text)) for number, (each, _) in enumerate(pairs)]
    want = min(
        (Match(number, *match.span()) for number, match in found if match is not None),
        key=lambda match: (match.start, -match.end, match.pattern),
        default=None,
    )
    _, got = run(Machine([tree for _, tree in pairs]), text, 0, chunk)
    assert got == want


@given(patterns(), texts, st.integers(0, 10))
def test_a_blocked_pattern_does_not_match_where_the_search_begins(pattern: str, text: str, begin: int) -> None:
    expected, tree = compiled(pattern)
    begin = min(begin, len(text))
    search = Search(Machine([tree]), begin, text[:begin], frozenset([0]))
    search.feed(text, begin)
    want = expected.search(text, begin + 1) if begin < len(text) else None
    assert span(search.settled() or search.finish()) == span(want)


@given(patterns(), st.lists(texts, min_size=3, max_size=3))
def test_a_small_memo_gives_the_same(pattern: str, samples: list[str]) -> None:
    expected, tree = compiled(pattern)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MAX_STATES", "MAX_ENTRIES", "MAX_KNOWN_CHARACTERS", "LOOPS_BEFORE_SKIP"):
            patch.setattr(automaton, name, 1)
        machine = Machine([tree])
        tracker = Tracker(machine, 0)
        for text in samples:
            want = expected.search(text)
            _, got = run(machine, text, 0, 2)
            assert span(got) == span(want)
            if got is not None and want is not None:
                assert tracker.groups(got, text, 0, text[: got.start], True) == want.groupdict()


@given(patterns(), texts, st.integers(6, 60))
def test_long_runs_of_one_character_are_skipped_rightly(pattern: str, text: str, times: int) -> None:
    """Runs make states that turn to themselves, which are left by a search in C."""
    expected, tree = compiled(pattern)
    stretched = "".join(char * times for char in text[:4]) + text[4:]
    machine = Machine([tree])
    tracker = Tracker(machine, 0)
    want = expected.search(stretched, timeout=5)
    for chunk in (1_000, 7):
        _, got = run(machine, stretched, 0, chunk)
        assert span(got) == span(want)
        if got is not None and want is not None:
            assert tracker.groups(got, stretched, 0, stretched[: got.start], True) == want.groupdict()


# pattern, text so far, is it settled (the match) or not (from where text is held)
SETTLING: dict[str, tuple[list[str], str, tuple[int, int] | int]] = {
    "a literal at its last character": (["</a>"], "x</a>", (1, 5)),
    "half a literal is held": (["</a>"], "xy</", 2),
    "what begins no literal is free": (["</a>"], "xy<b", 4),
    "a false start inside a literal": (["aab"], "xaaa", 2),
    "an optional tail that may come": ([r"</a>(?:\s*</b>)?"], "x</a> ", 1),
    "an optional tail that can't come": ([r"</a>(?:\s*</b>)?"], "x</a> y", (1, 5)),
    "an optional tail that came": ([r"</a>(?:\s*</b>)?"], "x</a> </b>", (1, 10)),
    "a lazy tail is not waited for": ([r"</a>(?:\s*</b>)??"], "x</a>", (1, 5)),
    "a preferred alternative that may come": (["ab|a"], "xa", 1),
    "a preferred alternative that is shorter": (["a|ab"], "xa", (1, 2)),
    "a longer literal of another pattern": (["a", "ab"], "xa", 1),
    "the end may come": ([r"<b>|\Z"], "x", 1),
    "a lookahead that waits": (["a(?=b)"], "xa", 1),
    "a lookahead that is met": (["a(?=b)"], "xab", (1, 2)),
    "a lookahead that has failed": (["a(?=b)"], "xac", 3),
    "a negative lookahead that waits": (["a(?!b)"], "xa", 1),
    "a negative lookahead that holds": (["a(?!b)"], "xac", (1, 2)),
    "leading white space is held": ([r"\s*<t>"], "ab  \n", 2),
    "an earlier start that lives": (["aXb", "X"], "aX", 0),
    "an earlier start that is dead": (["aXb", "X"], "aXc", (1, 2)),
}


@pytest.mark.parametrize(("sources", "text", "expected"), SETTLING.values(), ids=SETTLING.keys())
@pytest.mark.parametrize("chunk", [1, 100])
def test_a_match_is_settled_as_soon_as_nothing_can_change_it(
    sources: list[str], text: str, expected: tuple[int, int] | int, chunk: int
) -> None:
    search = Search(Machine([syntax.parse(source) for source in sources]), 0)
    for at in range(0, len(text), chunk):
        search.feed(text[at : at + chunk])
    if isinstance(expected, int):
        assert search.settled() is None
        assert search.held_from == expected
    else:
        assert span(search.settled()) == expected


def test_feed_stops_behind_the_character_that_settled() -> None:
    search = Search(Machine([syntax.parse("a(?=b)")]), 5)
    assert search.feed("xxabyyy", 1) == 4
    assert search.settled() == Match(0, 6, 7)
    assert search.position == 8


def test_a_pattern_that_is_too_large_is_refused() -> None:
    with pytest.raises(Unsupported):
        Machine([syntax.parse("(?:a{100}){100}")])


@pytest.mark.parametrize("pattern", ["(?:a|a)*b", "(?:a+)+b", "(?:a|aa)+$", "a{0,30}a{30}b", r"\s*\s*\s*\s*x"])
def test_patterns_that_hang_a_backtracking_engine_take_linear_work(pattern: str) -> None:
    machine = Machine([syntax.parse(pattern)])
    search = Search(machine, 0)
    text = ("a" if "a" in pattern else " ") * 5_000
    search.feed(text)
    assert search.steps <= len(text)
    assert machine.work < 20_000
    before = machine.work
    Search(machine, 0).feed(text)
    assert machine.work == before  # everything is known now


@given(st.text(max_size=6), st.text(max_size=20))
def test_literals_of_any_characters(literal: str, text: str) -> None:
    assume(literal)
    machine = Machine([syntax.parse(regex.escape(literal))])
    whole = text + literal + text
    _, got = run(machine, whole, 0, 1)
    at = whole.index(literal)
    assert span(got) == (at, at + len(literal))


GROUPS: dict[str, tuple[str, str]] = {
    "two ways": ("(?P<x>a|ab)(?P<y>b?c)", "abc"),
    "greedy": ("(?P<x>a*)(?P<y>a*)", "aaa"),
    "lazy": ("(?P<x>a*?)(?P<y>a*)b", "aab"),
    "took no part": ("(?P<x>a)|(?P<y>b)", "b"),
    "empty": ("<(?P<x>a*)>", "<>"),
    "the last turn of a loop": ("(?:(?P<x>a|b))+", "aba"),
    "the last turn that took part": ("(?:(?P<x>a)|(?P<y>b))+", "ab"),
    "one name, two places": ("(?P<x>a)b|c(?P<x>d)", "cd"),
    "nested": ("(?P<x>a(?P<y>b)c)", "abc"),
    "nested in a group of the same name": ("(?P<x>a(?P<x>b)c)", "abc"),
    "before a lookahead": ("(?P<x>a+)(?=ab)", "aaab"),
    "inside a lookahead": ("(?=(?P<x>ab))a", "ab"),
    "inside a lookahead that ends after the match": ("a(?=(?P<x>b+))", "abbb"),
    "inside a negative lookahead": ("a(?!(?P<x>c))", "ab"),
    "inside a lookbehind": ("(?<=(?P<x>a))b", "ab"),
}


@pytest.mark.parametrize(("pattern", "text"), GROUPS.values(), ids=GROUPS.keys())
def test_groups_hold_what_they_hold_for_regex_or_the_pattern_is_refused(pattern: str, text: str) -> None:
    want = regex.compile(pattern, FLAGS).search(text)
    try:
        machine = Machine([syntax.parse(pattern)])
    except Unsupported:
        return  # then `regex` itself does it
    _, got = run(machine, text, 0, 1)
    assert got is not None
    assert span(got) == span(want)
    assert Tracker(machine, 0).groups(got, text, 0, text[: got.start], True) == want.groupdict()


def test_streams_of_many_threads_share_one_machine() -> None:
    """What one thread adds to the memo is whole before another one sees it."""
    pattern = r"(?<![`\"])<(?P<n>[^<>\s]{1,20})>(?=\s*[\[{]|\Z)"
    text = "".join(f"a{chr(0x100 + n)}<t{n}> [`<no>[ <x{n}y>{{" for n in range(60))
    wanted = [match.span() for match in regex.finditer(pattern, text, regex.DOTALL)]
    for _ in range(20):
        machine = Machine([syntax.parse(pattern)])
        barrier = threading.Barrier(4)

        def found(machine: Machine = machine, barrier: threading.Barrier = barrier) -> list[tuple[int, int]]:
            spans = []
            at = 0
            barrier.wait()
            while True:
                search = Search(machine, at, text[max(0, at - 1) : at])
                search.feed(text, at)
                match = search.settled() or search.finish()
                if match is None:
                    return spans
                spans.append((match.start, match.end))
                at = match.end

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            results = [each.result() for each in [pool.submit(found) for _ in range(4)]]
        assert results == [wanted] * 4
