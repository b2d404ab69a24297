"""Parsing from ids with the families' real tokenizers gives what parsing the text gives, in every kind of ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import materials
from response_templates import get_template, parse_response

transformers = pytest.importorskip("transformers")
numpy = pytest.importorskip("numpy")

# Family of canitoolcall, template, tokenizer, prompt.
FAMILIES = {
    "qwen3-hermes": ("qwen3", "tokenizer-qwen3", "<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n"),
    "qwen3-xml": ("qwen3-coder", "tokenizer-qwen3", "<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n"),
    "gpt-oss": ("gpt-oss", "tokenizer-gptoss", "<|start|>user<|message|>Hi.<|end|><|start|>assistant"),
}
COHERE = (
    "I will look.<|START_ACTION|>[\n    "
    '{"tool_call_id": "0", "tool_name": "s", "parameters": {"q": "é 🚀"}}\n]<|END_ACTION|><|END_OF_TURN_TOKEN|>'
)


@pytest.fixture(autouse=True)
def plugin() -> Iterator[None]:
    from response_templates import install, uninstall

    install()
    yield
    uninstall()


def real_tokenizer(material: str, template: str) -> Any:
    path = materials.folder(material) / "tokenizer.json"
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path))
    tokenizer.response_template = get_template(template).template.to_dict()
    return tokenizer


def same_ids(ids: list[int]) -> list[int]:
    return ids


def as_tensor(ids: list[int]) -> Any:
    return pytest.importorskip("torch").tensor(ids)


KINDS: dict[str, Callable[[list[int]], Any]] = {"list": same_ids, "numpy": numpy.array, "torch": as_tensor}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_ids_parse_as_their_text(family: str, kind: str) -> None:
    template, material, prompt = FAMILIES[family]
    tokenizer = real_tokenizer(material, template)
    make = KINDS[kind]
    prefix = make(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    compared = 0
    for fixture in materials.fixtures(family):
        text = fixture["raw_output"]
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        if not ids or tokenizer.decode(ids, clean_up_tokenization_spaces=False) != text:
            continue  # this vocabulary can't write the text
        wanted = parse_response(text, tokenizer.response_template, prefix=prompt, errors="recover")
        assert tokenizer.parse_response(make(ids), prefix=prefix, errors="recover") == wanted, fixture["id"]
        compared += 1
    assert compared >= 45


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_with_padding(family: str) -> None:
    template, material, prompt = FAMILIES[family]
    tokenizer = real_tokenizer(material, template)
    tokenizer.pad_token = "<|endoftext|>"
    texts = [fixture["raw_output"] for fixture in materials.fixtures(family)][:16]
    rows = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    width = max(map(len, rows))
    padded = numpy.array([row + [tokenizer.pad_token_id] * (width - len(row)) for row in rows])
    begin = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    prefixes = numpy.array([[tokenizer.pad_token_id] * 3 + begin] * len(rows))
    wanted = parse_response(texts, tokenizer.response_template, prefix=prompt, errors="recover")
    assert tokenizer.parse_response(padded, prefix=prefixes, errors="recover") == wanted


def test_cohere() -> None:
    tokenizer = real_tokenizer("tokenizer-command_r_plus", "cohere-command-a")
    ids = tokenizer(COHERE, add_special_tokens=False)["input_ids"]
    message = tokenizer.parse_response(ids, prefix="<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>")
    call = {"id": "0", "type": "function", "function": {"name": "s", "arguments": {"q": "é 🚀"}}}
    assert message == {"role": "assistant", "content": "I will look.", "tool_calls": [call]}
