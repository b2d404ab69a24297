"""The demo on the model that lives in the repository: what it generates is parsed, run, and answered."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import response_templates

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "demo" / "model"
TWO_MEGABYTES = 2_000_000

QUESTIONS = {
    "weather": (
        "What is the weather in Lima?",
        [("get_weather", {"city": "Lima"})],
    ),
    "parallel": (
        "What is the weather in Lima and in Oslo?",
        [("get_weather", {"city": "Lima"}), ("get_weather", {"city": "Oslo"})],
    ),
    "two words": (
        "What is the weather in Buenos Aires?",
        [("get_weather", {"city": "Buenos Aires"})],
    ),
    "numbers": ("What is 12 plus 30?", [("add", {"a": 12, "b": 30})]),
    "integers and a boolean": (
        "Set an alarm for 7:05 every day.",
        [("set_alarm", {"hour": 7, "minute": 5, "every_day": True})],
    ),
}


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"_script_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    import torch

    torch.set_num_threads(2)
    return _script("demo")


@pytest.fixture(autouse=True)
def _without_plugin_afterwards() -> Any:
    yield
    response_templates.uninstall()


def merged(events: Any) -> list[dict[str, Any]]:
    """Neighbouring chunks of a region as one."""
    result: list[dict[str, Any]] = []
    for event in events:
        if event["type"] == "region_chunk" and result and result[-1]["type"] == "region_chunk":
            result[-1] = {**result[-1], "text": result[-1]["text"] + event["text"]}
        else:
            result.append(dict(event))
    return result


def message_of(events: Any) -> dict[str, Any]:
    """The message that a client would put together from the events of the demo's template."""
    message: dict[str, Any] = {"role": "assistant"}
    for event in events:
        if event["type"] != "region_close" or not event["value"]:
            continue
        field, value = event["field"], event["value"]
        if field == "tool_calls":
            message.setdefault(field, []).append(value)
        else:
            message[field] = message.get(field, "") + value
    return message


@pytest.mark.parametrize(("question", "calls"), QUESTIONS.values(), ids=list(QUESTIONS))
def test_answers_with_tools(
    demo: ModuleType, capsys: pytest.CaptureFixture[str], question: str, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    user, called, *results, answer = demo.main(["--question", question])
    assert user == {"role": "user", "content": question}
    assert called["role"] == "assistant"
    assert called["reasoning_content"]
    parsed = [(call["function"]["name"], call["function"]["arguments"]) for call in called["tool_calls"]]
    assert parsed == calls
    for (_, expected), (_, arguments) in zip(calls, parsed, strict=True):
        assert {key: type(value) for key, value in arguments.items()} == {k: type(v) for k, v in expected.items()}
    tools = {tool.__name__: tool for tool in demo.TOOLS}
    assert [result["content"] for result in results] == [tools[name](**arguments) for name, arguments in calls]
    assert set(answer) == {"role", "reasoning_content", "content"}
    for result in results:
        assert result["content"] in answer["content"]
    printed = capsys.readouterr().out
    for shown in (question, "<tool_call>", "region_chunk", json.dumps(calls[0][0]), answer["content"]):
        assert shown in printed


def test_events_that_stream_make_the_message(demo: ModuleType) -> None:
    tokenizer, model = demo.load(str(MODEL), None)
    turn = demo.generate(tokenizer, model, [{"role": "user", "content": "What is the weather in Lima?"}], 200)
    assert message_of(turn.events) == turn.message
    assert len(turn.events) > len(merged(turn.events))  # it did come in pieces
    whole = response_templates.ResponseParser(tokenizer.response_template, prefix="", tools=demo.TOOLS)
    at_once = whole.feed(turn.raw) + whole.finalize()[1]
    assert merged(turn.events) == merged(at_once)


def test_without_thinking_the_prompt_holds_the_empty_thought(demo: ModuleType) -> None:
    import torch

    tokenizer, model = demo.load(str(MODEL), None)
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the weather in Lima?"}],
        tools=[demo.get_weather],
        add_generation_prompt=True,
        enable_thinking=False,
        return_tensors="pt",
        return_dict=True,
    )
    with torch.inference_mode():
        output = model.generate(**inputs, max_new_tokens=100)
    prompt = inputs["input_ids"][0]
    message = tokenizer.parse_response(output[0, prompt.shape[0] :], prefix=prompt)
    call = {"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Lima"}}}
    assert message == {"role": "assistant", "tool_calls": [call]}


def test_a_named_template_takes_the_place_of_the_checkpoint_s(demo: ModuleType) -> None:
    _, called, *_ = demo.main(["--template", "qwen3", "--question", "What is the weather in Lima?"])
    assert called["tool_calls"][0]["function"]["arguments"] == {"city": "Lima"}


ERRORS = {
    "unknown template": (["--template", "qwen33"], "qwen3"),
    "no such checkpoint": (["--model", "no/such/folder/anywhere"], "cannot load"),
}


@pytest.mark.parametrize(("arguments", "said"), ERRORS.values(), ids=list(ERRORS))
def test_errors_say_what_is_wrong(demo: ModuleType, arguments: list[str], said: str) -> None:
    with pytest.raises(SystemExit) as exit_:
        demo.main(arguments)
    assert str(exit_.value).startswith("demo: ")
    assert said in str(exit_.value)


def test_no_template_that_fits_is_an_error(demo: ModuleType, tmp_path: Path) -> None:
    for path in MODEL.iterdir():
        os.symlink(path, tmp_path / path.name)
    config = json.loads((MODEL / "tokenizer_config.json").read_text(encoding="utf-8"))
    del config["response_template"]
    config["chat_template"] = "{% for message in messages %}{{ message.content }}{% endfor %}"
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(SystemExit, match="has no response_template"):
        demo.main(["--model", str(tmp_path)])


BAD_CALLS = {
    "unknown tool": ("no_such_tool", {}, "error: no tool named"),
    "wrong arguments": ("get_weather", {"town": "Lima"}, "error: "),
    "wrong type": ("add", {"a": "x", "b": 1}, "error: "),
}


@pytest.mark.parametrize(("name", "arguments", "said"), BAD_CALLS.values(), ids=list(BAD_CALLS))
def test_a_call_that_cannot_be_run_tells_the_model(
    demo: ModuleType, name: str, arguments: dict[str, Any], said: str
) -> None:
    result = demo.run_call({"type": "function", "function": {"name": name, "arguments": arguments}})
    assert result["role"] == "tool"
    assert result["content"].startswith(said)


def test_the_checkpoint_is_small_and_whole() -> None:
    files = {path.name: path.stat().st_size for path in MODEL.iterdir()}
    assert {"model.safetensors", "config.json", "generation_config.json"} <= set(files)
    assert {"tokenizer.json", "tokenizer_config.json"} <= set(files)
    assert sum(files.values()) <= TWO_MEGABYTES


def test_the_checkpoint_carries_the_templates_of_its_sources() -> None:
    config = json.loads((MODEL / "tokenizer_config.json").read_text(encoding="utf-8"))
    chat_template = (ROOT / "demo" / "chat_template.jinja").read_text(encoding="utf-8")
    response_template = json.loads((ROOT / "demo" / "response_template.json").read_text(encoding="utf-8"))
    assert config["chat_template"] == chat_template
    assert config["response_template"] == response_template
    assert response_templates.load_template(response_template).to_dict() is not None
