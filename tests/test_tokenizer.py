"""Parsing through a tokenizer: every kind of input, padding, prefixes of ids, the way back, and clear errors."""

from __future__ import annotations

import copy
import inspect
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

import numpy as np

import response_templates
from plugin_helpers import CHAT_TEMPLATE, TEMPLATE, TinyProcessor, byte_fallback, byte_level, letter_level
from response_templates import (
    InputTypeError,
    ParseError,
    PrefixRequiredError,
    TemplateError,
    TemplateMissingError,
    get_template,
    load_template,
)

PROMPT = "<|im_start|>user\nHow is Lima?<|im_end|>\n<|im_start|>assistant\n<think>"
ANSWER = "It is near.</think>Sunny, 20°C.<|im_end|>"
MESSAGE = {"role": "assistant", "reasoning_content": "It is near.", "content": "Sunny, 20°C."}
OLD_SCHEMA = {"type": "object", "properties": {"content": {"type": "string", "x-regex": "(.*)"}}}


@pytest.fixture(autouse=True)
def plugin() -> Iterator[None]:
    response_templates.install()
    yield
    response_templates.uninstall()


@pytest.fixture
def tokenizer() -> Any:
    made = byte_level(chat_template=CHAT_TEMPLATE)
    made.response_template = TEMPLATE
    return made


def ids(tokenizer: Any, text: str) -> list[int]:
    encoded: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return encoded


def torch_or_skip() -> Any:
    return pytest.importorskip("torch")


# --- the attribute -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [TEMPLATE, load_template(TEMPLATE), get_template("qwen3").template.to_dict()],
    ids=["dict", "object", "qwen3"],
)
def test_a_template_is_set_and_comes_back(value: Any) -> None:
    tokenizer = byte_level()
    assert tokenizer.response_template is None
    tokenizer.response_template = value
    assert tokenizer.response_template == (value if isinstance(value, dict) else value.to_dict())
    assert list(tokenizer.response_template) == list(load_template(value).to_dict())  # keys in their order
    del tokenizer.response_template
    assert tokenizer.response_template is None
    assert hasattr(tokenizer, "response_template")


def test_setting_none_is_deleting(tokenizer: Any) -> None:
    tokenizer.response_template = None
    with pytest.raises(TemplateMissingError):
        tokenizer.parse_response("x", prefix="")


@pytest.mark.parametrize("value", [{}, {"fields": {}}, {**TEMPLATE, "version": 7}, 5, ["x"], "no such file"], ids=repr)
def test_a_bad_template_is_refused_at_once_and_the_old_one_stays(tokenizer: Any, value: Any) -> None:
    with pytest.raises(TemplateError):
        tokenizer.response_template = value
    assert tokenizer.response_template == TEMPLATE


def test_later_changes_of_the_dict_do_not_reach_the_tokenizer(tokenizer: Any) -> None:
    value = copy.deepcopy(TEMPLATE)
    tokenizer.response_template = value
    value["fields"].clear()
    tokenizer.response_template["fields"].clear()
    assert tokenizer.response_template == TEMPLATE


@pytest.mark.parametrize("method", ["parse_response", "get_response_parser"])
def test_without_a_template_the_error_names_the_one_that_fits(method: str) -> None:
    tokenizer = byte_level()
    tokenizer.name_or_path = "Qwen/Qwen3-0.6B"  # it has no chat template, so the name is all there is to go by
    arguments = ("x",) if method == "parse_response" else ()
    with pytest.raises(AttributeError, match=r"'qwen3'.*tokenizer\.response_template = ") as caught:
        getattr(tokenizer, method)(*arguments, prefix="")
    assert isinstance(caught.value, TemplateMissingError)


def test_without_a_template_that_fits_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TemplateMissingError, match=r"no template of the registry .*list_templates"):
        byte_level().parse_response("x", prefix="")

    def fails(source: Any) -> None:
        raise OSError("no disk")

    monkeypatch.setattr("response_templates.registry.template_for", fails)
    with pytest.raises(TemplateMissingError, match="list_templates"):
        byte_level().parse_response("x", prefix="")


# --- kinds of input ------------------------------------------------------------------------------------------------

