"""Parsers that are fed with ids: every kind of ids, wrong ones, threads; and control tokens told from text."""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import real_tokenizers
from plugin_helpers import byte_fallback, byte_level, letter_level
from real_tokenizers import FAMILIES, Family, decoded, generations, ids_of, real_tokenizer
from response_templates import (
    InputTypeError,
    ParserFinalizedError,
    ResponseParser,
    TemplateError,
    load_template,
    parse_response,
)
from response_templates.decoding import vocabulary_of
from response_templates.id_parser import MarkedStream, control_ids_of
from test_decoding import DECODERS, SentencePieceLike, words
from test_properties import merged

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
numpy = pytest.importorskip("numpy")

TEMPLATE = {
    "start_anchor": "<|im_start|>assistant\n",
    "defaults": {"role": "assistant"},
    "fields": {
        "reasoning_content": {"open": "<think>", "close": "</think>"},
        "content": {"close": "<|im_end|>"},
        "tool_calls": {
            "open": "<tool_call>",
            "close": "</tool_call>",
            "content": "json",
            "repeats": True,
            "transform": {"type": "function", "function": "{content}"},
        },
    },
}


TEMPLATE_MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>")


@pytest.fixture(autouse=True)
def plugin() -> Iterator[None]:
    from response_templates import install, uninstall

    install()
    yield
    uninstall()


def parser_of(tokenizer: Any, template: Any = TEMPLATE, prefix: Any = "", **options: Any) -> ResponseParser:
    parser: ResponseParser = tokenizer.get_response_parser(template, prefix=prefix, **options)
    return parser


