"""Generations without a model, and with the small model that lives in the repository."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "demo" / "model"
PROMPT = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


def ids_of(tokenizer: Any, text: str) -> list[int]:
    """The ids of a text, nothing added."""
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids


def call_text(name: str, **arguments: Any) -> str:
    """A call as `plugin_helpers.TEMPLATE` reads it."""
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>{body}</tool_call>"


def padded(rows: Sequence[Sequence[int]], fill: int) -> list[list[int]]:
    """Rows of one length, as a batch's are when all of them are finished."""
    length = max(map(len, rows))
    return [[*row, *[fill] * (length - len(row))] for row in rows]


def replay(
    rows: Sequence[Sequence[int]],
    *,
    streamer: Any,
    prompt: Any,
    fill: int = 0,
    value: Callable[[Any], Any] = list,
    step: Callable[[int], None] = lambda number: None,
) -> list[list[int]]:
    """What `generate` does with a streamer: the prompt, then a token for each row in each step, then the end.

    Args:
        rows: the ids of each row; those of a shorter one are filled up with `fill`.
        value: makes what is put (a tensor, an array) of a list.
        step: called with its number before each step.
    """
    filled = padded(rows, fill)
    streamer.put(value(prompt))
    for number, tokens in enumerate(zip(*filled, strict=True)):
        step(number)
        streamer.put(value(tokens))
    streamer.end()
    return filled


@lru_cache(maxsize=1)
def demo_script() -> Any:
    """`scripts/demo.py` as a module."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import demo
    finally:
        sys.path.pop(0)
    return demo


@lru_cache(maxsize=1)
def demo_model() -> tuple[Any, Any]:
    """The tokenizer and the model of `demo/model`; prompts are padded on the left."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(MODEL, padding_side="left")
    return tokenizer, AutoModelForCausalLM.from_pretrained(MODEL).eval()


def demo_inputs(*chats: str | list[dict[str, Any]], **options: Any) -> Any:
    """The prompts of chats with the demo's tools, as inputs of `generate`. A string is a question of the user's."""
    tokenizer, _ = demo_model()
    listed = [[{"role": "user", "content": chat}] if isinstance(chat, str) else chat for chat in chats]
    prompts = [
        tokenizer.apply_chat_template(
            chat, tools=list(demo_script().TOOLS), add_generation_prompt=True, tokenize=False, **options
        )
        for chat in listed
    ]
    return tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)


def merged(events: Any) -> list[dict[str, Any]]:
    """Neighbouring chunks of a region (and row) as one."""
    result: list[dict[str, Any]] = []
    for event in events:
        last = result[-1] if result else {}
        if event["type"] == last.get("type") == "region_chunk" and event.get("row") == last.get("row"):
            result[-1] = {**last, "text": last["text"] + event["text"]}
        else:
            result.append(dict(event))
    return result


def without_row(events: Any) -> list[dict[str, Any]]:
    """The events as the parser gives them."""
    return [{key: value for key, value in event.items() if key != "row"} for event in events]