KINDS = {
    "str": lambda tokenizer, text: text,
    "list": ids,
    "tuple": lambda tokenizer, text: tuple(ids(tokenizer, text)),
    "array": lambda tokenizer, text: np.array(ids(tokenizer, text)),
    "list of numpy numbers": lambda tokenizer, text: list(np.array(ids(tokenizer, text))),
    "BatchEncoding": lambda tokenizer, text: tokenizer(text, add_special_tokens=False),
    "tensor": lambda tokenizer, text: torch_or_skip().tensor(ids(tokenizer, text)),
    "list of tensors": lambda tokenizer, text: list(torch_or_skip().tensor(ids(tokenizer, text))),
}
BATCHES = {
    "list of str": list,
    "nested lists": lambda texts: texts,
    "array": np.array,
    "list of arrays": lambda rows: [np.array(row) for row in rows],
    "tensor": lambda rows: torch_or_skip().tensor(rows),
}


@pytest.mark.parametrize("prefix_kind", KINDS)
@pytest.mark.parametrize("kind", KINDS)
def test_one_response(tokenizer: Any, kind: str, prefix_kind: str) -> None:
    response, prefix = KINDS[kind](tokenizer, ANSWER), KINDS[prefix_kind](tokenizer, PROMPT)
    assert tokenizer.parse_response(response, prefix=prefix) == MESSAGE


@pytest.mark.parametrize("make", [byte_level, byte_fallback], ids=["bytes", "byte fallback"])
def test_fast_tokenizers(make: Any) -> None:
    tokenizer = make()
    text = "naïve 東京 🦙 x</think>ok  two  spaces !<|im_end|>"
    message = tokenizer.parse_response(ids(tokenizer, text), TEMPLATE, prefix=ids(tokenizer, PROMPT))
    assert message["reasoning_content"] == "naïve 東京 🦙 x"


def test_a_slow_tokenizer(tmp_path: Path) -> None:
    tokenizer = letter_level(tmp_path)
    tokenizer.response_template = TEMPLATE
    text = 'Is it ?  yes .</think>do n\'t<tool_call>{"name": "f", "arguments": {}}</tool_call><|im_end|>'
    message = tokenizer.parse_response(ids(tokenizer, text), prefix=ids(tokenizer, PROMPT))
    assert message["reasoning_content"] == "Is it ?  yes ."
    assert message["content"] == "do n't"
    assert message["tool_calls"] == [{"type": "function", "function": {"name": "f", "arguments": {}}}]


def padded(rows: list[list[int]], pad: int, side: str) -> list[list[int]]:
    width = max(map(len, rows))
    padding = [[pad] * (width - len(row)) for row in rows]
    if side == "left":
        return [before + row for before, row in zip(padding, rows, strict=True)]
    return [row + after for row, after in zip(rows, padding, strict=True)]


@pytest.mark.parametrize("pad_token", ["<pad>", "<|im_end|>"], ids=["a pad token", "the end token pads"])
@pytest.mark.parametrize("kind", BATCHES)
def test_a_batch(kind: str, pad_token: str) -> None:
    tokenizer = byte_level(pad_token=pad_token)
    answers = [ANSWER, "Yes.</think>No rain<|im_end|>"]
    prompts = [PROMPT, PROMPT.replace("Lima", "Arequipa or, well, Cusco")]
    responses, prefixes = answers, prompts
    if kind != "list of str":
        pad = tokenizer.convert_tokens_to_ids(pad_token)
        responses = BATCHES[kind](padded([ids(tokenizer, each) for each in answers], pad, "right"))
        prefixes = BATCHES[kind](padded([ids(tokenizer, each) for each in prompts], pad, "left"))
    expected = [MESSAGE, {"role": "assistant", "reasoning_content": "Yes.", "content": "No rain"}]
    assert tokenizer.parse_response(responses, TEMPLATE, prefix=prefixes) == expected
    assert tokenizer.parse_response(responses, TEMPLATE, prefix=PROMPT) == expected  # one for all
    assert tokenizer.parse_response(responses, TEMPLATE, prefix=ids(tokenizer, PROMPT)) == expected


ECHO = {"start_anchor": "@", "fields": {"content": {"content_args": {"strip": False}}}}  # shows all that it was given