def run(parser: Any, chunks: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    events = list(parser.initial_events)
    for chunk in chunks:
        events += parser.feed(chunk)
    message, last = parser.finalize()
    return message, merged(events + last)


TEXT = (
    "<think>\nÄ 🚀 汉字\n</think>\n\nHéllo <b>.\n"
    '<tool_call>\n{"name": "f", "arguments": {"q": "é🚀"}}\n</tool_call><|im_end|>'
)


# --- kinds -----------------------------------------------------------------------------------------------------------


def as_tensor(ids: list[int]) -> Any:
    return pytest.importorskip("torch").tensor(ids)


def in_threes(ids: list[int], make: Callable[[list[int]], Any]) -> Iterator[Any]:
    for begin in range(0, len(ids), 3):
        yield make(ids[begin : begin + 3])


KINDS: dict[str, Callable[[list[int]], Any]] = {
    "one by one": iter,
    "numpy scalars": lambda ids: iter(numpy.array(ids)),
    "0-d tensors": lambda ids: iter(as_tensor(ids)),
    "lists": lambda ids: in_threes(ids, list),
    "tuples": lambda ids: in_threes(ids, tuple),
    "arrays": lambda ids: in_threes(ids, lambda part: numpy.array(part, dtype=numpy.uint32)),
    "tensors": lambda ids: in_threes(ids, as_tensor),
    "lists of 0-d tensors": lambda ids: in_threes(ids, lambda part: list(as_tensor(part))),
    "all at once": lambda ids: [ids],
    "with empty ones": lambda ids: [[], *ids, ""],
}


@pytest.mark.parametrize("token_delimiters", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_ids_parses_as_the_text(kind: str, token_delimiters: bool) -> None:
    tokenizer = real_tokenizer("qwen3")
    wanted = run(ResponseParser(TEMPLATE, ""), [TEXT])
    chunks = KINDS[kind](ids_of(tokenizer, TEXT))
    assert run(parser_of(tokenizer, token_delimiters=token_delimiters), chunks) == wanted


@pytest.mark.parametrize("name", real_tokenizers.TOKENIZERS)
def test_random_ids_parse_as_their_text(name: str) -> None:
    tokenizer = real_tokenizer(name)
    draw = random.Random(name)
    size = len(tokenizer)
    markers = [
        each for part in ("<think>", "</think>", "<tool_call>", "</tool_call>") for each in ids_of(tokenizer, part)
    ]
    for _ in range(300):
        ids = [draw.choice(markers) if draw.random() < 0.3 else draw.randrange(size) for _ in range(draw.randrange(40))]
        wanted = run(ResponseParser(TEMPLATE, "", errors="recover"), [decoded(tokenizer, ids)])
        assert run(parser_of(tokenizer, errors="recover"), ids) == wanted, ids


def test_a_character_in_several_tokens_comes_out_whole() -> None:
    tokenizer = real_tokenizer("qwen3")
    ids = ids_of(tokenizer, "𐐷")  # a letter that no token has
    assert len(ids) > 1
    parser = parser_of(tokenizer)
    assert [parser.feed(each) for each in ids[:-1]] == [[]] * (len(ids) - 1)
    assert [event.get("text") for event in parser.feed(ids[-1])] == [None, "𐐷"]


@pytest.mark.parametrize("kind", ["at the end", "before text"])
def test_an_incomplete_character_becomes_a_replacement(kind: str) -> None:
    tokenizer = real_tokenizer("qwen3")
    first = ids_of(tokenizer, "𐐷")[0]
    rest = ["!"] if kind == "before text" else []
    assert run(parser_of(tokenizer), [first, *rest])[0]["content"] == "\ufffd" + "".join(rest)


def test_special_tokens_are_never_skipped() -> None:
    tokenizer = real_tokenizer("llama3_1")
    assert run(parser_of(tokenizer), ids_of(tokenizer, "a<|eot_id|>b"))[0]["content"] == "a<|eot_id|>b"


def test_text_and_ids_in_one_stream() -> None:
    tokenizer = real_tokenizer("qwen3")
    chunks = ["<think>", *ids_of(tokenizer, "One."), "</thi", "nk>", ids_of(tokenizer, "Two."), "<|im_end|>"]
    message = run(parser_of(tokenizer), chunks)[0]
    assert message == {"role": "assistant", "reasoning_content": "One.", "content": "Two."}


# --- wrong input -----------------------------------------------------------------------------------------------------

WRONG = {
    "beyond the vocabulary": 10**9,
    "just beyond it": 151_669,
    "beyond 64 bits": 10**30,
    "negative": -1,
    "one in a list": [1, 2, 151_669],
    "negative in an array": numpy.array([1, -1]),
    "a float": 1.0,
    "floats": [1.0],
    "an array of floats": numpy.array([1.0]),
    "a bool": True,
    "bools": [True],
    "an array of bools": numpy.array([True]),
    "nothing": None,
    "a batch": [[1, 2]],
    "a 2-d array": numpy.array([[1, 2]]),
    "bytes": b"abc",
    "texts": ["a", "b"],
    "a dict": {"input_ids": [1]},
    "a generator": (each for each in [1]),
}


@pytest.mark.parametrize("token_delimiters", [False, True])
@pytest.mark.parametrize("kind", WRONG)
def test_wrong_ids_raise_and_the_stream_goes_on(kind: str, token_delimiters: bool) -> None:
    tokenizer = real_tokenizer("qwen3")
    parser = parser_of(tokenizer, token_delimiters=token_delimiters)
    begin, end = ids_of(tokenizer, "Hello"), ids_of(tokenizer, " there")
    parser.feed(begin)
    with pytest.raises(InputTypeError):
        parser.feed(WRONG[kind])
    parser.feed(end)
    assert parser.finalize()[0]["content"] == "Hello there"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "complex64"])
