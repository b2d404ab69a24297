"""The example server, asked by OpenAI's own client: with and without streaming and tools, by many at once.

On old and new transformers.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

import response_templates
from generation_helpers import PROMPT, demo_inputs, demo_model, demo_script
from plugin_helpers import TEMPLATE, byte_level
from server_helpers import example, served

pytest.importorskip("torch")

LONG = 60  # seconds after which a test that hangs fails
QUESTION = "What is the weather in Lima?"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get the weather of a city. (Made up from the city's name: the demo has no network.)",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "the name of the city"}},
                "required": ["city"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two numbers.",
            "parameters": {
                "type": "object",
                "properties": {
                    "a": {"type": "number", "description": "the first number"},
                    "b": {"type": "number", "description": "the second number"},
                },
                "required": ["a", "b"],
            },
        },
    },
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = example("server")
    backend = server.ModelBackend(str(server.MODEL), workers=3)
    with served(server.create_app([backend], workers=3)) as address:
        yield address
    response_templates.uninstall()


@pytest.fixture(scope="module")
def client(url: str) -> Any:
    return openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=LONG)


@pytest.fixture
def async_client(url: str) -> Any:
    return openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=LONG)


def asked(question: Any = QUESTION, **options: Any) -> dict[str, Any]:
    """The arguments of a request, answered greedily."""
    messages = [{"role": "user", "content": question}] if isinstance(question, str) else question
    return {"model": "demo", "messages": messages, "tools": TOOLS, "temperature": 0, **options}


def collected(chunks: Any) -> dict[str, Any]:
    """What a client puts together from a stream."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "calls": {}, "reason": None, "usage": None}
    for chunk in chunks:
        message["usage"] = chunk.usage or message["usage"]
        for choice in chunk.choices:
            message["reason"] = choice.finish_reason or message["reason"]
            message["content"] += choice.delta.content or ""
            message["reasoning_content"] += getattr(choice.delta, "reasoning_content", None) or ""
            for call in choice.delta.tool_calls or ():
                known = message["calls"].setdefault(call.index, {"id": "", "name": "", "arguments": ""})
                known["id"] += call.id or ""
                known["name"] += call.function.name or ""
                known["arguments"] += call.function.arguments or ""
    return message


# --- answers -------------------------------------------------------------------------------------------------------


def test_models(client: Any) -> None:
    assert [model.id for model in client.models.list()] == ["demo"]
    assert client.models.retrieve("demo").object == "model"
    with pytest.raises(openai.NotFoundError, match="no model 'other'"):
        client.models.retrieve("other")


def test_a_call(client: Any) -> None:
    answer = client.chat.completions.create(**asked())
    [choice] = answer.choices
    [call] = choice.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Lima"})
    assert call.type == "function" and call.id
    assert choice.finish_reason == "tool_calls"
    assert choice.message.reasoning_content and choice.message.content is None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.object == "chat.completion"


def test_the_answer_is_what_the_model_says(client: Any) -> None:
    tokenizer, model = demo_model()
    inputs = demo_inputs(QUESTION)
    output = model.generate(**inputs, max_new_tokens=200, do_sample=False)
    count = inputs["input_ids"].shape[1]
    response_templates.install()
    message = tokenizer.parse_response(output[0, count:], prefix=inputs["input_ids"][0])
    tools = [response_tool(tool) for tool in demo_script().TOOLS]
    answer = client.chat.completions.create(**asked(tools=tools))
    assert answer.choices[0].message.reasoning_content == message["reasoning_content"]
    assert (
        response_templates.from_openai(answer.choices[0].message)["tool_calls"][0]["function"]
        == (message["tool_calls"][0]["function"])
    )
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (count, output.shape[1] - count)


def response_tool(function: Any) -> Any:
    from transformers.utils import get_json_schema

    return get_json_schema(function)