@pytest.mark.parametrize(
    ("pad_token", "text", "expected"),
    [
        ("<pad>", "hi<|im_end|><pad><pad>", "hi<|im_end|>"),
        ("<pad>", "hi<|im_end|>", "hi<|im_end|>"),
        ("<pad>", "hi", "hi"),
        ("<pad>", "hi<pad>there<pad>", "hi<pad>there"),
        ("<|im_end|>", "hi<|im_end|><|im_end|><|im_end|>", "hi<|im_end|>"),
        ("<|im_end|>", "hi<|im_end|>", "hi<|im_end|>"),
        ("<|im_end|>", "hi", "hi"),
        (None, "hi<|im_end|>", "hi<|im_end|>"),
    ],
)
def test_padding_behind_the_end_is_dropped(pad_token: str | None, text: str, expected: str) -> None:
    tokenizer = byte_level(pad_token=pad_token)
    encoded = ids(tokenizer, text)
    assert tokenizer.parse_response(encoded, ECHO, prefix="")["content"] == expected
    assert tokenizer.parse_response([encoded], ECHO, prefix="")[0]["content"] == expected
    assert tokenizer.parse_response(text, ECHO, prefix="")["content"] == text  # a text is as it is


def test_padding_before_a_prefix_without_an_anchor_is_dropped(tokenizer: Any) -> None:
    prefix = ids(tokenizer, "<pad><pad>no anchor")
    assert tokenizer.parse_response([], ECHO, prefix=prefix)["content"] == "no anchor"


def test_empty_generations_and_opting_out(tokenizer: Any) -> None:
    for nothing in ("", [], np.array([], dtype=int)):
        assert tokenizer.parse_response(nothing, prefix="") == {"role": "assistant"}
        assert tokenizer.parse_response("hi", prefix=nothing) == {"role": "assistant", "content": "hi"}


def test_a_prefix_batch_of_one_goes_with_a_single_response(tokenizer: Any) -> None:
    assert tokenizer.parse_response(ANSWER, prefix=np.array([ids(tokenizer, PROMPT)])) == MESSAGE
    assert tokenizer.get_response_parser(prefix=[PROMPT]).feed("x")


BAD = {
    "None in a list": [None],
    "bytes": b"hi",
    "a list of bytes": [b"hi"],
    "a float": 1.5,
    "floats": [1.0, 2.0],
    "an array of floats": np.array([1.5]),
    "bools": [True, False],
    "an array of bools": np.array([True]),
    "a negative id": [5, -1],
    "an id that labels use for padding": np.array([5, -100]),
    "an id out of the vocabulary": [5, 10**6],
    "a huge id": [2**70],
    "nested too deep": [[[5]]],
    "nested unevenly": [5, [6]],
    "texts and ids": ["hi", 5],
    "an array of three dimensions": np.zeros((1, 1, 1), dtype=int),
    "a mapping without ids": {"text": "hi"},
    "a set": {5},
    "an object": object(),
}


@pytest.mark.parametrize("value", BAD.values(), ids=BAD.keys())
def test_what_is_no_text_and_no_ids_is_refused(tokenizer: Any, value: Any) -> None:
    with pytest.raises(InputTypeError, match="response"):
        tokenizer.parse_response(value, prefix="")
    with pytest.raises(InputTypeError, match="prefix"):
        tokenizer.parse_response("hi", prefix=value)


def test_no_response_at_all_is_refused(tokenizer: Any) -> None:
    with pytest.raises(InputTypeError, match="NoneType"):
        tokenizer.parse_response(None, prefix="")


def test_ids_behind_a_gap_in_the_vocabulary_count(tmp_path: Path) -> None:
    tokenizer = byte_level()
    slow = letter_level(tmp_path)
    for each in (tokenizer, slow):
        last = len(each) - 1
        assert each.parse_response([last], ECHO, prefix="")
        with pytest.raises(InputTypeError, match=rf"response\[1\] is {last + 1}, .* {last + 1} tokens"):
            each.parse_response([last, last + 1], ECHO, prefix="")


