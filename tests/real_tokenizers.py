"""The families' real tokenizers, and messages as their ids: control tokens as such, all else in ordinary tokens.

`generations` draws messages whose strings are full of the family's own delimiters, spelled with ordinary tokens.
"""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

import materials
from response_templates import get_template

TOKENIZERS = ("qwen3", "gptoss", "command_r_plus", "llama3_1", "deepseek_v3", "gemma3")


@functools.lru_cache(maxsize=len(TOKENIZERS))
def real_tokenizer(name: str) -> Any:
    """One of `TOKENIZERS`; shared, so nothing may be set on it."""
    transformers = pytest.importorskip("transformers")
    path = materials.folder(f"tokenizer-{name}") / "tokenizer.json"
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(path))


def ids_of(tokenizer: Any, text: str) -> list[int]:
    """`text` as the tokenizer encodes it: what spells a control token is that token."""
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def decoded(tokenizer: Any, ids: list[int]) -> str:
    options = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
    if not tokenizer.is_fast:  # before transformers 5, slow tokenizers put spaces around special tokens by default
        options["spaces_between_special_tokens"] = False
    text: str = tokenizer.decode(ids, **options)
    return text


# --- one message -----------------------------------------------------------------------------------------------------

Control = tuple[str]  # the text of a control token, as against text
Part = str | Control


@dataclass(frozen=True)
class Family:
    """A format: `template` and `tokenizer` by name, how a message is written, and what to spell in its strings."""

    template: str
    tokenizer: str
    prompt: str
    write: Callable[[str, str, list[dict[str, Any]]], list[Part]]
    spelled: tuple[str, ...]  # delimiters that are control tokens
    in_strings: tuple[str, ...] = ()  # others, which are text only inside the strings of a call
    reasons: bool = True

    def dressed(self) -> dict[str, Any]:
        return get_template(self.template).template.to_dict()


def _qwen3(reasoning: str, content: str, calls: list[dict[str, Any]]) -> list[Part]:
    parts: list[Part] = [("<think>",), f"\n{reasoning}\n", ("</think>",), f"\n\n{content}"]
    for call in calls:
        parts += ["\n", ("<tool_call>",), f"\n{json.dumps(call, ensure_ascii=False)}\n", ("</tool_call>",)]
    return [*parts, ("<|im_end|>",)]


def _gpt_oss(reasoning: str, content: str, calls: list[dict[str, Any]]) -> list[Part]:
    header: list[Part] = [("<|end|>",), ("<|start|>",), "assistant", ("<|channel|>",)]
    parts: list[Part] = [("<|channel|>",), "analysis", ("<|message|>",), reasoning, *header]
    parts += ["commentary" if calls else "final", ("<|message|>",), content]
    for number, call in enumerate(calls):
        body = json.dumps(call["arguments"], ensure_ascii=False)
        target = f"commentary to=functions.{call['name']} "
        lead = header if not number else [("<|call|>",), *header[1:]]
        parts += [*lead, target, ("<|constrain|>",), "json", ("<|message|>",), body]
    return [*parts, ("<|call|>",) if calls else ("<|return|>",)]


def _command_r(reasoning: str, content: str, calls: list[dict[str, Any]]) -> list[Part]:
    body = [{"tool_name": call["name"], "parameters": call["arguments"]} for call in calls]
    text = f"{content}\nAction: ```json\n{json.dumps(body, indent=4, ensure_ascii=False)}\n```" if calls else content
    return [text, ("<|END_OF_TURN_TOKEN|>",)]


FAMILIES = (
    Family(
        "qwen3",
        "qwen3",
        "<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n",
        _qwen3,
        ("<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_end|>", "<|endoftext|>"),
    ),
    Family(
        "gpt-oss",
        "gptoss",
        "<|start|>user<|message|>Hi.<|end|><|start|>assistant",
        _gpt_oss,
        ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"),
    ),
    Family(
        "cohere-command-r",
        "command_r_plus",
        "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hi.<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
        _command_r,
        ("<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"),
        ("```", "Action: ```json\n[", "\n```"),
        reasons=False,
    ),
)


def spell(tokenizer: Any, text: str, spelled: tuple[str, ...], draw: random.Random) -> list[int]:
    """`text` in ordinary tokens only: cut inside each of `spelled`, and at a few places more."""
    cuts = {0, len(text)} | {draw.randrange(len(text) + 1) for _ in range(draw.randrange(3))}
    for found in re.finditer("|".join(map(re.escape, sorted(spelled, key=len, reverse=True))), text):
        cuts.add(draw.randrange(found.start() + 1, found.end()))
    places = sorted(cuts)
    return [each for begin, end in pairwise(places) for each in ids_of(tokenizer, text[begin:end])]


WORDS = (
    "a",
    "the page says",
    " ",
    "\n",
    "\n\n",
    "é",
    "🚀",
    '"',
    "'",
    "`",
    "\\",
    "{",
    "}]",
    "<",
    "|>",
    "json",
    "assistant",
)
FRAGMENTS = (
    '{"name": "rm", "arguments": {"path": "/"}}',
    "to=functions.rm ",
    "analysis",
    "final",
    '[{"tool_name": "rm", "parameters": {}}]',
)


def noise(draw: random.Random, spelled: tuple[str, ...]) -> str:
    """Text of which about half is delimiters."""
    return "".join(
        draw.choice(spelled if draw.random() < 0.5 else draw.choice((WORDS, WORDS, FRAGMENTS)))
        for _ in range(draw.randrange(1, 10))
    )


def generations(family: Family, count: int, seed: int) -> Iterator[tuple[list[int], dict[str, Any]]]:
    """Messages as ids, and what they are."""
    tokenizer = real_tokenizer(family.tokenizer)
    draw = random.Random(f"{family.template} {seed}")
    numbers = {text: tokenizer.convert_tokens_to_ids(text) for text in family.spelled}
    for _ in range(count):
        reasoning, content = (noise(draw, family.spelled) for _ in range(2))
        texts = family.spelled + family.in_strings
        calls = [
            {
                "name": draw.choice(("rm", "get_weather")),
                "arguments": {"q": noise(draw, texts), "n": [noise(draw, texts)]},
            }
            for _ in range(draw.choice((0, 0, 1, 1, 2)))
        ]
        ids: list[int] = []
        for part in family.write(reasoning, content, calls):
            ids += [numbers[part[0]]] if isinstance(part, tuple) else spell(tokenizer, part, family.spelled, draw)
        message: dict[str, Any] = {"role": "assistant", "reasoning_content": reasoning if family.reasons else ""}
        message |= {"content": content, "tool_calls": [{"type": "function", "function": call} for call in calls]}
        trimmed = {key: value.strip() if isinstance(value, str) else value for key, value in message.items()}
        yield ids, {key: value for key, value in trimmed.items() if value}
