"""Work grows linearly and memory stays small, whatever comes: counted in steps, not in seconds.

Counted are the characters that searches read, those that are moved through the buffer, and the threads that are
followed where a pattern's transitions are not known yet. Doubling the text may at most double them, and a little.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from response_templates import ResponseParser, automaton, syntax
from response_templates.automaton import Machine
from response_templates.buffer import TextBuffer
from response_templates.captures import Tracker
from response_templates.content.strings import StringTracker
from response_templates.delimiters import WatchList
from response_templates.search import Budget, Search

ANCHOR = "<|assistant|>"
CALL = {"type": "function", "function": "{content}"}
NAMED_CALL = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}


def template(**fields: Any) -> dict[str, Any]:
    return {"defaults": {"role": "assistant"}, "start_anchor": ANCHOR, "fields": fields}


TEMPLATES: dict[str, dict[str, Any]] = {
    "literals": template(
        reasoning_content={"open": "<think>", "close": "</think>"},
        content={"close": ["<|end|>", "<|eot|>"], "repeats": True, "join": ""},
        tool_calls={
            "open": "<tool_call>",
            "close": "</tool_call>",
            "content": "json",
            "repeats": True,
            "transform": CALL,
        },
    ),
    "patterns": template(
        reasoning_content={
            "open_pattern": r"\s*<think>",
            "close_pattern": r"</think>(?:\s*</answer>)?|(?=<tool_call>)",
        },
        content={"close_pattern": r"<\|end\|>\s*", "repeats": True, "join": ""},
        tool_calls={
            "open_pattern": r"\s*<tool_call>\s*(?=[{\[])",
            "close_pattern": r"\s*</tool_call>|(?<=[}\]])<\|end\|>",
            "content": "json",
            "repeats": True,
            "transform": CALL,
        },
    ),
    "xml": template(
        content={},
        tool_calls={
            "open_pattern": r"<tool_call>\s*<function=(?P<name>[^>]+)>",
            "close_pattern": r"</function>\s*</tool_call>",
            "content": "xml-inline",
            "content_args": {"tag_pattern": r"<parameter=(?P<key>[^>]+)>\s*(?P<value>.*?)\s*</parameter>"},
            "repeats": True,
            "transform": NAMED_CALL,
        },
    ),
    "harmony": template(
        reasoning_content={
            "open_pattern": r"<\|channel\|>analysis.*?<\|message\|>",
            "close": "<|end|>",
            "repeats": True,
        },
        content={"open_pattern": r"<\|channel\|>final.*?<\|message\|>", "close": ["<|end|>", "<|return|>"]},
        tool_calls={
            "open_pattern": r"<\|channel\|>commentary to=functions\.(?P<name>\w+).*?<\|message\|>",
            "close": "<|call|>",
            "content": "json",
            "repeats": True,
            "transform": NAMED_CALL,
        },
    ),
    "python": template(
        content={},
        tool_calls={
            "open": "<|calls|>",
            "close": "<|/calls|>",
            "content": "python-call-list",
            "repeats": True,
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{arguments}"}},
            "transform_each": True,
        },
    ),
    "marks": template(
        content={},
        tool_calls={
            "open_pattern": r"<\|call>call:(?P<name>\w+)",
            "close": "<call|>",
            "content": "json",
            "content_args": {"unquoted_keys": True, "string_delims": [['<|"|>', '<|"|>']]},
            "repeats": True,
            "transform": NAMED_CALL,
        },
    ),
    "lookaround": template(
        reasoning_content={
            "open_pattern": r"(?<![`'])<think>|<think>(?![`'])",
            "close_pattern": r"</think>(?=\s*\S|\s*\Z)",
        },
        content={"repeats": True, "join": ""},
    ),
}


def lines(opening: str, unit: str) -> Callable[[int], str]:
    """A text of about the given size: `unit` again and again."""
    return lambda size: opening + unit * max(1, (size - len(opening)) // len(unit))


HOSTILE: dict[str, Callable[[int], str]] = {
    "ordinary prose": lines("", "The quick brown fox, they say, jumps. "),
    "opens without close": lines("", "<think>"),
    "calls without close": lines("", "<tool_call>{"),
    "Python calls without close": lines("", "<|calls|>["),
    "closes without open": lines("", "</think></tool_call>"),
    "half delimiters": lines("", "<thin</thin<tool_cal<|en"),
    "one character of a delimiter": lines("", "<"),
    "half delimiters in the reasoning": lines("<think>", "</thin"),
    "white space": lines("", " "),
    "white space in the reasoning": lines("<think>x", "\n "),
    "white space after a close": lines("<think>x</think>", " "),
    "white space and half an open": lines("", " <thin"),
    "white space in a call": lines("<tool_call>{", " "),
    "white space before a close that never comes": lines("<tool_call>{}", " </tool"),
    "nested brackets": lines("<tool_call>", "["),
    "nested objects": lines("<tool_call>", '{"a":'),
    "nested Python lists": lines("<|calls|>[f(x=", "["),
    "nested marks": lines("<|call>call:f", "{a:"),
    "quotes that never end": lines('<tool_call>{"a": "', "x"),
    "closes in a string that never ends": lines('<tool_call>{"a": "', "</tool_call>"),
    "strings that never end, again and again": lines("", '<tool_call>{\\"</tool_call>'),
    "strings of two kinds that never end": lines("", "<|calls|>[\\\"\\'<|/calls|>"),
    "marks that never end, again and again": lines("", '<|call>call:f{<|"|><call|>'),
    "strings with a close each": lines("<tool_call>[", '"</tool_call>",'),
    "backslashes": lines('<tool_call>"', "\\"),
    "quotes": lines("<tool_call>", '"'),
    "half marks": lines("<|call>call:f{", '<|"'),
    "unended headers": lines("", "<|channel|>analysis"),
    "unended call headers": lines("", "<|channel|>commentary to=functions.f "),
    "one unended header": lines("<|channel|>analysis", "x"),
    "headers that end": lines("", "<|channel|>analysis<|message|>x<|end|>"),
    "function headers that never end": lines("", "<tool_call><function="),
    "parameters that never end": lines("<tool_call><function=f>", "<parameter=a>"),
    "a parameter and white space": lines("<tool_call><function=f><parameter=a>x", " "),
    "many parameters": lines("<tool_call><function=f>", "<parameter=a>x</parameter>"),
    "many empty calls": lines("", "<tool_call></tool_call>"),
    "many good calls": lines("", '<tool_call>{"name": "f", "arguments": {}}</tool_call>'),
    "closes with half a tail": lines("<think>x", "</think>\n</answe"),
    "end tokens": lines("", "<|end|>"),
    "surrogates": lines("", "\ud800<"),
}


@dataclass
class Steps:
    """What is counted."""

    read: int = 0  # characters that searches read
    moved: int = 0  # characters taken out of the buffer (or peeked at)
    lexed: int = 0  # characters that string trackers read
    work: int = 0  # threads followed
    pieces: int = 0  # pieces of the buffer that were walked over, and searches begun
    _machines: list[Machine] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.read + self.moved + self.lexed + self.work + self.pieces


class CountingSearch:
    """A search that counts what it reads."""

    def __init__(self, search: Any, steps: Steps) -> None:
        self._search = search
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._search, name)

    def feed(self, text: str, offset: int = 0) -> int:
        stop: int = self._search.feed(text, offset)
        self._steps.read += max(0, stop - offset)
        return stop


class CountingPieces(list[str]):
    """The buffer's pieces; counts those that are looked at or moved."""

    steps: Steps

    def __iter__(self) -> Iterator[str]:
        for piece in super().__iter__():
            self.steps.pieces += 1
            yield piece

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        self.steps.pieces += 1 if isinstance(found, str) else len(found)
        return found

    def __setitem__(self, place: Any, value: Any) -> None:
        self.steps.pieces += len(self)
        super().__setitem__(place, value)

    def __delitem__(self, place: Any) -> None:
        super().__delitem__(place)
        self.steps.pieces += len(self)