def test_a_tensor_that_is_no_ids(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(InputTypeError, match="token id"):
        parser_of(real_tokenizer("qwen3")).feed(torch.ones(3, dtype=getattr(torch, dtype)))


def test_the_error_names_the_id_and_its_place() -> None:
    with pytest.raises(InputTypeError, match=r"ids\[2\] is 151669, which is not in the vocabulary"):
        parser_of(real_tokenizer("qwen3")).feed([1, 2, 151_669])
    with pytest.raises(InputTypeError, match=r"ids\[0\] is \[1\].*nested too deep"):
        parser_of(real_tokenizer("qwen3")).feed([[1]])


@pytest.mark.parametrize("chunk", [1, [1], "a", []], ids=repr)
def test_nothing_is_taken_after_the_end(chunk: Any) -> None:
    parser = parser_of(real_tokenizer("qwen3"))
    parser.feed(1)
    parser.finalize()
    with pytest.raises(ParserFinalizedError):
        parser.feed(chunk)
    with pytest.raises(ParserFinalizedError):
        parser.finalize()


# --- many streams ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token_delimiters", [False, True])
def test_a_thousand_streams_from_threads_do_not_mix(token_delimiters: bool) -> None:
    family = FAMILIES[0]
    tokenizer = real_tokenizer(family.tokenizer)
    template = family.dressed()
    drawn = list(generations(family, 100, seed=3))
    wanted = [
        tokenizer.parse_response(ids, template, prefix="", errors="recover", token_delimiters=token_delimiters)
        for ids, _ in drawn
    ]
    at_once = threading.Barrier(8)

    def many(worker: int) -> list[int]:
        at_once.wait(timeout=60)
        numbers = [number % len(drawn) for number in range(worker, 1_000, 8)]
        parsers = [parser_of(tokenizer, template, errors="recover", token_delimiters=token_delimiters) for _ in numbers]
        for place in range(max(len(ids) for ids, _ in drawn)):
            for number, parser in zip(numbers, parsers, strict=True):
                if place < len(drawn[number][0]):
                    parser.feed(drawn[number][0][place])
        return [
            number for number, parser in zip(numbers, parsers, strict=True) if parser.finalize()[0] != wanted[number]
        ]

    with ThreadPoolExecutor(8) as pool:
        assert [wrong for found in pool.map(many, range(8)) for wrong in found] == []


# --- control tokens told from text -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [150, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.template)
def test_delimiters_spelled_in_strings_are_text(family: Family, count: int) -> None:
    tokenizer, template = real_tokenizer(family.tokenizer), family.dressed()
    prompt = ids_of(tokenizer, family.prompt)
    fooled = 0
    for ids, message in generations(family, count, seed=1):
        assert tokenizer.parse_response(ids, template, prefix=prompt, token_delimiters=True) == message, ids
        streamed = run(parser_of(tokenizer, template, prompt, token_delimiters=True), ids)[0]
        assert streamed == message, ids
        text = decoded(tokenizer, ids)
        fooled += parse_response(text, template, prefix=family.prompt, errors="recover") != message
    assert fooled > count / 2  # read as text, most of them are something else


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.template)
def test_splits_and_kinds_make_no_difference(family: Family) -> None:
    tokenizer, template = real_tokenizer(family.tokenizer), family.dressed()
    for ids, _ in generations(family, 30, seed=2):
        wanted = run(parser_of(tokenizer, template, token_delimiters=True, errors="recover"), [ids])
        for chunks in (ids, in_threes(ids, numpy.array)):
            assert run(parser_of(tokenizer, template, token_delimiters=True, errors="recover"), chunks) == wanted


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.template)
def test_control_tokens_alone_parse_as_their_text(family: Family) -> None:
    """Where nothing is spelled, telling tokens from text changes nothing, whatever the order of the tokens."""
    tokenizer, template = real_tokenizer(family.tokenizer), family.dressed()
    draw = random.Random(4)
    numbers = [tokenizer.convert_tokens_to_ids(text) for text in family.spelled]
    words = [each for word in real_tokenizers.WORDS + real_tokenizers.FRAGMENTS for each in ids_of(tokenizer, word)]
    compared = 0
    for _ in range(400):
        ids = [draw.choice(numbers if draw.random() < 0.5 else words) for _ in range(draw.randrange(25))]
        text = decoded(tokenizer, ids)
        if sum(map(text.count, family.spelled)) > sum(map(ids.count, numbers)):
            continue  # a word and its neighbour spell a token
        wanted = run(ResponseParser(template, "", errors="recover"), [text])
        assert run(parser_of(tokenizer, template, token_delimiters=True, errors="recover"), ids) == wanted, text
        compared += 1
    assert compared > 300


def test_a_delimiter_of_ordinary_tokens_still_works() -> None:
    tokenizer = real_tokenizer("llama3_1")  # it has no `<tool_call>`
    call = json.dumps({"name": "f", "arguments": {}})
    ids = ids_of(tokenizer, f"Hi.<tool_call>{call}</tool_call>")
    message = tokenizer.parse_response(ids, TEMPLATE, prefix="", token_delimiters=True)
    assert message["tool_calls"] == [{"type": "function", "function": {"name": "f", "arguments": {}}}]
    assert message["content"] == "Hi."