@pytest.mark.parametrize("question", [QUESTION, "What is the weather in Lima and in Oslo?", "What is 12 plus 30?"])
def test_a_stream_gives_what_the_whole_answer_has(client: Any, question: str) -> None:
    whole = client.chat.completions.create(**asked(question)).choices[0]
    chunks = list(client.chat.completions.create(**asked(question), stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert len(chunks) > 10
    streamed = collected(chunks)
    assert streamed["reason"] == whole.finish_reason == "tool_calls"
    assert streamed["reasoning_content"] == whole.message.reasoning_content
    assert [(call["name"], call["arguments"]) for call in streamed["calls"].values()] == [
        (call.function.name, call.function.arguments) for call in whole.message.tool_calls
    ]
    assert len({call["id"] for call in streamed["calls"].values()} - {""}) == len(whole.message.tool_calls)
    assert len({chunk.id for chunk in chunks}) == 1
    assert streamed["usage"] is None


def test_the_usage_comes_last_in_a_stream_where_it_is_wanted(client: Any) -> None:
    whole = client.chat.completions.create(**asked())
    chunks = list(client.chat.completions.create(**asked(), stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].usage == whole.usage
    assert not chunks[-1].choices


def test_the_client_s_own_accumulator(client: Any) -> None:
    with client.chat.completions.stream(**asked()) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    [call] = final.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Lima"}


def test_a_loop_with_tools(client: Any) -> None:
    tools = {tool.__name__: tool for tool in demo_script().TOOLS}
    messages: list[Any] = [{"role": "user", "content": "What is the weather in Lima and in Oslo?"}]
    for _ in range(4):
        message = client.chat.completions.create(**asked(messages)).choices[0].message
        messages.append(message)
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            result = tools[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    results = [each["content"] for each in messages[1:] if isinstance(each, dict)]
    assert len(results) == 2
    assert all(result in message.content for result in results)


def test_without_tools_nothing_is_called(client: Any) -> None:
    for options in ({"tools": openai.NOT_GIVEN}, {"tool_choice": "none"}):
        answer = client.chat.completions.create(**asked(**options, max_tokens=60))
        prompt = demo_model()[0].apply_chat_template(
            [{"role": "user", "content": QUESTION}], add_generation_prompt=True, tokenize=False
        )
        assert answer.usage.prompt_tokens == len(demo_model()[0](prompt, add_special_tokens=False)["input_ids"])


def test_one_call_where_parallel_ones_are_not_wanted(client: Any) -> None:
    question = "What is the weather in Lima and in Oslo?"
    both = client.chat.completions.create(**asked(question)).choices[0].message
    one = client.chat.completions.create(**asked(question, parallel_tool_calls=False)).choices[0].message
    assert [len(message.tool_calls) for message in (both, one)] == [2, 1]


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_cut_off_says_so(client: Any, key: str, stream: bool) -> None:
    answer = client.chat.completions.create(**asked(**{key: 5}), stream=stream)
    if stream:
        assert collected(answer)["reason"] == "length"
    else:
        assert answer.choices[0].finish_reason == "length"
        assert answer.usage.completion_tokens == 5


def test_a_seed_makes_sampling_repeat(client: Any) -> None:
    def text(seed: int) -> str:
        answer = client.chat.completions.create(**asked(temperature=1.8, seed=seed, max_tokens=40))
        return json.dumps(answer.choices[0].message.model_dump(exclude={"tool_calls"}))

    assert text(1) == text(1)
    assert len({text(seed) for seed in range(6)}) > 1


def test_content_in_parts_and_a_developer(client: Any) -> None:
    parts = [{"type": "text", "text": "What is the weather "}, {"type": "text", "text": "in Lima?"}]
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts}]
    as_text = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    answers = [client.chat.completions.create(**asked(each)) for each in (messages, as_text)]
    assert answers[0].choices[0].message.reasoning_content == answers[1].choices[0].message.reasoning_content
    assert answers[0].usage == answers[1].usage


def test_chat_template_kwargs(client: Any) -> None:
    answer = client.chat.completions.create(
        **asked(), extra_body={"chat_template_kwargs": {"enable_thinking": False, "tokenize": True}}
    )
    assert not hasattr(answer.choices[0].message, "reasoning_content")
    assert answer.choices[0].message.tool_calls


def test_async_client(async_client: Any) -> None:
    async def main() -> None:
        whole = await async_client.chat.completions.create(**asked())
        chunks = [chunk async for chunk in await async_client.chat.completions.create(**asked(), stream=True)]
        assert collected(chunks)["calls"][0]["arguments"] == whole.choices[0].message.tool_calls[0].function.arguments
        await async_client.close()

    asyncio.run(main())


def test_many_at_once_do_not_mix(client: Any) -> None:
    cities = ["Lima", "Oslo", "Buenos Aires"]

    def ask(number: int) -> Any:
        city = cities[number % 3]
        question = f"What is the weather in {city}?"
        if number % 2:
            chunks = client.chat.completions.create(**asked(question), stream=True)
            return city, [call["arguments"] for call in collected(chunks)["calls"].values()]
        calls = client.chat.completions.create(**asked(question)).choices[0].message.tool_calls
        return city, [call.function.arguments for call in calls]

    with ThreadPoolExecutor(24) as pool:
        for city, arguments in pool.map(ask, range(48)):
            assert [json.loads(each) for each in arguments] == [{"city": city}]


# --- errors --------------------------------------------------------------------------------------------------------

BAD = {
    "no messages": ({"messages": []}, "messages"),
    "an unknown role": ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
    "no content": ({"messages": [{"role": "user"}]}, "messages[0].content"),
    "an image": (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        "messages[0].content",
    ),
    "arguments that are not JSON": (
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{"}}]}]},
        "messages[0]",
    ),
    "a number as text": ({"max_tokens": "5"}, "max_tokens"),
    "no tokens": ({"max_tokens": 0}, "max_tokens"),
    "a temperature out of range": ({"temperature": 3}, "temperature"),
    "several answers": ({"n": 2}, "n"),
    "stop": ({"stop": ["x"]}, "stop"),
    "structured output": ({"response_format": {"type": "json_object"}}, "response_format"),
    "an unknown parameter": ({"extra_body": {"temprature": 1}}, "temprature"),
    "a tool without a name": ({"tools": [{"type": "function", "function": {}}]}, "tools[0]"),
    "a choice that is no tool": ({"tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
    "too long": ({"messages": [{"role": "user", "content": "weather " * 5000}]}, "messages"),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("options", "param"), BAD.values(), ids=list(BAD))
def test_bad_requests(client: Any, options: dict[str, Any], param: str, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**{**asked(), **options}, stream=stream)
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"
    assert caught.value.body["message"]


def test_an_unknown_model(client: Any) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(**asked(model="gpt-4"))
    assert caught.value.code == "model_not_found"


def test_bodies_that_are_no_requests(url: str) -> None:
    for body in (b"", b"{", b"[]", b"[" * 100_000, b'"x"', b"\xff"):
        answer = httpx.post(f"{url}/chat/completions", content=body)
        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "invalid_request_error"
    answer = httpx.post(f"{url}/nothing")
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "invalid_request_error")
    assert httpx.get(f"{url}/chat/completions").status_code == 405


# --- a back end of our own -----------------------------------------------------------------------------------------


class Scripted:
    """A back end that says what its test wants, a token at a time."""

    name = "scripted"

    def __init__(self, text: str, fails_at: int | None = None) -> None:
        self.tokenizer = byte_level()
        self.template = response_templates.load_template(TEMPLATE)
        self.text = text
        self.fails_at = fails_at
        self.go_on = threading.Event()
        self.started = 0
        self.streamer: Any = None
        self.finished = threading.Event()
        self.stopped_at: int | None = None

    def prepare(self, request: Any) -> Any:
        return example("server").Job(self.tokenizer.encode(PROMPT), 100)

    def generate(self, job: Any, streamer: Any) -> Any:
        self.started += 1
        self.streamer = streamer
        try:
            return streamer.run(self._generate, job)
        finally:
            self.finished.set()

    def _generate(self, job: Any, streamer: Any) -> Any:
        streamer.put([job.prompt])
        ids = self.tokenizer.encode(self.text)
        for number, each in enumerate(ids):
            if number == self.fails_at:
                raise MemoryError("no more")
            if number == 5:
                assert self.go_on.wait(LONG)
            if not streamer.wants(0):
                self.stopped_at = number
                break
            streamer.put([each])
        streamer.end()
        return example("server").Outcome(len(ids), "stop")


SAYS = "<think>a thought</think>and an answer<|im_end|>"
SCRIPTED = {"model": "scripted", "messages": [{"role": "user", "content": "x"}]}


def scripted_client(address: str) -> Any:
    return openai.OpenAI(base_url=address, api_key="none", max_retries=0, timeout=LONG)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_stops_its_generation(stream: bool) -> None:
    backend = Scripted(SAYS)
    with served(example("server").create_app([backend], workers=1)) as address:
        timeout = httpx.Timeout(LONG, read=0.5)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{address}/chat/completions", json={**SCRIPTED, "stream": stream}, timeout=timeout)
        wait_for(lambda: backend.streamer.closed)
        backend.go_on.set()
        assert backend.finished.wait(LONG)
        assert backend.stopped_at == 5
        backend.finished.clear()
        answer = scripted_client(address).chat.completions.create(**SCRIPTED)  # the worker is free again
        assert answer.choices[0].message.content == "and an answer"


def wait_for(condition: Any) -> None:
    import time

    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_queue_has_an_end_and_who_leaves_it_is_not_generated_for() -> None:
    backend = Scripted(SAYS)
    with served(example("server").create_app([backend], workers=1, waiting=1)) as address, ThreadPoolExecutor() as pool:
        client = scripted_client(address)
        first = pool.submit(client.chat.completions.create, **SCRIPTED)
        wait_for(lambda: backend.started == 1)
        with pytest.raises(httpx.ReadTimeout):  # it waits, and leaves
            httpx.post(f"{address}/chat/completions", json=SCRIPTED, timeout=httpx.Timeout(LONG, read=0.5))
        with pytest.raises(openai.RateLimitError) as caught:
            client.chat.completions.create(**SCRIPTED)
        assert caught.value.code == "queue_full"
        backend.go_on.set()
        assert first.result(LONG).choices[0].message.content == "and an answer"
        assert client.chat.completions.create(**SCRIPTED).choices[0].message.content == "and an answer"
        assert backend.started == 2


def test_an_error_of_the_generation() -> None:
    backend = Scripted(SAYS, fails_at=3)
    with served(example("server").create_app([backend])) as address:
        client = scripted_client(address)
        with pytest.raises(openai.InternalServerError, match="MemoryError: no more"):
            client.chat.completions.create(**SCRIPTED)
        with pytest.raises(openai.APIError, match="MemoryError: no more"):
            list(client.chat.completions.create(**SCRIPTED, stream=True))


def test_an_error_of_the_server_itself() -> None:
    backend = Scripted(SAYS)
    backend.prepare = lambda request: 1 / 0  # type: ignore[method-assign,assignment]
    with (
        served(example("server").create_app([backend])) as address,
        pytest.raises(openai.InternalServerError) as caught,
    ):
        scripted_client(address).chat.completions.create(**SCRIPTED)
    assert caught.value.type == "server_error"


def test_calls_that_do_not_parse_are_kept_and_never_run() -> None:
    backend = Scripted("<tool_call>{oops</tool_call>well<|im_end|>")
    backend.go_on.set()
    with served(example("server").create_app([backend])) as address:
        client = scripted_client(address)
        message = client.chat.completions.create(**SCRIPTED).choices[0].message
        assert (message.content, message.tool_calls) == ("well", None)
        assert message.malformed[0]["text"] == "<tool_call>{oops</tool_call>"
        chunks = collected(client.chat.completions.create(**SCRIPTED, stream=True))
        assert (chunks["content"], chunks["reason"]) == ("well", "stop")


def test_arguments_are_sent_as_they_are_written() -> None:
    city = "Llanfairpwllgwyngyll"
    call = f'{{"name": "get_weather", "arguments": {{"city": "{city}"}}}}'
    backend = Scripted(f"<tool_call>{call}</tool_call><|im_end|>")
    backend.go_on.set()
    with served(example("server").create_app([backend])) as address:
        chunks = list(scripted_client(address).chat.completions.create(**SCRIPTED, stream=True))
    calls = [call for chunk in chunks for choice in chunk.choices for call in choice.delta.tool_calls or ()]
    assert calls[0].function.name == "get_weather"
    assert calls[0].function.arguments == ""
    assert len(calls) > len(city) / 2  # and not all at the end
    (whole,) = collected(chunks)["calls"].values()
    assert whole["arguments"] == json.dumps({"city": city})


# --- the command ---------------------------------------------------------------------------------------------------


def test_no_template_that_fits_is_said(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="server: "):
        example("server").main(["--model", str(tmp_path / "nothing")])
    with pytest.raises(SystemExit, match="qwen3"):
        example("server").main(["--template", "qwen33"])