@contextmanager
def counted() -> Iterator[Steps]:
    """Counts all that is done inside."""
    steps = Steps()
    begin, take, peek, make = WatchList.begin, TextBuffer.take, TextBuffer.peek, TextBuffer.__init__
    advance, closure, step = StringTracker.advance, Machine.closure, Tracker._step

    def count_begin(self: WatchList, *args: Any, **kwargs: Any) -> Any:
        steps.pieces += 1
        return CountingSearch(begin(self, *args, **kwargs), steps)

    def count_take(self: TextBuffer, position: int) -> str:
        text = take(self, position)
        steps.moved += len(text)
        return text

    def count_peek(self: TextBuffer, position: int) -> str:
        text = peek(self, position)
        steps.moved += len(text)
        return text

    def count_pieces(self: TextBuffer, start: int = 0) -> None:
        make(self, start)
        self._pieces = CountingPieces()
        self._pieces.steps = steps

    def count_advance(self: StringTracker, text: str) -> None:
        steps.lexed += len(text)
        advance(self, text)

    def count_closure(self: Machine, *args: Any, **kwargs: Any) -> Any:
        for thread in closure(self, *args, **kwargs):
            steps.work += 1
            yield thread

    def count_step(self: Tracker, *args: Any) -> Any:
        steps.read += 1
        return step(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WatchList, "begin", count_begin)
        patch.setattr(TextBuffer, "take", count_take)
        patch.setattr(TextBuffer, "peek", count_peek)
        patch.setattr(TextBuffer, "__init__", count_pieces)
        patch.setattr(StringTracker, "advance", count_advance)
        patch.setattr(Machine, "closure", count_closure)
        patch.setattr(Tracker, "_step", count_step)
        yield steps