@pytest.mark.parametrize("kind", ["new", "was ordinary"])
def test_a_token_that_is_added_later_is_a_control_token(kind: str) -> None:
    """Looked at anew for each parser, though what was found is kept."""
    vocabulary = {"<": 0, "think": 1, ">": 2, "a": 3, **({"<think>": 4} if kind == "was ordinary" else {})}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="a"))
    backend.decoder = tokenizers.decoders.Fuse()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    spelled = [0, 1, 2, 3]
    assert run(parser_of(tokenizer, token_delimiters=True), spelled)[0]["reasoning_content"] == "a"
    tokenizer.add_tokens(["<think>"], special_tokens=True)
    assert tokenizer.convert_tokens_to_ids("<think>") == 4
    assert run(parser_of(tokenizer, token_delimiters=True), spelled)[0]["content"] == "<think>a"
    assert run(parser_of(tokenizer, token_delimiters=True), [4, 3])[0]["reasoning_content"] == "a"


def byt5(folder: Path) -> Any:
    """Written in Python; its tokens are bytes, and what is no UTF-8 decodes to nothing, so that ids are held."""
    return transformers.ByT5Tokenizer()


def stripping(folder: Path) -> Any:
    letter_level(folder)
    return SentencePieceLike(str(folder / "letters.json"))


ODD: dict[str, Callable[[Path], Any]] = {
    "byte level": lambda folder: byte_level(),
    "byte fallback": lambda folder: byte_fallback(),
    "slow bytes": byt5,
    "slow, strips": stripping,
    "llama": lambda folder: words(DECODERS["llama"]),
    "word pieces": lambda folder: words(DECODERS["wordpiece"]),
    "another decoder": lambda folder: words(DECODERS["a pattern behind all"]),
}


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("kind", ODD)
def test_control_tokens_amid_incomplete_characters(kind: str, aligned: bool, tmp_path: Path) -> None:
    """Whatever is pending when a control token comes, it is marked, it alone, and the text is what decoding gives."""
    tokenizer = ODD[kind](tmp_path)
    tokenizer.add_tokens([tokenizers.AddedToken(each, special=True, normalized=False) for each in TEMPLATE_MARKERS])
    found = control_ids_of(tokenizer, load_template(TEMPLATE))
    texts = {each: text for each, text in found.texts.items() if text in decoded(tokenizer, [each])}
    assert len(texts) >= 2  # one of them decodes "_" to a space
    everything = [each for each in range(len(tokenizer)) if vocabulary_of(tokenizer).knows(each)]
    pending = [each for each in everything if not decoded(tokenizer, [each]).strip("\ufffd")] or everything
    draw = random.Random(kind)
    for _ in range(150):
        ids: list[int] = []
        for _ in range(draw.randrange(8)):
            count = draw.choice((1, 1, 2, 3, 9, 20))
            ids += draw.choice(([draw.choice(list(texts))], draw.choices(pending, k=count), [draw.choice(everything)]))
        ids = [each for each in ids if each in texts or each not in found.texts]
        vocabulary = vocabulary_of(tokenizer)
        stream: Any = vocabulary.aligned_stream() if aligned else vocabulary.stream()
        marked = MarkedStream(stream, found)
        text = "".join(map(marked.step, ids)) + marked.flush()
        assert found.controls.unmark(text) == decoded(tokenizer, ids), ids
        emitted = "".join(found.controls.marked[texts[each]] for each in ids if each in texts)
        assert "".join(re.findall("[\ud800-\udfff]+", text)) == emitted, ids


def test_bytes_behind_the_special_tokens_are_known() -> None:
    """ByT5 says that it has 256 tokens, but the bytes begin at 3."""
    tokenizer = transformers.ByT5Tokenizer()
    parser = parser_of(tokenizer)
    assert run(parser, [tokenizer.convert_tokens_to_ids("a"), 258])[0]["content"] == "a"
    with pytest.raises(InputTypeError, match="not in the vocabulary"):
        parser_of(tokenizer).feed(len(tokenizer))


