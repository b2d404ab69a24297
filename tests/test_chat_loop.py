"""A chat in a loop: append, apply_chat_template, generate, parse; several turns with tools, on the demo model.

On old and new transformers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import response_templates
from generation_helpers import demo_model, demo_script
from plugin_helpers import TinyProcessor
from response_templates import ResponseStreamer

pytest.importorskip("torch")

TURNS = {
    "What is the weather in Lima and in Oslo?": ["get_weather", "get_weather"],
    "What is 12 plus 30?": ["add"],
    "Set an alarm for 7:05 every day.": ["set_alarm"],
}


@pytest.fixture(autouse=True)
def _with_plugin() -> Iterator[None]:
    response_templates.install()
    yield
    response_templates.uninstall()


def whole(owner: Any, inputs: Any) -> dict[str, Any]:
    """Generate, then parse what came."""
    _, model = demo_model()
    prompt = inputs["input_ids"][0]
    output = model.generate(**inputs, max_new_tokens=150, do_sample=False)
    message: dict[str, Any] = owner.parse_response(
        output[0, len(prompt) :], prefix=prompt, tools=list(demo_script().TOOLS)
    )
    return message


def by_parser(owner: Any, inputs: Any) -> dict[str, Any]:
    """Generate, then feed the parser the text in pieces."""
    tokenizer, model = demo_model()
    prompt = inputs["input_ids"][0]
    output = model.generate(**inputs, max_new_tokens=150, do_sample=False)
    text = tokenizer.decode(output[0, len(prompt) :], skip_special_tokens=False)
    parser = owner.get_response_parser(prefix=prompt, tools=list(demo_script().TOOLS))
    for begin in range(0, len(text), 5):
        parser.feed(text[begin : begin + 5])
    message: dict[str, Any] = parser.finalize()[0]
    return message


def streamed(owner: Any, inputs: Any) -> dict[str, Any]:
    """Parse while it is generated."""
    _, model = demo_model()
    streamer = ResponseStreamer(owner, tools=demo_script().TOOLS, timeout=60)
    streamer.start(model.generate, **inputs, max_new_tokens=150, do_sample=False)
    assert list(streamer)
    return streamer.message


@pytest.mark.parametrize("of", ["tokenizer", "processor"])
@pytest.mark.parametrize("answer", [whole, by_parser, streamed], ids=lambda function: function.__name__)
def test_several_turns_with_tools(of: str, answer: Any) -> None:
    tokenizer, _ = demo_model()
    owner = tokenizer if of == "tokenizer" else TinyProcessor(tokenizer)
    chat: list[dict[str, Any]] = []
    for question, names in TURNS.items():
        chat.append({"role": "user", "content": question})
        called = []
        for _ in range(4):
            inputs = tokenizer.apply_chat_template(  # the processors of 4.51 can't tokenize a chat of text alone
                chat,
                tools=list(demo_script().TOOLS),
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                return_tensors="pt",
            )
            chat.append(answer(owner, inputs))
            if "tool_calls" not in chat[-1]:
                break
            called += [call["function"]["name"] for call in chat[-1]["tool_calls"]]
            results = [demo_script().run_call(call) for call in chat[-1]["tool_calls"]]
            chat += results
        assert called == names
        assert chat[-1]["reasoning_content"]
        for result in results:
            assert result["content"] in chat[-1]["content"]
