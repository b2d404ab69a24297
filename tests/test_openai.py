"""The OpenAI shape: streams and messages, checked with the types and the accumulator of the `openai` package."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import generations
import materials
import written_turns
from domains import domains
from response_templates import (
    InputTypeError,
    OpenAIDeltas,
    ResponseParser,
    StreamError,
    TemplateError,
    async_openai_deltas,
    from_openai,
    get_template,
    openai_deltas,
    parse_response,
    to_openai,
)
from strategies import Case, cases, splits
from test_properties import promise

Chunk = dict[str, Any]
NAMES = list(generations.FORMS)
few = settings(promise, max_examples=max(30, promise.max_examples // 10))  # there are many templates


def counting() -> Any:
    counter = itertools.count()
    return lambda: f"id-{next(counter)}"


def stream(text: list[str], template: Any, *, prefix: str = "", tools: Any = None, **options: Any) -> list[Chunk]:
    """The chunks of a generation that comes in pieces."""
    parser = ResponseParser(template, prefix, tools=tools, errors="recover", groups=True)

    def events() -> Iterator[Any]:
        yield from parser.initial_events
        for piece in text:
            yield from parser.feed(piece)
        yield from parser.finalize()[1]

    return list(openai_deltas(events(), template, tools=tools, new_id=counting(), **options))


def deltas(chunks: list[Chunk]) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]


def put_together(chunks: list[Chunk]) -> dict[str, Any]:
    """The message that a client makes of the chunks: strings are concatenated, calls merged by their index."""
    message: dict[str, Any] = {"content": None}
    for delta in deltas(chunks):
        for key, value in delta.items():
            if key == "tool_calls":
                for part in value:
                    _merge_call(message.setdefault("tool_calls", []), part)
            elif key == "role" or message.get(key) is None:
                message[key] = value
            else:
                message[key] += value
    return message


def _merge_call(calls: list[dict[str, Any]], part: dict[str, Any]) -> None:
    if part["index"] == len(calls):
        assert {"id", "type", "function"} <= set(part), "the first delta of a call says its id and name"
        assert part["function"]["name"]
        calls.append({"function": {}})
    assert part["index"] == len(calls) - 1, "calls come one after the other"
    call = calls[part["index"]]
    call.update({key: value for key, value in part.items() if key not in ("index", "function")})
    for key, value in part["function"].items():
        call["function"][key] = call["function"].get(key, "") + value if key == "arguments" else value


def without_indices(message: dict[str, Any]) -> dict[str, Any]:
    """Without what only the entries of a stream have."""
    if "malformed" not in message:
        return message
    kept = ("field", "text", "error")
    return {**message, "malformed": [{key: each[key] for key in kept} for each in message["malformed"]]}


def whole_calls(message: dict[str, Any]) -> dict[str, Any]:
    """Without the calls whose arguments were never finished."""
    calls = [call for call in message.get("tool_calls", []) if is_json(call["function"]["arguments"])]
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return rest | ({"tool_calls": calls} if calls else {})


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def without_ids(message: dict[str, Any]) -> dict[str, Any]:
    calls = [{key: value for key, value in call.items() if key != "id"} for call in message.get("tool_calls", [])]
    return {**message, "tool_calls": calls}


def keys_once(message: dict[str, Any]) -> dict[str, Any]:
    """With a key that the model wrote twice once: the later value counts."""
    calls = [{**call, "function": dict(call["function"])} for call in message.get("tool_calls", [])]
    for function in (call["function"] for call in calls):
        pairs: list[list[tuple[str, Any]]] = []
        value = json.loads(
            function["arguments"], object_pairs_hook=lambda each, pairs=pairs: pairs.append(each) or dict(each)
        )
        if any(len(dict(each)) < len(each) for each in pairs):
            function["arguments"] = json.dumps(value, ensure_ascii=False)
    return message | ({"tool_calls": calls} if calls else {})


def check_stream(chunks: list[Chunk], message: dict[str, Any]) -> None:
    """The chunks say what the message says."""
    got = whole_calls(without_indices(put_together(chunks)))
    # A list of (field, text, error) with nothing in it is not there; fields of the end come last.
    wanted = without_indices(to_openai(message, new_id=counting()))
    if wanted.get("content") == "":
        wanted["content"] = None
    if got.get("content") == "":
        got["content"] = None
    malformed = [each for each in wanted.get("malformed", []) if each["text"]]  # a missing field has no event
    wanted = {key: value for key, value in wanted.items() if key != "malformed"}
    assert got.pop("malformed", []) == malformed
    assert without_ids(keys_once(got)) == without_ids(wanted)
    for call, own in zip(got.get("tool_calls", []), message.get("tool_calls", []), strict=True):
        assert json.loads(call["function"]["arguments"]) == own["function"]["arguments"]
    ids = [call["id"] for call in put_together(chunks).get("tool_calls", [])]
    assert len(set(ids)) == len(ids)


# --- any text, any chunking ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tools", [None, generations.TOOLS], ids=["untyped", "typed"])
def test_deltas_are_the_message(name: str, tools: Any) -> None:
    template = get_template(name).template

    @few
    @given(st.data())
    def check(data: st.DataObject) -> None:
        text = data.draw(st.one_of(generations.turns(name), generations.damaged(name)))
        pieces = data.draw(st.one_of(splits(text), st.just(list(text))))
        message = parse_response(text, template, prefix="", tools=tools, errors="recover")
        check_stream(stream(pieces, template, tools=tools), message)

    check()


@pytest.mark.parametrize("name", domains())
def test_deltas_of_every_family(name: str) -> None:
    """Real turns, cut at random and cut off: the arguments put together are `json.dumps` of the message's."""
    template, at_hand = get_template(name).template, written_turns.turns(name)
    if not at_hand:
        pytest.skip("no turn is at hand")

    @settings(few, max_examples=max(8, promise.max_examples // 30))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        turn, of_turn = data.draw(st.sampled_from(at_hand))
        tools = data.draw(st.sampled_from([None, of_turn]))
        end = data.draw(st.just(len(turn.generation)) | st.integers(0, len(turn.generation)))
        text = turn.generation[:end]
        pieces = data.draw(splits(text) | st.just(list(text)))
        message = parse_response(text, template, prefix=turn.prompt, tools=tools, errors="recover")
        chunks = stream(pieces, template, prefix=turn.prompt, tools=tools)
        check_stream(chunks, message)
        sent = whole_calls(put_together(chunks)).get("tool_calls", [])
        for call, own in zip(sent, message.get("tool_calls", []), strict=True):
            assert call["function"]["arguments"] == json.dumps(own["function"]["arguments"], ensure_ascii=False)

    check()


@pytest.mark.parametrize("name", NAMES)
def test_forms_are_what_their_families_write(name: str) -> None:
    template = get_template(name).template

    @few
    @given(generations.turns(name))
    def check(text: str) -> None:
        assert "malformed" not in parse_response(text, template, prefix="", errors="recover")

    check()


def overwrites(case: Case) -> bool:
    """Can a later region of a field replace an earlier one's text?"""
    fields = case.template["fields"].values()
    return not all(field["repeats"] for field in fields)


@settings(promise, max_examples=max(100, promise.max_examples // 3))
@given(cases(), st.data())
def test_any_template(case: Case, data: st.DataObject) -> None:
    try:
        OpenAIDeltas(case.template)
    except TemplateError:
        return
    if overwrites(case):
        return
    parser = ResponseParser(case.template, case.prefix, errors="recover")
    parser.feed(case.text)
    message = parser.finalize()[0]
    pieces = data.draw(st.one_of(splits(case.text), st.just(list(case.text))))
    check_stream(stream(pieces, case.template, prefix=case.prefix), message)


def test_real_outputs() -> None:
    for family, name in {"qwen3-hermes": "qwen3", "qwen3-xml": "qwen3-coder", "gpt-oss": "gpt-oss"}.items():
        materials.folder("canitoolcall")
        template = get_template(name).template
        for fixture in materials.fixtures(family):
            text, prefix, tools = fixture["raw_output"], fixture["generation_prompt"], fixture["tools"]
            message = parse_response(text, template, prefix=prefix, tools=tools, errors="recover")
            check_stream(stream(list(text), template, prefix=prefix, tools=tools), message)


# --- the openai package ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_chunks_are_of_the_package_s_types_and_its_accumulator_agrees(name: str) -> None:
    chat = pytest.importorskip("openai.types.chat")
    state_of = pytest.importorskip("openai.lib.streaming.chat").ChatCompletionStreamState
    template = get_template(name).template
    text = generations.FORMS[name].turn("Let me see.", "A moment.", [("f", {"city": 'é "x"'}), ("g", {"n": [1, {}]})])
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    state, chunks = state_of(), stream(list(text), template, model="m", usage=lambda: usage)
    for chunk in chunks:
        checked = chat.ChatCompletionChunk.model_validate(chunk, strict=True)
        assert {**checked.to_dict(), "usage": None} == {**chunk, "usage": None}, "no key is unknown, none is missing"
        state.handle_chunk(checked)
    final = state.get_final_completion()
    choice = final.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert final.usage.total_tokens == 7
    message = parse_response(text, template, prefix="")
    wanted = to_openai(message, new_id=counting())
    assert choice.message.content == wanted.get("content")
    assert getattr(choice.message, "reasoning_content", None) == wanted.get("reasoning_content")
    calls = [call.to_dict() for call in choice.message.tool_calls]
    for call in calls:
        call.pop("index", None)
        call["function"].pop("parsed_arguments", None)
    assert calls == wanted["tool_calls"]
    chat.ChatCompletionMessage.model_validate(wanted, strict=True)
    assert without_ids(from_openai(choice.message))["tool_calls"] == without_ids(message)["tool_calls"]


# --- what is in a stream ---------------------------------------------------------------------------------------------

QWEN = get_template("qwen3").template
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'


def test_the_first_chunk_says_the_role_and_the_last_why_it_ended() -> None:
    chunks = stream(["Hi"], QWEN, model="m", completion_id="c", created=7, choice=2)
    assert chunks[0] == {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "m",
        "choices": [{"index": 2, "delta": {"role": "assistant"}, "logprobs": None, "finish_reason": None}],
    }
    assert chunks[-1]["choices"][0] == {"index": 2, "delta": {}, "logprobs": None, "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("text", "told", "reason"),
    [
        ("Hi", None, "stop"),
        ("Hi", "stop", "stop"),
        ("Hi", "length", "length"),
        (CALL, None, "tool_calls"),
        (CALL, "stop", "tool_calls"),
        (CALL, lambda: "length", "length"),
        (CALL, lambda: None, "tool_calls"),
        (CALL[:-20], "length", "length"),
        (CALL[:30], None, "stop"),
    ],
)
def test_finish_reasons(text: str, told: Any, reason: str) -> None:
    assert stream([text], QWEN, finish_reason=told)[-1]["choices"][0]["finish_reason"] == reason


def test_usage_comes_last_without_choices() -> None:
    last = stream(["Hi"], QWEN, usage={"total_tokens": 2})[-1]
    assert (last["choices"], last["usage"]) == ([], {"total_tokens": 2})
    assert all("usage" not in chunk for chunk in stream(["Hi"], QWEN, usage=lambda: None))


def test_white_space_that_the_message_has_not_is_not_sent() -> None:
    chunks = stream(["<think>\n x", "\n", " \n</think>\n\nHello ", " ", "\nyou", " \n", "<|im_end|>"], QWEN)
    assert [delta for delta in deltas(chunks) if "role" not in delta] == [
        {"reasoning_content": "x"},
        {"content": "Hello"},
        {"content": "  \nyou"},
        {},
    ]


def test_an_async_stream_is_the_same() -> None:
    text = "<think>x</think>Hello " + CALL

    async def collect() -> list[Chunk]:
        parser = ResponseParser(QWEN, "", groups=True)

        async def events() -> AsyncIterator[Any]:
            for char in text:
                for event in parser.feed(char):
                    yield event
            for event in parser.finalize()[1]:
                yield event

        made = async_openai_deltas(events(), QWEN, completion_id="c", created=1, new_id=counting(), usage={"a": 1})
        return [chunk async for chunk in made]

    assert asyncio.run(collect()) == stream(list(text), QWEN, completion_id="c", created=1, usage={"a": 1})


def test_ids() -> None:
    body = '<tool_call>{"id": "%s", "name": "f", "arguments": {}}</tool_call>'
    text = body % "one" + body % "one" + CALL
    calls = put_together(stream([text], QWEN))["tool_calls"]
    assert [call["id"] for call in calls] == ["one", "id-0", "id-1"]
    made = [call["id"] for call in to_openai(parse_response(CALL + CALL, QWEN, prefix=""))["tool_calls"]]
    assert len(set(made)) == 2
    assert all(each.startswith("call_") and len(each) == 29 for each in made)


def test_templates_that_make_no_calls_are_refused() -> None:
    fields = {"tool_calls": {"open": "<a>", "content": "json", "transform": {"call": "{content}"}}}
    with pytest.raises(TemplateError, match="tool_calls"):
        OpenAIDeltas({"start_anchor": "@", "fields": fields})


# --- arguments as they are written -----------------------------------------------------------------------------------


def written(text: str, name: str, tools: Any = None) -> list[str]:
    """What each character adds to the calls: a name, or text of arguments."""
    made = deltas(stream(list(text), get_template(name).template, tools=tools))
    functions = [part["function"] for delta in made for part in delta.get("tool_calls", [])]
    return [function.get("name", function.get("arguments")) for function in functions]


def form(name: str, *calls: tuple[str, Any]) -> str:
    return generations.FORMS[name].calls(list(calls))


@pytest.mark.parametrize(
    ("name", "arguments", "tools", "parts"),
    [
        ("qwen3", {"a": "Li\n", "n": 12}, None, ["f", "{", '"a": "', "L", "i", "\\n", '"', ', "n": 12', "}"]),
        ("qwen3", {"a": [1, {"b": "c"}]}, None, ["f", "{", '"a": [', "1", ", {", '"b": "', "c", '"', "}", "]", "}"]),
        ("gpt-oss", {"a": "é"}, None, ["f", "{", '"a": "', "é", '"', "}"]),
        ("qwen3-coder", {"a": "x y", "n": 1}, None, ["f", "{", '"a": "', "x", " ", "y", '"', ', "n": "', "1", '"}']),
        ("cohere-command-a", {"a": None}, None, ["f", "{", '"a": null', "}"]),
        ("smollm3-python", {}, None, ["python", '{"code": "f', "(", "{", "}", ")", '"}']),
    ],
)
def test_arguments_are_sent_as_they_are_written(name: str, arguments: Any, tools: Any, parts: list[str]) -> None:
    assert written(form(name, ("f", arguments)), name, tools) == parts


def test_a_string_that_a_schema_may_cast_is_sent_once_its_type_is_settled() -> None:
    arguments = {"city": "12", "n": "34", "when": "x 1", "flag": "no", "note": "n"}
    parts = ["get_weather", "{", '"city": "', "1", "2", '"', ', "n": 34', ', "when": "x', " ", "1", '"']
    parts += [', "flag": "no', '"', ', "note": "', "n", '"}']
    assert written(form("qwen3-coder", ("get_weather", arguments)), "qwen3-coder", generations.TOOLS) == parts


def test_calls_of_one_region_come_one_after_the_other() -> None:
    """A client takes a call for complete when the next begins; the region may still turn out malformed."""
    text = form("cohere-command-a", ("f", {"a": "x"}), ("g", {"b": "y"}))
    parts = ["f", "{", '"a": "', "x", '"', "}", "g"]
    assert written(text, "cohere-command-a") == parts
    assert written(text[:-20] + "]", "cohere-command-a") == parts[:-2]


@pytest.mark.parametrize("name", NAMES)
def test_a_call_cut_at_any_character_is_never_whole(name: str) -> None:
    """Its name may have been promised; its arguments are no JSON, and what the model wrote comes as malformed."""
    template = get_template(name).template
    text = form(name, ("f", {"city": "a {", "items": ["}"]}))
    for end in range(len(text)):
        message = parse_response(text[:end], template, prefix="", errors="recover")
        chunks = stream(list(text[:end]), template)
        calls = put_together(chunks).get("tool_calls", [])
        whole = "tool_calls" in message
        assert [is_json(call["function"]["arguments"]) for call in calls] in ([whole], [] if not whole else [True])
        assert chunks[-1]["choices"][0]["finish_reason"] == ("tool_calls" if whole else "stop")
        if calls and not whole:
            (entry,) = put_together(chunks)["malformed"]
            assert entry["tool_call_index"] == 0
            assert text[:end].startswith(entry["text"])


def test_a_key_that_comes_twice() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"a": "x", "b": 1, "a": "y"}}</tool_call>'
    (call,) = put_together(stream(list(text), QWEN))["tool_calls"]
    assert call["function"]["arguments"] == '{"a": "x", "b": 1, "a": "y"}'
    assert json.loads(call["function"]["arguments"]) == {"a": "y", "b": 1}


def test_a_repaired_call_is_put_right() -> None:
    pytest.importorskip("json_repair")
    text = """<tool_call>{"name": "f", "arguments": {"a": "x", "b": 'y', "c": [1,]}}</tool_call>"""
    parser = ResponseParser(QWEN, "", errors="repair")
    events = [event for char in text for event in parser.feed(char)]
    message, last = parser.finalize()
    (call,) = put_together(list(openai_deltas(events + last, QWEN)))["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == message["tool_calls"][0]["function"]["arguments"]
    assert message["malformed"][0]["repaired"]


def test_tools_that_only_the_parser_was_told_of() -> None:
    """What was sent as text turns out a number: the key comes again."""
    text = form("qwen3-coder", ("get_weather", {"city": "x", "n": "34"}))
    parser = ResponseParser(get_template("qwen3-coder").template, "", tools=generations.TOOLS, groups=True)
    events = [event for char in text for event in parser.feed(char)] + parser.finalize()[1]
    (call,) = put_together(list(openai_deltas(events, get_template("qwen3-coder").template)))["tool_calls"]
    assert call["function"]["arguments"] == '{"city": "x", "n": "34", "n": 34}'


def test_a_call_that_turns_out_another_is_left_unfinished_and_the_right_one_follows() -> None:
    tags = {"tag_pattern": r"<p=(?P<key>\w+)>(?P<value>.*?)</p>"}
    call = {"function": {"name": "{name}", "arguments": "{content}"}}
    opened = {"open_pattern": r"<f=(?P<name>\w+)>", "close": "</f>", "content": "xml-inline", "content_args": tags}
    template = {
        "start_anchor": "@",
        "fields": {"content": {}, "tool_calls": {**opened, "repeats": True, "transform": call}},
    }
    chunks = stream(list("<f=g><p=a>1</p><p=b>2</f>"), template)
    first, second = put_together(chunks)["tool_calls"]
    assert first["function"] == {"name": "g", "arguments": '{"a": "1", "b": "2'}
    assert second["function"] == {"name": "g", "arguments": '{"a": "1"}'}
    assert put_together(chunks)["malformed"][0]["tool_call_index"] == 0


def test_names_wait_for_the_close_where_the_events_do_not_carry_groups() -> None:
    text = form("gpt-oss", ("f", {"a": 1}))
    parser = ResponseParser(get_template("gpt-oss").template, "")
    events = [event for char in text for event in parser.feed(char)] + parser.finalize()[1]
    chunks = list(openai_deltas(events, get_template("gpt-oss").template))
    (part,) = [part for delta in deltas(chunks) for part in delta.get("tool_calls", [])]
    assert part["function"] == {"name": "f", "arguments": '{"a": 1}'}


# --- whole messages --------------------------------------------------------------------------------------------------


@promise
@given(
    st.fixed_dictionaries(
        {"role": st.just("assistant")},
        optional={
            "content": st.text(min_size=1),
            "reasoning_content": st.text(min_size=1),
            "malformed": st.just([{"field": "tool_calls", "text": "x", "error": "y"}]),
            "tool_calls": generations.CALLS.filter(bool).map(
                lambda calls: [
                    {"id": f"i{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
                    for n, (name, arguments) in enumerate(calls)
                ]
            ),
        },
    )
)
def test_there_and_back(message: dict[str, Any]) -> None:
    shaped = to_openai(message)
    assert from_openai(shaped) == message
    assert from_openai(json.loads(json.dumps(shaped))) == message
    assert to_openai(from_openai(shaped)) == shaped


def test_to_openai() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": {"city": "São Paulo", "n": 1.0}}}
    assert to_openai({"role": "assistant", "tool_calls": [call]}, new_id=lambda: "i") == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"type": "function", "function": {"name": "f", "arguments": '{"city": "São Paulo", "n": 1.0}'}, "id": "i"}
        ],
    }
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}]
    assert to_openai({"role": "user", "content": parts}) == {"role": "user", "content": parts}
    assert to_openai({"role": "assistant", "content": ["a", "b"]})["content"] == "ab"


