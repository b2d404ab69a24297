"""Masks over ids: as long as the ids, and 1 where the model wrote the field."""

from __future__ import annotations

from typing import Any

import pytest

from plugin_helpers import TEMPLATE, TinyProcessor, byte_level
from real_tokenizers import FAMILIES, Family, decoded, generations, ids_of, real_tokenizer
from response_templates import InputTypeError, PrefixRequiredError, TemplateMissingError, token_masks

numpy = pytest.importorskip("numpy")

PARTS = ["<think>", "Why?", "</think>", "Yes.", "<tool_call>", '{"name": "f"}', "</tool_call>", "<|im_end|>"]
FIELDS = ["reasoning_content"] * 3 + ["content"] + ["tool_calls"] * 3 + ["content"]


def made() -> tuple[Any, list[list[int]]]:
    tokenizer = byte_level()
    tokenizer.response_template = TEMPLATE
    return tokenizer, [ids_of(tokenizer, part) for part in PARTS]


def wanted(rows: list[list[int]], *, delimiters: bool = True) -> dict[str, list[int]]:
    special = [len(row) == 1 for row in rows]
    return {
        field: [
            int(field == owner and (delimiters or not each))
            for row, owner, each in zip(rows, FIELDS, special, strict=True)
            for _ in row
        ]
        for field in dict.fromkeys(FIELDS)
    }


@pytest.mark.parametrize("token_delimiters", [False, True])
@pytest.mark.parametrize("delimiters", [False, True])
def test_each_token_is_in_the_mask_of_its_field(delimiters: bool, token_delimiters: bool) -> None:
    tokenizer, rows = made()
    ids = [each for row in rows for each in row]
    masks = token_masks(tokenizer, ids, prefix="", delimiters=delimiters, token_delimiters=token_delimiters)
    assert masks == wanted(rows, delimiters=delimiters)


@pytest.mark.parametrize("kind", ["lists", "array"])
def test_a_batch_with_padding(kind: str) -> None:
    tokenizer, rows = made()
    ids = [each for row in rows for each in row]
    pad = tokenizer.pad_token_id
    batch: Any = [ids + [pad] * 2, [*rows[3], *rows[7]] + [pad] * (len(ids) + 2 - len(rows[3]) - 1)]
    masks: Any = token_masks(tokenizer, numpy.array(batch) if kind == "array" else batch, prefix="")
    assert masks[0] == {field: [*mask, 0, 0] for field, mask in wanted(rows).items()}
    assert sum(masks[1]["content"]) == len(rows[3]) + 1
    assert {len(mask) for row in masks for mask in row.values()} == {len(ids) + 2}


def test_the_prefix_is_in_no_mask() -> None:
    tokenizer, rows = made()
    masks: Any = token_masks(tokenizer, rows[1] + rows[2], prefix="<|im_start|>assistant\n<think>\n")
    assert masks == {
        "reasoning_content": [1] * (len(rows[1]) + 1),
        "content": [0] * (len(rows[1]) + 1),
        "tool_calls": [0] * (len(rows[1]) + 1),
    }


def test_malformed_calls_are_in_the_mask_of_their_field() -> None:
    tokenizer, rows = made()
    ids = rows[4] + ids_of(tokenizer, "{") + rows[6]
    masks: Any = token_masks(tokenizer, ids, prefix="")
    assert masks["tool_calls"] == [1] * len(ids)


def test_a_token_over_a_border_is_in_two_masks() -> None:
    tokenizer = real_tokenizer("qwen3")
    template = {"start_anchor": "@", "fields": {"a": {"open": "#", "close": "."}, "b": {}}}
    [dots] = ids_of(tokenizer, "...")
    masks: Any = token_masks(tokenizer, [*ids_of(tokenizer, "#x"), dots], prefix="", response_template=template)
    assert (masks["a"][-1], masks["b"][-1]) == (1, 1)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.template)
def test_real_messages(family: Family) -> None:
    tokenizer = real_tokenizer(family.tokenizer)
    for ids, message in generations(family, 50, seed=9):
        masks: Any = token_masks(
            tokenizer,
            ids,
            prefix="",
            response_template=family.dressed(),
            token_delimiters=True,
            delimiters=False,
        )
        for field in ("reasoning_content", "content") if family.reasons else ("content",):
            written = decoded(tokenizer, [each for each, bit in zip(ids, masks[field], strict=True) if bit])
            assert written.strip() == message.get(field, ""), field
        assert ("tool_calls" in message) == any(masks["tool_calls"])


def test_a_processor() -> None:
    tokenizer, rows = made()
    assert token_masks(TinyProcessor(tokenizer), rows[1], prefix="", response_template=TEMPLATE) == token_masks(
        tokenizer, rows[1], prefix=""
    )


def test_wrong_input() -> None:
    tokenizer, rows = made()
    with pytest.raises(InputTypeError, match="masks are for token ids"):
        token_masks(tokenizer, "text", prefix="")
    with pytest.raises(InputTypeError, match="vocabulary"):
        token_masks(tokenizer, [10**6], prefix="")
    with pytest.raises(InputTypeError, match="2 prefixes"):
        token_masks(tokenizer, rows[1], prefix=["", ""])
    with pytest.raises(PrefixRequiredError):
        token_masks(tokenizer, rows[1])
    with pytest.raises(TemplateMissingError):
        token_masks(byte_level(), rows[1], prefix="")
