"""`pipeline("text-generation")` on the demo model: with the plugin it answers with parsed messages on every version."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

import response_templates
from generation_helpers import demo_inputs, demo_model, demo_script

pytest.importorskip("torch")

QUESTION = {"role": "user", "content": "What is the weather in Lima?"}
ALARM = {"role": "user", "content": "Set an alarm for 7:05 every day."}
OPTIONS: dict[str, Any] = {"max_new_tokens": 150, "do_sample": False}


@pytest.fixture
def generator() -> Iterator[Any]:
    """The pipeline, with the plugin."""
    from transformers import pipeline

    response_templates.install()
    tokenizer, model = demo_model()
    yield pipeline("text-generation", model=model, tokenizer=tokenizer)
    response_templates.uninstall()


def tools() -> list[Any]:
    return list(demo_script().TOOLS)


def expected(*chats: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What `generate` and `parse_response` give."""
    tokenizer, model = demo_model()
    messages = []
    for chat in chats:
        inputs = demo_inputs(chat)
        output = model.generate(**inputs, **OPTIONS)
        begin = inputs["input_ids"].shape[1]
        messages.append(tokenizer.parse_response(output[0, begin:], prefix=inputs["input_ids"][0], tools=tools()))
    return messages


def test_a_chat_is_answered_with_the_parsed_message(generator: Any) -> None:
    [record] = generator([QUESTION], tools=tools(), **OPTIONS)
    question, answer = record["generated_text"]
    assert question == QUESTION
    assert [answer] == expected([QUESTION])
    assert answer["reasoning_content"]
    assert [call["function"] for call in answer["tool_calls"]] == [
        {"name": "get_weather", "arguments": {"city": "Lima"}}
    ]


def test_chats_in_a_batch(generator: Any) -> None:
    records = generator([[QUESTION], [ALARM]], tools=tools(), batch_size=2, **OPTIONS)
    assert [record["generated_text"][-1] for [record] in records] == expected([QUESTION], [ALARM])


def test_several_answers_to_one_chat(generator: Any) -> None:
    import torch

    torch.manual_seed(0)
    records = generator(
        [QUESTION], tools=tools(), max_new_tokens=80, do_sample=True, temperature=0.3, num_return_sequences=2
    )
    assert len(records) == 2
    for record in records:
        assert record["generated_text"][-1]["reasoning_content"]


def test_string_arguments_are_cast_by_the_tools(generator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output is given: what counts is that the tools come to where it is parsed."""
    tokenizer, model = demo_model()
    text = '<tool_call>\n{"name": "set_alarm", "arguments": {"hour": "7", "minute": 5}}\n</tool_call><|im_end|>'
    ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]

    def generate(input_ids: Any, **options: Any) -> Any:
        import torch

        return torch.cat([input_ids, ids], dim=1)

    monkeypatch.setattr(model, "generate", generate)
    [record] = generator([ALARM], tools=tools())
    [call] = record["generated_text"][-1]["tool_calls"]
    assert call["function"]["arguments"] == {"hour": 7, "minute": 5}


def test_a_chat_goes_on_over_several_turns_with_tools(generator: Any) -> None:
    chat = [QUESTION]
    for question in (None, ALARM, {"role": "user", "content": "What is 12 plus 30?"}):
        chat = [*chat, question] if question else chat
        for _ in range(4):
            [record] = generator(chat, tools=tools(), **OPTIONS)
            chat = record["generated_text"]
            if not chat[-1].get("tool_calls"):
                break
            chat = chat + [demo_script().run_call(call) for call in chat[-1]["tool_calls"]]
        assert chat[-1]["content"]
    assert [message["role"] for message in chat] == ["user", "assistant", "tool", "assistant"] * 3
    names = [call["function"]["name"] for message in chat for call in message.get("tool_calls", ())]
    assert names == ["get_weather", "set_alarm", "add"]


def test_text_and_continued_messages_come_out_as_before(generator: Any) -> None:
    assert isinstance(generator("The weather", max_new_tokens=5)[0]["generated_text"], str)
    begun = [QUESTION, {"role": "assistant", "content": "The"}]
    [record] = generator(begun, max_new_tokens=5, do_sample=False)
    assert len(record["generated_text"]) == 2
    assert record["generated_text"][-1]["content"].startswith("The")
    [record] = generator([QUESTION], max_new_tokens=5, do_sample=False, return_tensors=True)
    assert set(record) == {"generated_token_ids"}


def test_without_a_template_nothing_is_parsed(generator: Any) -> None:
    tokenizer, _ = demo_model()
    stored = tokenizer.response_template
    tokenizer.response_template = None
    try:
        [record] = generator([QUESTION], tools=tools(), **OPTIONS)
    finally:
        tokenizer.response_template = stored
    assert set(record["generated_text"][-1]) == {"role", "content"}


def test_uninstalling_leaves_nothing_behind() -> None:
    import transformers.pipelines.text_generation as module

    def methods() -> list[Any]:
        names = ("postprocess", "preprocess", "_sanitize_parameters")
        return [*(module.TextGenerationPipeline.__dict__.get(name) for name in names), module.Chat.__dict__["__init__"]]

    native = methods()
    response_templates.install()
    patched = methods()
    response_templates.uninstall()
    assert methods() == native
    assert patched[-1] is not native[-1]


def test_a_message_that_is_none_is_still_refused(generator: Any) -> None:
    with pytest.raises(ValueError, match="role"):
        generator([QUESTION, {"role": "assistant"}], max_new_tokens=5)


def test_installing_does_not_import_the_pipelines() -> None:
    import subprocess

    code = (
        "import response_templates.auto, sys; "
        "assert 'transformers.pipelines.text_generation' not in sys.modules; "
        "from transformers.pipelines.text_generation import Chat; "
        "Chat([{'role': 'assistant', 'tool_calls': [1]}])"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