def test_from_openai() -> None:
    chat = pytest.importorskip("openai.types.chat")
    call = {"id": "i", "type": "function", "function": {"name": "f", "arguments": ""}}
    message = chat.ChatCompletionMessage.model_validate({"role": "assistant", "content": None, "tool_calls": [call]})
    own = {"id": "i", "type": "function", "function": {"name": "f", "arguments": {}}}
    assert from_openai(message) == {"role": "assistant", "tool_calls": [own]}
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert from_openai({"role": "assistant", "content": parts, "tool_calls": [], "refusal": None}) == {
        "role": "assistant",
        "content": "ab",
    }


@pytest.mark.parametrize(
    ("message", "match"),
    [
        ("x", "must be a dict, not str"),
        ({"tool_calls": [{"id": "i"}]}, r"tool_calls\[0\]"),
        ({"tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}, r"arguments of tool_calls\[0\] are not JSON"),
        ({"tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]}, "must be a JSON object"),
        ({"tool_calls": [{"function": {"name": "f", "arguments": "[" * 100_000}}]}, "are not JSON"),
        ({"tool_calls": [{"function": {"name": "f", "arguments": '{"a": NaN}'}}]}, "JSON has no NaN"),
        ({"tool_calls": 3}, "tool_calls must be a list"),
        ({"choices": [{"message": {"role": "assistant"}}]}, r"choices\[0\]\.message"),
    ],
)
def test_bad_messages(message: Any, match: str) -> None:
    with pytest.raises(InputTypeError, match=match):
        from_openai(message)


def call_of(arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}


@pytest.mark.parametrize(
    ("message", "options", "match"),
    [
        (None, {}, "message must be a dict, not NoneType"),
        ({"tool_calls": [{"function": {}}]}, {}, r"tool_calls\[0\] is no call"),
        (call_of([1]), {}, r"arguments of tool_calls\[0\] must be an object, not \[1\]"),
        (call_of({"a": {1}}), {}, r"arguments of tool_calls\[0\] can't be written as JSON"),
        (call_of({"a": float("nan")}), {}, r"arguments of tool_calls\[0\] can't be written as JSON"),
        (call_of({}), {"new_id": lambda: 3}, "new_id must return a string, not 3"),
        ({"tool_calls": 2 * call_of({})["tool_calls"]}, {"new_id": lambda: "i"}, "ids that other calls .* have"),
    ],
)
def test_bad_messages_of_ours(message: Any, options: Any, match: str) -> None:
    with pytest.raises(InputTypeError, match=match):
        to_openai(message, **options)


# --- bad streams -----------------------------------------------------------------------------------------------------


async def no_events() -> AsyncIterator[Any]:
    for event in ():
        yield event


@pytest.mark.parametrize(
    ("events", "options", "match"),
    [
        (None, {}, "events must be the events of a parser, not NoneType"),
        (no_events(), {}, "use async_openai_deltas"),
        ("ab", {}, "no event of a parser .*: 'a'"),
        ([{"field": "content"}], {}, "no event of a parser"),
        ([{"type": "region_opened", "field": "content"}], {}, "no event of a parser"),
        ([{"type": "region_open", "field": "contents"}], {}, "its fields are .*content.*contents"),
        ([{"type": "region_chunk", "field": "content"}], {}, "no event of a parser"),
        ([{"type": "region_close", "field": "tool_calls"}], {}, "no event of a parser"),
        ([], {"finish_reason": "done"}, "finish_reason must be one of stop, length, .*, not 'done'"),
        ([], {"usage": 3}, "usage must be a dict, not int"),
        ([], {"tools": 3}, "tools must be a list"),
    ],
)
def test_bad_streams(events: Any, options: Any, match: str) -> None:
    with pytest.raises(InputTypeError, match=match):
        list(openai_deltas(events, QWEN, **options))


def test_an_ordinary_stream_given_as_an_asynchronous_one() -> None:
    async def read() -> None:
        async for _ in async_openai_deltas([], QWEN):  # type: ignore[arg-type]
            pass

    with pytest.raises(InputTypeError, match="not list; use openai_deltas"):
        asyncio.run(read())


def test_a_stream_is_finished_once() -> None:
    maker = OpenAIDeltas(QWEN)
    with pytest.raises(InputTypeError):
        maker.finish("done")
    assert maker.finish()[-1]["choices"][0]["finish_reason"] == "stop"
    with pytest.raises(StreamError, match="finished"):
        maker.finish()
    with pytest.raises(StreamError, match="finished"):
        maker.feed({"type": "region_open", "field": "content"})


def test_the_package_s_own_usage() -> None:
    usage = pytest.importorskip("openai").types.CompletionUsage(prompt_tokens=1, completion_tokens=2, total_tokens=3)
    assert list(openai_deltas([], QWEN, usage=usage))[-1]["usage"] == usage.to_dict()
