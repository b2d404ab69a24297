"""Snapshots: what is shown stays, the last one is the message, and a stream of them costs little more than the stream.

Over every registry template: real turns of its family, cut at random, whole and cut off.
"""

from __future__ import annotations

import itertools
import logging
import sys
import threading
import tracemalloc
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domains import domains
from response_templates import InputTypeError, ResponseParser, Snapshot, get_template, parse_response
from strategies import Case, cases, splits
from test_properties import exact, promise
from written_turns import turns

pytest.importorskip("jinja2")
logging.getLogger("transformers").setLevel(logging.ERROR)
few = settings(promise, max_examples=max(8, promise.max_examples // 30))  # there are many templates


# --- what is shown stays ---------------------------------------------------------------------------------------------


def check_grows(before: Snapshot, after: Snapshot) -> None:
    """All that `before` shows is in `after`, at the same place; what was not being written is what it was."""
    written = set(before.partial)
    now = after.message

    def check(path: tuple[Any, ...], was: Any, is_now: Any) -> None:
        top = len(path) <= 1  # fields: a region that comes later adds items, or text
        if not top and path not in written:
            assert exact(was) == exact(is_now), path
        elif isinstance(was, str):
            assert isinstance(is_now, str)
            assert is_now.startswith(was), path
        elif isinstance(was, dict):
            assert isinstance(is_now, dict)
            assert [key for key in is_now if key in was] == list(was), path
            for key, value in was.items():
                check((*path, key), value, is_now[key])
        elif isinstance(was, list):
            assert isinstance(is_now, list)
            assert len(was) <= len(is_now), path
            for number, value in enumerate(was):
                check((*path, number), value, is_now[number])
        else:
            assert exact(was) == exact(is_now), path

    check((), before.message, now)


def snapshots(parser: ResponseParser, pieces: Iterable[Any]) -> list[Snapshot]:
    """One after each piece, and one at the end, which is the message."""
    taken = [parser.snapshot()]
    for piece in pieces:
        parser.feed(piece)
        taken.append(parser.snapshot())
    message, _ = parser.finalize()
    taken.append(parser.snapshot())
    assert exact(taken[-1].message) == exact(message)
    assert taken[-1].partial == ()
    return taken


@pytest.mark.parametrize("name", domains())
def test_snapshots_of_every_family_only_grow(name: str) -> None:
    template, at_hand = get_template(name).template, turns(name)
    if not at_hand:
        pytest.skip("no turn is at hand")

    @few
    @given(st.data())
    def check(data: st.DataObject) -> None:
        turn, of_turn = data.draw(st.sampled_from(at_hand))
        text, tools = turn.generation, data.draw(st.sampled_from([None, of_turn]))
        pieces = data.draw(splits(text) | st.just(list(text)))
        parser = ResponseParser(template, turn.prompt, tools=tools, errors="recover")
        taken = snapshots(parser, pieces)
        whole = parse_response(text, template, prefix=turn.prompt, tools=tools, errors="recover")
        assert exact(taken[-1].message) == exact(whole)
        if "malformed" in whole:  # what was shown of it is gone from its place
            return
        for before, after in itertools.pairwise(taken):
            check_grows(before, after)

    check()


@pytest.mark.parametrize("name", domains())
def test_a_turn_that_is_cut_off_grows_as_far_as_it_goes(name: str) -> None:
    """Until the end, which drops a call that was not finished."""
    template, at_hand = get_template(name).template, turns(name)
    for turn, tools in at_hand[-2:]:
        text = turn.generation
        for end in range(1, len(text), max(1, len(text) // 6)):
            parser = ResponseParser(template, turn.prompt, tools=tools, errors="recover")
            taken = snapshots(parser, text[:end])
            if not any("malformed" in each.message for each in taken[:-1]):
                for before, after in itertools.pairwise(taken[:-1]):
                    check_grows(before, after)


@settings(promise, max_examples=max(60, promise.max_examples // 5))
@given(cases(), st.data())
def test_any_template(case: Case, data: st.DataObject) -> None:
    """Whatever the template and the text: no snapshot fails, and the last is the message."""
    parser = ResponseParser(case.template, case.prefix, errors="recover")
    for snapshot in snapshots(parser, data.draw(splits(case.text) | st.just(list(case.text)))):
        assert all(snapshot.is_complete(*path) is False for path in snapshot.partial)
        assert isinstance(snapshot.message, dict)


@pytest.mark.parametrize("name", ["qwen3", "qwen3-coder", "glm", "lfm2", "gpt-oss"])
def test_a_snapshot_shows_its_own_moment_however_late_it_is_read(name: str) -> None:
    template = get_template(name).template
    for turn, tools in turns(name):
        early, late = (ResponseParser(template, turn.prompt, tools=tools) for _ in range(2))
        read_late = snapshots(late, turn.generation)
        for number, snapshot in enumerate(read_late[:-1]):
            if number:
                early.feed(turn.generation[number - 1])
            now = early.snapshot()
            assert exact(now.message) == exact(snapshot.message)
            assert now.partial == snapshot.partial


@pytest.mark.parametrize("name", domains())
def test_how_often_one_looks_does_not_matter(name: str) -> None:
    template, at_hand = get_template(name).template, turns(name)
    for turn, tools in at_hand[-2:]:
        often = ResponseParser(template, turn.prompt, tools=tools, errors="recover")
        for end, char in enumerate(turn.generation, 1):
            often.feed(char)
            snapshot = often.snapshot()
            if end % (len(turn.generation) // 4 + 1) == 0:
                once = ResponseParser(template, turn.prompt, tools=tools, errors="recover")
                once.feed(turn.generation[:end])
                assert exact(once.snapshot().message) == exact(snapshot.message)
                assert once.snapshot().partial == snapshot.partial


# --- what is shown ---------------------------------------------------------------------------------------------------


def shown(name: str, text: str, **options: Any) -> list[Any]:
    """Arguments of the last call after each character, each state once."""
    parser = ResponseParser(get_template(name).template, "", errors="recover", **options)
    states: list[Any] = []
    for char in text:
        parser.feed(char)
        calls = parser.snapshot().message.get("tool_calls", ())
        state = (calls[-1]["function"]["name"], calls[-1]["function"]["arguments"]) if calls else None
        if not states or exact(states[-1]) != exact(state):
            states.append(state)
    return states


@pytest.mark.parametrize(
    ("name", "text", "states"),
    [
        (
            "qwen3",
            '<tool_call>{"name": "f", "arguments": {"a": "x\\n", "n": 12}}</tool_call>',
            [None, {}, {"a": ""}, {"a": "x"}, {"a": "x\n"}, {"a": "x\n", "n": 12}],
        ),
        (
            "qwen3",
            '<tool_call>{"name": "f", "arguments": "{\\"a\\": \\"xy\\"}"}</tool_call>',
            [None, {}, {"a": ""}, {"a": "x"}, {"a": "xy"}],
        ),
        (
            "qwen3-coder",
            "<tool_call>\n<function=f>\n<parameter=a>\nx <\n</parameter>\n<parameter=n>\n7\n</parameter>\n</function>\n"
            "</tool_call>",
            [
                *[None, {}, {"a": ""}, {"a": "x"}, {"a": "x "}, {"a": "x <"}, {"a": "x <", "n": ""}],
                {"a": "x <", "n": "7"},
            ],
        ),
        (
            "lfm2",
            "<|tool_call_start|>[f(a='x', n=[1, 2])]<|tool_call_end|>",
            [
                *[None, {}, {"a": ""}, {"a": "x"}, {"a": "x", "n": []}, {"a": "x", "n": [1]}],
                {"a": "x", "n": [1, 2]},
            ],
        ),
        (
            "gpt-oss",
            '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": [{"b": "c"}]}<|call|>',
            [
                *[None, {}, {"a": []}, {"a": [{}]}, {"a": [{"b": ""}]}, {"a": [{"b": "c"}]}],
            ],
        ),
    ],
    ids=["JSON", "JSON in a string", "tags", "Python", "name in the delimiter"],
)
def test_arguments_are_shown_as_they_are_written(name: str, text: str, states: list[Any]) -> None:
    assert shown(name, text) == [state if state is None else ("f", state) for state in states]


def test_a_string_that_a_schema_may_cast_is_shown_once_its_type_is_settled() -> None:
    parameters = {"properties": {"n": {"type": "integer"}, "when": {"type": ["number", "string"]}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    text = (
        "<tool_call>\n<function=f>\n<parameter=n>\n12\n</parameter>\n<parameter=when>\n1 x\n</parameter>\n</function>\n"
        "</tool_call>"
    )
    states = [None, {}, {"n": 12}, {"n": 12, "when": "1 x"}]
    assert shown("qwen3-coder", text, tools=tools) == [each if each is None else ("f", each) for each in states]


def test_what_is_being_written_is_marked() -> None:
    parser = ResponseParser(get_template("qwen3").template, "")
    parser.feed('<think>Hm.</think>Yes.<tool_call>{"name": "f", "arguments": {"a": 1, "b": ["x", "y')
    snapshot = parser.snapshot()
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": 1, "b": ["x", "y"]}}}
    assert snapshot.message == {
        "role": "assistant",
        "reasoning_content": "Hm.",
        "content": "Yes.",
        "tool_calls": [call],
    }
    inner = ("tool_calls", 0, "function", "arguments")
    assert set(snapshot.partial) == {
        *[("tool_calls",), ("tool_calls", 0), ("tool_calls", 0, "function"), inner, (*inner, "b"), (*inner, "b", 1)]
    }
    assert snapshot.is_complete("content")
    assert snapshot.is_complete(*inner, "a")
    assert snapshot.is_complete(*inner, "b", 0)
    assert not snapshot.is_complete(*inner, "b", 1)
    assert not snapshot.is_complete("no such key")
    parser.feed('"]}}')
    assert not parser.snapshot().is_complete("tool_calls", 0)  # the model may still write what makes it malformed
    parser.feed("</tool_call>")
    assert parser.snapshot().is_complete("tool_calls", 0)
    assert parser.snapshot().partial == ()


def test_a_call_that_turns_out_malformed_is_gone_from_its_place() -> None:
    parser = ResponseParser(get_template("qwen3").template, "", errors="recover")
    parser.feed('<tool_call>{"name": "f", "arguments": {"a": "x"')
    assert parser.snapshot().message["tool_calls"]
    parser.feed("]</tool_call>")
    message = parser.snapshot().message
    assert "tool_calls" not in message
    assert message["malformed"][0]["field"] == "tool_calls"


def test_after_a_strict_error_the_snapshot_is_what_there_is() -> None:
    parser = ResponseParser(get_template("qwen3").template, "")
    with pytest.raises(ValueError, match="tool_calls"):
        parser.feed("Yes.<tool_call>{]</tool_call>")
    assert parser.snapshot().message == {"role": "assistant", "content": "Yes."}


@pytest.mark.parametrize("key", [["content"], None, 1.5])
def test_bad_paths(key: Any) -> None:
    with pytest.raises(InputTypeError, match="keys and indices, one argument each"):
        ResponseParser(get_template("qwen3").template, "").snapshot().is_complete(key)


def test_snapshots_may_be_read_in_other_threads() -> None:
    """While the parser goes on: each shows its own moment."""
    parser = ResponseParser(get_template("qwen3").template, "")
    parser.feed('<tool_call>{"name": "f", "arguments": {"a": "')
    taken, over = [parser.snapshot()], threading.Event()

    def read() -> None:
        while not over.is_set():
            assert taken[-1].message

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        for _ in range(1000):
            parser.feed("word ")
            taken.append(parser.snapshot())
        over.set()
        for reader in readers:
            reader.result()
    for number, snapshot in enumerate(taken):
        assert snapshot.message["tool_calls"][0]["function"]["arguments"] == {"a": number * "word "}


# --- ids -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token_delimiters", [False, True])
def test_parsers_that_are_fed_with_ids(token_delimiters: bool) -> None:
    pytest.importorskip("transformers")
    from real_tokenizers import ids_of, real_tokenizer
    from response_templates import install, uninstall

    install()
    try:
        tokenizer, template = real_tokenizer("qwen3"), get_template("qwen3").template
        text = (
            "<think>\nÄ 🚀\n</think>\n\nHé <b>.\n"
            '<tool_call>\n{"name": "f", "arguments": {"q": "é🚀 <tool_call>", "n": [1]}}\n</tool_call><|im_end|>'
        )
        parser = tokenizer.get_response_parser(template, prefix="", token_delimiters=token_delimiters)
        taken = snapshots(parser, ids_of(tokenizer, text))
    finally:
        uninstall()
    for before, after in itertools.pairwise(taken):
        check_grows(before, after)
    assert taken[-1].message == parse_response(text, template, prefix="")
    assert any(each.partial and "'q': 'é🚀 <" in str(each.message) for each in taken[:-1])


# --- what it costs ---------------------------------------------------------------------------------------------------

BODIES = {
    "text": ("qwen3", "", "word "),
    "JSON": ("qwen3", '<tool_call>{"name": "f", "arguments": {"a": "', "word "),
    "JSON items": ("qwen3", '<tool_call>{"name": "f", "arguments": {"a": [', "12, "),
    "JSON closes in a string": ("qwen3", '<tool_call>{"name": "f", "arguments": {"a": "', "</tool_call> "),
    "tags": ("qwen3-coder", "<tool_call>\n<function=f>\n<parameter=a>\n", "word "),
    "many tags": ("qwen3-coder", "<tool_call>\n<function=f>\n", "<parameter=a>\nx\n</parameter>\n"),
    "Python": ("lfm2", "<|tool_call_start|>[f(a='", "word "),
    "Python calls": ("lfm2", "<|tool_call_start|>[", "f(a='x'), "),
    "many regions": ("qwen3", "", '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>\nword\n'),
}


def lines_run(name: str, begin: str, unit: str, count: int) -> int:
    """How many calls and lines of Python are run for a snapshot after each character (not for reading it)."""
    parser = ResponseParser(get_template(name).template, "", errors="recover")
    parser.feed(begin)
    steps = 0

    def step(frame: Any, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += 1
        return step

    before = sys.gettrace()
    for char in unit * count:
        parser.feed(char)
        sys.settrace(step)
        try:
            parser.snapshot()
        finally:
            sys.settrace(before)
    return steps


@pytest.mark.parametrize("kind", BODIES)
def test_snapshots_of_four_times_the_text_cost_four_times_as_much(kind: str) -> None:
    name, begin, unit = BODIES[kind]
    count = max(8, 400 // len(unit))
    once, more = (lines_run(name, begin, unit, factor * count) for factor in (1, 4))
    assert more <= 4.3 * once


def test_snapshots_that_are_kept_share_what_they_show() -> None:
    parser = ResponseParser(get_template("qwen3").template, "")
    parser.feed('<tool_call>{"name": "f", "arguments": {"a": "')
    tracemalloc.start()
    try:
        taken = []
        for _ in range(2000):
            parser.feed("word " * 10)
            taken.append(parser.snapshot())
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert size < 2000 * 1500  # were each a copy: 100 MB
    assert taken[1000].message["tool_calls"][0]["function"]["arguments"]["a"] == "word " * 10010