def run(source: dict[str, Any], text: str, chunk: int) -> Steps:
    """What parsing `text` takes, `chunk` characters at a time."""
    with counted() as steps:
        parser = ResponseParser(source, "", errors="recover")
        for at in range(0, len(text), chunk):
            parser.feed(text[at : at + chunk])
        parser.finalize()
    return steps


SIZE = 2_000


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES.keys())
@pytest.mark.parametrize("chunk", [4, 1_000_000], ids=["streamed", "whole"])
def test_twice_the_text_is_twice_the_work(source: dict[str, Any], text: Callable[[int], str], chunk: int) -> None:
    run(source, text(SIZE), chunk)  # what is memoised is known now
    short = run(source, text(SIZE), chunk).total
    long = run(source, text(4 * SIZE), chunk).total
    assert long <= 4.4 * short + 1_000


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES.keys())
def test_each_character_is_read_a_few_times(source: dict[str, Any], text: Callable[[int], str]) -> None:
    generation = text(SIZE)
    for chunk in (1, 7, 1_000_000):
        steps = run(source, generation, chunk)
        assert steps.read <= 5 * len(generation) + 500
        assert steps.moved <= 4 * len(generation) + 500
        assert steps.lexed <= 4 * len(generation) + 500


@pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES.keys())
def test_a_chunk_costs_the_same_however_much_came_before(source: dict[str, Any]) -> None:
    """Also while text is held, which no later chunk may walk over again."""
    for opening in ("", "<think>", '<tool_call>{"a": "</tool_call>', "<|channel|>analysis", "<|calls|>['<|/calls|>"):
        with counted() as steps:
            parser = ResponseParser(source, "", errors="recover")
            parser.feed(opening)
            costs = []
            for _ in range(4_000):
                before = steps.total
                parser.feed(" x a")
                costs.append(steps.total - before)
        assert sum(costs[-1_000:]) <= 1.1 * sum(costs[1_000:2_000]) + 100