def test_text_holds_no_control_tokens() -> None:
    tokenizer = real_tokenizer("qwen3")
    parser = parser_of(tokenizer, token_delimiters=True)
    message, _ = run(parser, [*ids_of(tokenizer, "<think>a"), "</think>", *ids_of(tokenizer, "b</think>c")])
    assert message == {"role": "assistant", "reasoning_content": "a</think>b", "content": "c"}


@pytest.mark.parametrize("kind", ["text", "ids"])
def test_a_prefix_holds_control_tokens(kind: str) -> None:
    tokenizer = real_tokenizer("qwen3")
    prompt = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n"
    prefix = prompt if kind == "text" else ids_of(tokenizer, prompt)
    parser = parser_of(tokenizer, prefix=prefix, token_delimiters=True)
    assert [event["type"] for event in parser.initial_events][:1] == ["region_open"]
    assert run(parser, ids_of(tokenizer, "a</think>b"))[0]["reasoning_content"] == "a"


def test_a_prefix_of_ids_that_only_spells_a_delimiter() -> None:
    tokenizer = real_tokenizer("qwen3")
    spelled = ids_of(tokenizer, "<") + ids_of(tokenizer, "think>")
    prefix = ids_of(tokenizer, "<|im_start|>assistant\n") + spelled
    message, _ = run(parser_of(tokenizer, prefix=prefix, token_delimiters=True), ids_of(tokenizer, "a"))
    assert message == {"role": "assistant", "content": "<think>a"}


def test_malformed_text_is_the_real_text() -> None:
    tokenizer = real_tokenizer("qwen3")
    text = "<tool_call>{<think>}</tool_call><|im_end|>"
    message = tokenizer.parse_response(
        ids_of(tokenizer, text), TEMPLATE, prefix="", token_delimiters=True, errors="recover"
    )
    assert [entry["text"] for entry in message["malformed"]] == ["<tool_call>{<think>}</tool_call>"]


def test_groups_are_the_real_text() -> None:
    tokenizer = real_tokenizer("qwen3")
    template = {
        "start_anchor": "x",
        "fields": {
            "note": {
                "open_pattern": "<think>(?P<name>[^:]*):",
                "close_pattern": "(?P<end></think>|;)",
                "transform": {"name": "{name}", "end": "{end}", "text": "{content}"},
            }
        },
    }
    ids = ids_of(tokenizer, "<think>a<tool_call>b:c") + ids_of(tokenizer, "</think>")
    parser = parser_of(tokenizer, template, token_delimiters=True, groups=True)
    message, events = run(parser, ids)
    assert message == {"note": {"name": "a<tool_call>b", "end": "</think>", "text": "c"}}
    assert events[0]["groups"] == {"name": "a<tool_call>b"}


def test_only_ids_can_be_told() -> None:
    tokenizer = real_tokenizer("qwen3")
    with pytest.raises(InputTypeError, match="needs the ids"):
        tokenizer.parse_response("text", TEMPLATE, prefix="", token_delimiters=True)
    with pytest.raises(InputTypeError, match="lone surrogate"):
        parser_of(tokenizer, prefix="\ud800", token_delimiters=True)
    with pytest.raises(InputTypeError, match="lone surrogate"):
        parser_of(tokenizer, token_delimiters=True).feed("a\udfff")


def test_a_pattern_that_cannot_be_followed_is_refused() -> None:
    template = {"start_anchor": "x", "fields": {"a": {"open_pattern": r"(?P<n><think>)(?P=n)", "transform": "{n}"}}}
    with pytest.raises(TemplateError, match="token_delimiters"):
        parser_of(real_tokenizer("qwen3"), template, token_delimiters=True)


def test_a_batch_of_ids() -> None:
    family = FAMILIES[0]
    tokenizer, template = real_tokenizer(family.tokenizer), family.dressed()
    drawn = list(generations(family, 8, seed=5))
    messages = tokenizer.parse_response(
        [ids for ids, _ in drawn], template, prefix=family.prompt, token_delimiters=True
    )
    assert messages == [message for _, message in drawn]