@pytest.mark.parametrize("count", [1, 3])
def test_a_wrong_number_of_prefixes_is_refused(tokenizer: Any, count: int) -> None:
    with pytest.raises(ValueError, match="prefixes"):
        tokenizer.parse_response(["a", "b"], prefix=[PROMPT] * count)
    with pytest.raises(ValueError, match="prefixes"):
        tokenizer.parse_response(["a", "b"], prefix=[ids(tokenizer, PROMPT)] * count)


def test_several_prefixes_for_one_response_are_refused(tokenizer: Any) -> None:
    with pytest.raises(InputTypeError, match="2 prefixes"):
        tokenizer.parse_response("a", prefix=["", ""])
    with pytest.raises(InputTypeError, match="2 prefixes"):
        tokenizer.get_response_parser(prefix=["", ""])


def test_the_prefix_is_required(tokenizer: Any) -> None:
    with pytest.raises(PrefixRequiredError):
        tokenizer.parse_response("hi")
    with pytest.raises(PrefixRequiredError):
        tokenizer.get_response_parser()


# --- the arguments -------------------------------------------------------------------------------------------------


def test_tools_and_errors_reach_the_parser(tokenizer: Any) -> None:
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}]
    text = '<tool_call>{"name": "f", "arguments": {"n": "7"}}</tool_call>'
    message = tokenizer.parse_response(text, prefix="", tools=tools)
    assert message["tool_calls"][0]["function"]["arguments"] == {"n": 7}
    broken = "<tool_call>{</tool_call>"
    with pytest.raises(ParseError):
        tokenizer.parse_response(broken, prefix="")
    assert tokenizer.parse_response(broken, prefix="", errors="recover")["malformed"]
    parser = tokenizer.get_response_parser(prefix="", tools=tools, errors="recover")
    assert parser.feed(broken)[-1]["type"] == "region_malformed"


@pytest.mark.parametrize("template", [ECHO, load_template(ECHO)], ids=["dict", "object"])
def test_a_template_can_be_given_for_one_call(tokenizer: Any, template: Any) -> None:
    assert tokenizer.parse_response("<think>", template, prefix="") == {"content": "<think>"}
    parser = tokenizer.get_response_parser(template, prefix="")
    parser.feed("<think>")
    assert parser.finalize()[0] == {"content": "<think>"}
    assert tokenizer.response_template == TEMPLATE


def test_an_old_schema_goes_to_the_native_method_or_is_refused(tokenizer: Any) -> None:
    response_templates.uninstall()
    native = getattr(type(tokenizer), "parse_response", None)
    response_templates.install()
    if native is not None and "prefix" not in inspect.signature(native).parameters:
        assert tokenizer.parse_response("hi", OLD_SCHEMA) == {"content": "hi"}
        tokenizer.response_template = None
        tokenizer.response_schema = OLD_SCHEMA
        assert tokenizer.parse_response("hi", prefix="") == {"content": "hi"}
    else:
        with pytest.raises(InputTypeError, match="response_schema"):
            tokenizer.parse_response("hi", OLD_SCHEMA, prefix="")


def test_a_streaming_parser_sees_what_the_prefix_wrote(tokenizer: Any) -> None:
    parser = tokenizer.get_response_parser(prefix=ids(tokenizer, PROMPT))
    assert parser.initial_events == [{"type": "region_open", "field": "reasoning_content"}]
    for piece in ANSWER:
        parser.feed(piece)
    assert parser.finalize()[0] == MESSAGE


# --- a prefix of ids is decoded from its end -----------------------------------------------------------------------