@pytest.mark.parametrize(
    "pattern", [r"\s*<a>", r"</a>(?:\s*</b>)?", "<c>.*?<m>", "(?:a|a)*b", "(?=a.*b)a", r"\s*\s*x", "(?:a+)+$"]
)
def test_a_search_reads_each_character_once(pattern: str) -> None:
    machine = Machine([syntax.parse(pattern)])
    work = []
    for size in (1_000, 2_000, 4_000, 8_000):
        search = Search(machine, 0)
        text = " a<a" * (size // 4)
        while search.settled() is None and search.position < len(text):
            search.feed(text[search.position : search.position + 4])
        assert search.steps <= size
        work.append(machine.work)
    assert work[-1] == work[0]  # known by then: nothing more to follow


@pytest.mark.parametrize("pattern", [r"<c>.*?<m>(?P<x>\w*)", r"(?P<x>a|ab)*(?P<y>b*)c", r"\s*(?P<x>.*?)\s*</p>"])
def test_groups_of_long_matches_take_linear_work(pattern: str) -> None:
    machine = Machine([syntax.parse(pattern)])
    tracker = Tracker(machine, 0)
    work = []
    for size in (1_000, 2_000, 4_000, 8_000):
        text = "<c>" + "ab" * (size // 2) + " <m>x</p> c"
        search = Search(machine, 0)
        search.feed(text)
        match = search.settled() or search.finish()
        assert match is not None
        tracker.groups(match, text, 0, text[: match.start], True)
        work.append(machine.work)
    assert work[-1] <= work[0] + 300  # nearly all is known after the first


# --- memory --------------------------------------------------------------------------------------------------------

STREAMED = [pytest.param(300_000, id="300 KB"), pytest.param(10_000_000, id="10 MB", marks=pytest.mark.slow)]


@pytest.mark.parametrize(
    ("source", "opening"),
    [
        ("literals", ""),
        ("literals", "<think>"),
        ("literals", '<tool_call>{"a": "'),
        ("literals", '<tool_call>{"a": "</tool_call>'),
        ("patterns", ""),
        ("patterns", "<think>"),
        ("harmony", "<|channel|>analysis"),
        ("harmony", "lost"),
    ],
)
@pytest.mark.parametrize("size", STREAMED)
def test_the_memory_of_a_long_stream(source: str, opening: str, size: int) -> None:
    """A chunk of four characters is a str of 53 bytes: a piece and its place are all that is kept of it."""
    pieces = [f"{number % 9_973:04d}" for number in range(9_973)]  # so that chunks are objects of their own
    parser = ResponseParser(TEMPLATES[source], "", errors="recover")
    parser.feed(opening)
    tracemalloc.start()
    try:
        for at in range(size // 4):
            parser.feed(pieces[at % 9_973][:2] + pieces[at % 9_973][2:])
        parser.finalize()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 25 * size + 1_000_000


@pytest.mark.parametrize("size", STREAMED)
def test_discarded_text_is_not_kept(size: int) -> None:
    parser = ResponseParser(TEMPLATES["harmony"], "")
    tracemalloc.start()
    try:
        for at in range(size // 4):
            parser.feed(f"{at:04d}"[-4:])
        parser.finalize()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 100_000


def test_what_is_memoised_is_capped() -> None:
    """Text that always makes new states and new classes of characters."""
    machine = Machine([syntax.parse(r"(?:a|b)*a(?:a|b){14}c"), syntax.parse("[\u4e00-\u9fff]x")])
    budget = Budget()
    budget.left = 10**9  # a stream would have given up on this pattern long before
    search = Search(machine, 0, budget=budget)
    seed = 1
    text = []
    for _ in range(30_000):
        seed = (seed * 1_103_515_245 + 12_345) % 2**31
        text.append("ab"[seed >> 16 & 1])
    search.feed("".join(text))
    for at in range(60_000):
        search.feed(chr(0x100 + at % 50_000) if not 0xD800 <= 0x100 + at % 50_000 < 0xE000 else "y")
    assert len(machine._states) <= automaton.MAX_STATES + 1
    assert len(machine._vectors) <= automaton.MAX_KNOWN_CHARACTERS + 1
