"""Stopping criteria for transformers' `generate`: after a complete call, at the end tokens, when nobody reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import response_templates
from generation_helpers import PROMPT, call_text, demo_inputs, demo_model, demo_script, ids_of, replay
from plugin_helpers import TEMPLATE, TinyProcessor, byte_level
from response_templates import (
    InputTypeError,
    ResponseStreamer,
    StopAfterCalls,
    StopAtEnd,
    StopWhenOver,
    StreamError,
    TemplateMissingError,
    end_tokens,
)

torch = pytest.importorskip("torch")

TWO_CALLS = f"<think>{call_text('draft')}</think>a{call_text('f')}b{call_text('g')}c<|im_end|>"
NEVER = 1  # a token that the demo model begins a prompt with, and does not generate
QUESTIONS = ("What is the weather in Lima?", "What is the weather in Lima and in Oslo?")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    made = byte_level()
    made.response_template = TEMPLATE
    return made


@pytest.fixture(autouse=True)
def _without_plugin_afterwards() -> Iterator[None]:
    yield
    response_templates.uninstall()


def generated(criteria: Any, rows: list[list[int]], prompt: list[list[int]], step: int = 1) -> list[int]:
    """How many ids of each row are generated until `criteria` stop it, where it grows by `step` ids at a time."""
    length = max(map(len, rows))
    stopped: list[int | None] = [None] * len(rows)
    for end in (min(end, length) for end in range(step, length + step, step)):
        ids = [[*before, *row[:end], *[0] * (end - len(row))] for before, row in zip(prompt, rows, strict=True)]
        done = criteria(torch.tensor(ids), None)
        assert done.dtype == torch.bool and done.shape == (len(rows),)
        stopped = [
            end if before is None and is_done else before
            for before, is_done in zip(stopped, done.tolist(), strict=True)
        ]
    return [length if each is None else each for each in stopped]


# --- calls ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", [1, 2])
def test_stops_behind_the_last_character_of_the_call(tokenizer: Any, calls: int) -> None:
    ids = ids_of(tokenizer, TWO_CALLS)
    [count] = generated(StopAfterCalls(tokenizer, calls=calls), [ids], [ids_of(tokenizer, PROMPT)])
    end = TWO_CALLS.index(call_text("fg"[calls - 1])) + len(call_text("f"))
    assert tokenizer.decode(ids[:count]) == TWO_CALLS[:end]


def test_a_call_that_never_ends_and_one_that_does_not_parse_stop_nothing(tokenizer: Any) -> None:
    rows = [ids_of(tokenizer, text) for text in ("<tool_call>{", "<tool_call>{oops</tool_call>and so on", "no call")]
    counts = generated(StopAfterCalls(tokenizer), rows, [ids_of(tokenizer, PROMPT)] * 3)
    assert counts == [max(map(len, rows))] * 3


def test_each_row_stops_by_itself(tokenizer: Any) -> None:
    texts = [call_text("f"), f"first some text, and then {call_text('f')}", "none at all"]
    rows = [ids_of(tokenizer, text) for text in texts]
    counts = generated(StopAfterCalls(tokenizer), [[*row, *row] for row in rows], [ids_of(tokenizer, PROMPT)] * 3)
    assert counts[:2] == [len(rows[0]), len(rows[1])]
    assert counts[2] == 2 * max(map(len, rows))


def test_a_list_of_calls_counts_as_many(tokenizer: Any) -> None:
    template = {
        "start_anchor": "assistant\n",
        "fields": {"tool_calls": {"open": "[CALLS]", "close": "[/CALLS]", "content": "json"}},
    }
    ids = ids_of(tokenizer, '[CALLS][{"name": "f"}, {"name": "g"}][/CALLS] and more')
    enough = StopAfterCalls(tokenizer, calls=2, response_template=template)
    too_few = StopAfterCalls(tokenizer, calls=3, response_template=template)
    prompt = [ids_of(tokenizer, PROMPT)]
    assert generated(enough, [ids], prompt) < [len(ids)]
    assert generated(too_few, [ids], prompt) == [len(ids)]


@pytest.mark.parametrize("kind", ["tensor", "encoding", "lists", "list"])
def test_the_prompt_s_ids_are_needed_where_the_first_step_has_several(tokenizer: Any, kind: str) -> None:
    prompt = [ids_of(tokenizer, f"{PROMPT}<think>")]
    tensor = torch.tensor(prompt)
    prefix: Any = {"tensor": tensor, "encoding": {"input_ids": tensor}, "lists": prompt, "list": prompt[0]}[kind]
    ids = ids_of(tokenizer, f"a</think>{call_text('f')} and more, which is long enough")
    [count] = generated(StopAfterCalls(tokenizer, prefix), [ids], prompt, step=5)
    assert 0 <= count - len(ids_of(tokenizer, f"a</think>{call_text('f')}")) < 5


def test_used_twice_is_an_error(tokenizer: Any) -> None:
    criteria = StopAfterCalls(tokenizer)
    prompt = [ids_of(tokenizer, PROMPT)]
    generated(criteria, [ids_of(tokenizer, "ab")], prompt)
    with pytest.raises(StreamError, match="used already"):
        generated(criteria, [ids_of(tokenizer, "ab")], prompt)


@pytest.mark.parametrize("calls", [0, -1, 1.5, True, "1"])
def test_a_wrong_number_of_calls(tokenizer: Any, calls: Any) -> None:
    with pytest.raises(InputTypeError, match="calls must be"):
        StopAfterCalls(tokenizer, calls=calls)


def test_wrong_arguments_are_found_when_it_is_made(tokenizer: Any) -> None:
    with pytest.raises(TemplateMissingError):
        StopAfterCalls(byte_level())
    with pytest.raises(InputTypeError, match="ids of the prompt"):
        StopAfterCalls(tokenizer, PROMPT)


def test_the_demo_model_stops_after_its_first_call() -> None:
    tokenizer, model = demo_model()
    inputs = demo_inputs(*QUESTIONS)
    options = {**inputs, "max_new_tokens": 150, "do_sample": False}
    messages = []
    for criteria in ([], [StopAfterCalls(tokenizer)]):
        streamer = ResponseStreamer(tokenizer, tools=demo_script().TOOLS)
        streamer.run(model.generate, **options, stopping_criteria=criteria)
        messages.append(streamer.messages)
    everything, first = messages
    assert [len(message["tool_calls"]) for message in everything] == [1, 2]
    assert [message["tool_calls"] for message in first] == [message["tool_calls"][:1] for message in everything]


# --- end tokens ----------------------------------------------------------------------------------------------------


def test_end_tokens_of_a_family_and_of_the_tokenizer(tokenizer: Any) -> None:
    known = byte_level()
    known.add_tokens(["<|endoftext|>"], special_tokens=True)
    known.response_template = response_templates.get_template("qwen3").template.to_dict()
    assert end_tokens(known) == ["<|im_end|>", "<|endoftext|>"]
    assert end_tokens(TinyProcessor(known)) == end_tokens(known)
    assert end_tokens(tokenizer) == ["<|im_end|>"]  # a template that the registry doesn't have


def test_every_registered_family_has_end_tokens() -> None:
    for name in response_templates.list_templates():
        tokenizer = byte_level(eos_token=None)
        tokenizer.response_template = response_templates.get_template(name).template.to_dict()
        assert end_tokens(tokenizer), name


def test_stops_at_any_of_them(tokenizer: Any) -> None:
    criteria = StopAtEnd(tokenizer, ["<|im_end|>", "<pad>"])
    rows = [ids_of(tokenizer, text) for text in ("a<|im_end|>bcdefgh", "ab<pad>cdefgh", "no end in here")]
    counts = generated(criteria, rows, [ids_of(tokenizer, PROMPT)] * 3)
    assert counts == [2, 3, max(map(len, rows))]
    assert criteria.ids == sorted(tokenizer.convert_tokens_to_ids(["<|im_end|>", "<pad>"]))


def test_an_end_that_is_spelled_with_several_tokens(tokenizer: Any) -> None:
    ids = ids_of(tokenizer, "abc<END>def")
    assert generated(StopAtEnd(tokenizer, ["<END>"]), [ids], [ids_of(tokenizer, PROMPT)]) == [
        len(ids_of(tokenizer, "abc<END>"))
    ]


def test_no_end_tokens_is_an_error(tokenizer: Any) -> None:
    with pytest.raises(InputTypeError, match="no end tokens"):
        StopAtEnd(tokenizer, [])


def test_the_demo_model_stops_at_its_end_without_being_told_by_its_config() -> None:
    tokenizer, model = demo_model()
    inputs = demo_inputs(QUESTIONS[0])
    length = inputs["input_ids"].shape[1]
    options = {**inputs, "max_new_tokens": 150, "do_sample": False}
    usual = model.generate(**options)
    on_and_on = model.generate(**options, eos_token_id=NEVER)
    stopped = model.generate(**options, eos_token_id=NEVER, stopping_criteria=[StopAtEnd(tokenizer)])
    named = model.generate(**options, eos_token_id=StopAtEnd(tokenizer).ids)
    assert stopped.tolist() == usual.tolist() == named.tolist()
    assert on_and_on.shape[1] == length + 150 > usual.shape[1]


# --- nobody reads --------------------------------------------------------------------------------------------------


def test_stops_when_the_reader_has_gone(tokenizer: Any) -> None:
    streamer = ResponseStreamer(tokenizer)
    criteria = StopWhenOver(streamer)
    assert criteria(torch.tensor([[1], [2]])).tolist() == [False, False]
    streamer.close()
    assert criteria(torch.tensor([[1], [2]])).tolist() == [True, True]


def test_stops_the_rows_that_do_not_parse(tokenizer: Any) -> None:
    streamer = ResponseStreamer(tokenizer)
    criteria = StopWhenOver(streamer)
    rows = [ids_of(tokenizer, "<tool_call>{oops</tool_call>x"), ids_of(tokenizer, "all is well here, and goes on")]
    seen = []
    replay(
        rows,
        streamer=streamer,
        prompt=[ids_of(tokenizer, PROMPT)] * 2,
        fill=tokenizer.pad_token_id,
        step=lambda number: seen.append(criteria(torch.zeros(2, 1)).tolist()),
    )
    assert seen[0] == [False, False]
    assert seen[-1] == [True, False]


def test_the_demo_model_stops_when_the_reader_leaves() -> None:
    tokenizer, model = demo_model()
    inputs = demo_inputs(QUESTIONS[0])
    streamer = ResponseStreamer(tokenizer, errors="recover")
    thread = streamer.start(
        model.generate,
        **inputs,
        eos_token_id=NEVER,
        max_new_tokens=100_000,
        do_sample=False,
        stopping_criteria=[StopWhenOver(streamer)],
    )
    next(streamer)
    streamer.close()
    thread.join(60)
    assert not thread.is_alive()