class Decodes:
    """Counts what a tokenizer decodes."""

    def __init__(self, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lengths: list[int] = []
        native = type(tokenizer).decode

        def decode(this: Any, token_ids: Any, *args: Any, **kwargs: Any) -> Any:
            self.lengths.append(len(token_ids))
            return native(this, token_ids, *args, **kwargs)

        monkeypatch.setattr(type(tokenizer), "decode", decode)


LONG = "The weather in Lima is sunny. " * 13_000
ENDS = {
    "an anchor near the end": PROMPT,
    "text behind the anchor": PROMPT + "words, words, and more words. " * 20,
    "many anchors": "<|im_start|>assistant\nHi<|im_end|>\n" * 5 + PROMPT,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_a_long_prefix_is_decoded_only_as_far_back_as_needed(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    prefix = ids(tokenizer, LONG + end)
    assert len(prefix) > 100_000
    behind = len(ids(tokenizer, end))
    decodes = Decodes(tokenizer, monkeypatch)
    message = tokenizer.parse_response(ANSWER, prefix=prefix)
    assert sum(decodes.lengths) <= 8 * max(behind, 64)
    assert message == tokenizer.parse_response(ANSWER, prefix=LONG + end)


def test_a_long_prefix_without_an_anchor_is_decoded_whole(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = ids(tokenizer, LONG[:9_000])
    decodes = Decodes(tokenizer, monkeypatch)
    message = tokenizer.parse_response("", prefix=prefix)
    assert message["content"] == LONG[:9_000].strip()
    assert sum(decodes.lengths) <= 3 * len(prefix)


ANCHORS: dict[str, dict[str, Any]] = {
    "one literal": {"start_anchor": "<a>"},
    "one that overlaps itself": {"start_anchor": "aa"},
    "one that overlaps another": {"start_anchor": ["ab", "ba", "abab"]},
    "a pattern": {"start_anchor_pattern": "<a>|b+?a"},
    "a pattern that looks around": {"start_anchor_pattern": "(?<!b)a(?=b|$)"},
    "a pattern of any length": {"start_anchor_pattern": "a.*?b|bb"},
    "a pattern for the beginning": {"start_anchor_pattern": r"\Aab|<a>"},
    "a pattern outside the subset": {"start_anchor_pattern": r"([ab])\1"},
}


@pytest.mark.parametrize("make", [byte_level, byte_fallback], ids=["bytes", "byte fallback"])
@pytest.mark.parametrize("anchor", ANCHORS.values(), ids=ANCHORS.keys())
def test_the_end_of_a_prefix_gives_what_the_whole_gives(anchor: dict[str, Any], make: Any) -> None:
    tokenizer, chance = make(), random.Random(repr(anchor))
    template = {**anchor, "fields": ECHO["fields"]}
    pieces = ["a", "b", "ab", "ba", "<a>", "é", "東", "🦙", "word ", "some more text, ", " ", "\n"]
    for _ in range(60):
        weights = [chance.random() ** 4 for _ in pieces]
        text = "".join(chance.choices(pieces, weights, k=chance.randrange(1, 500)))
        encoded = ids(tokenizer, text)
        whole = tokenizer.decode(encoded, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        expected = tokenizer.parse_response("", template, prefix=whole)
        assert tokenizer.parse_response("", template, prefix=encoded) == expected


def test_where_matches_overlap_the_first_of_them_counts() -> None:
    tokenizer = byte_level()
    template = {"start_anchor": "aa", "fields": {"content": {}}}
    for length in range(190, 200):  # the last match in a window depends on where the window begins
        prefix = ids(tokenizer, "a" * length + "b")
        assert len(prefix) == length + 1
        expected = "ab" if length % 2 else "b"
        assert tokenizer.parse_response("", template, prefix=prefix) == {"content": expected}


def test_a_run_of_byte_tokens_is_not_cut() -> None:
    tokenizer = byte_fallback()
    template = {"start_anchor": "é", "fields": {"content": {}}}
    for tail in ("x", "xy", "xyz"):  # one of them makes the window begin with a whole character
        prefix = [0xFF, *("東" * 100 + "é").encode(), *ids(tokenizer, tail)]  # the byte tokens' ids are the bytes
        message = tokenizer.parse_response("", template, prefix=prefix)
        assert message == {"content": "\ufffd" * 303 + tail}  # the run is no UTF-8, because of its first byte


# --- processors ----------------------------------------------------------------------------------------------------


def test_a_processor_hands_on_to_its_tokenizer(tokenizer: Any) -> None:
    processor = TinyProcessor(tokenizer)
    assert processor.response_template == TEMPLATE
    assert processor.parse_response(ids(tokenizer, ANSWER), prefix=ids(tokenizer, PROMPT)) == MESSAGE
    parser = processor.get_response_parser(prefix=PROMPT)
    parser.feed(ANSWER)
    assert parser.finalize()[0] == MESSAGE
    processor.response_template = ECHO
    assert tokenizer.response_template == ECHO
    del processor.response_template
    assert tokenizer.response_template is None
    with pytest.raises(TemplateMissingError):
        processor.parse_response("x", prefix="")


def test_a_processor_without_a_tokenizer_has_no_template(tokenizer: Any) -> None:
    processor = TinyProcessor(tokenizer)
    processor.tokenizer = None
    assert getattr(processor, "response_template", "none") == "none"
    with pytest.raises(TemplateMissingError, match="no tokenizer"):
        processor.parse_response("x", prefix="")


# --- the way back --------------------------------------------------------------------------------------------------

KEYS = ["reasoning_content", "thinking", "reasoning", "thought"]


def reads(key: str) -> str:
    return "{% for m in messages %}[{{ m.role }}{% if m." + key + " %}:{{ m." + key + " }}{% endif %}]{% endfor %}"


@pytest.mark.parametrize("written", KEYS)
@pytest.mark.parametrize("read", KEYS)
@pytest.mark.parametrize("of", ["tokenizer", "processor"])
def test_the_chat_template_sees_the_reasoning_under_the_key_that_it_reads(of: str, read: str, written: str) -> None:
    owner: Any = byte_level(chat_template=reads(read))
    if of == "processor":
        owner = TinyProcessor(owner, chat_template=reads(read))
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho", written: "hm"}]
    before = copy.deepcopy(messages)
    assert owner.apply_chat_template(messages, tokenize=False) == "[user][assistant:hm]"
    assert messages == before


def test_batches_of_conversations_as_well() -> None:
    tokenizer = byte_level(chat_template=reads("thought"))
    chats = [[{"role": "assistant", "content": "", "reasoning_content": str(n)}] for n in range(2)]
    before = copy.deepcopy(chats)
    assert tokenizer.apply_chat_template(chats, tokenize=False) == ["[assistant:0]", "[assistant:1]"]
    assert chats == before


def test_a_key_that_the_message_has_is_left_alone() -> None:
    tokenizer = byte_level(chat_template=reads("thinking"))
    message = {"role": "assistant", "content": "", "reasoning_content": "one", "thinking": "two"}
    assert tokenizer.apply_chat_template([message], tokenize=False) == "[assistant:two]"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "[assistant:hm]"),
        ({"chat_template": "tool_use"}, "T[assistant:hm]"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "T[assistant:hm]"),
        ({"chat_template": "G" + reads("reasoning")}, "G[assistant:hm]"),
    ],
    ids=["default", "by name", "tools", "a source"],
)
def test_the_chat_template_is_the_one_that_this_call_renders(arguments: dict[str, Any], expected: str) -> None:
    named = {"default": reads("thinking"), "tool_use": "T" + reads("thought")}
    tokenizer = byte_level(chat_template=named)
    messages = [{"role": "assistant", "content": "", "reasoning_content": "hm"}]
    assert tokenizer.apply_chat_template(messages, tokenize=False, **arguments) == expected


def test_nothing_is_added_for_a_key_that_the_source_does_not_name() -> None:
    source = "{% for m in messages %}{{ m.keys() | list | join(',') }}{% endfor %}"
    tokenizer = byte_level(chat_template=source)
    messages = [{"role": "assistant", "content": "", "reasoning_content": "hm"}]
    seen = tokenizer.apply_chat_template(messages, tokenize=False)
    assert "thought" not in seen
    assert "reasoning" not in seen.split(",")


@pytest.mark.parametrize("of", ["tokenizer", "processor"])
def test_no_chat_template_is_the_native_error(of: str) -> None:
    owner: Any = byte_level() if of == "tokenizer" else TinyProcessor(byte_level())
    with pytest.raises(ValueError, match=r"chat.template"):
        owner.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)


def test_wrong_arguments_are_the_native_error(tokenizer: Any) -> None:
    with pytest.raises(TypeError):
        tokenizer.apply_chat_template()
    with pytest.raises(TypeError):
        tokenizer.apply_chat_template([], conversation=[])


def test_a_message_goes_back_into_the_chat(tokenizer: Any) -> None:
    chat = [{"role": "user", "content": "How is Lima?"}]
    prompt = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    chat.append(tokenizer.parse_response("<think>" + ANSWER, prefix=prompt))
    assert tokenizer.apply_chat_template(chat, tokenize=False) == prompt + "<think>" + ANSWER + "\n"
