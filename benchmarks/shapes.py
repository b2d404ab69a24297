"""What is parsed in the benchmarks: messages as five families write them, of any length, always the same.

A message is reasoning, prose and tool calls. The text is English-like, with punctuation, newlines, code, and now and
then a `<` that begins nothing, because that is what a parser meets. Each family comes with two templates: the
registry's, and a plain one, of literals where the format allows, such as one would write by hand for a well-behaved
model. Engines are timed on both, so that none is timed on patterns that happen to suit another.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

TEMPLATES = Path(__file__).parents[1] / "templates"
SHARE_OF_CALLS = 0.1  # of a message's characters; the rest is half reasoning, half prose

_TEXT = (
    "the of and to a in is that for it as was with be by on not he this are or his from at which but have an had they"
    " you were there one all we can her has been if more when will would who so no said what up its about into than"
    " them only some could time these two may then do first any now such like our over man me even most made after also"
    " did many before must through years where much way well down should because each just those people mr how too"
    " little state good very make world still see own work long here get both between life being under never day same"
    " another know while last might us great old year off come since against go came right used take three weather"
    " forecast temperature parser template message function value region delimiter stream character"
)
_WORDS = _TEXT.split()
_ASIDES = (
    "if a < b and b < c, then a < c",
    "see <b>the note</b> below",
    "it's 5 < 6, isn't it",
    "e-mail <someone@example.org>",
    'he said "not yet" twice',
    "costs 3 [units] {each}",
)
_CODE = (
    "```python\ndef area(radius):\n    if radius <= 0:\n        return 0\n    return 3.14159 * radius ** 2\n```",
    "```html\n<ul>\n  <li>one</li>\n  <li>two</li>\n</ul>\n```",
    '```json\n{"a": [1, 2, 3], "b": {"c": null}}\n```',
)


def prose(size: int, seed: int = 0) -> str:
    """`size` characters of English-like text."""
    rng = random.Random(seed)
    parts: list[str] = []
    length = 0
    while length < size:
        part = _paragraph(rng)
        parts.append(part)
        length += len(part)
    return "".join(parts)[: size - 1] + "."


def tame_prose(size: int, seed: int = 0) -> str:
    """The same without a `<`."""
    return prose(size, seed).replace("<", "(")


def _paragraph(rng: random.Random) -> str:
    if rng.random() < 0.08:
        return rng.choice(_CODE) + "\n\n"
    sentences = [_sentence(rng) for _ in range(rng.randint(2, 6))]
    return " ".join(sentences) + "\n\n"


def _sentence(rng: random.Random) -> str:
    words = rng.choices(_WORDS, k=rng.randint(5, 18))
    words[0] = words[0].capitalize()
    if rng.random() < 0.3:
        words[rng.randrange(1, len(words))] += ","
    if rng.random() < 0.12:
        words.append(f"({rng.choice(_ASIDES)})")
    return " ".join(words) + rng.choice("...?!:")


def _arguments(size: int, seed: int) -> dict[str, Any]:
    """Arguments of a call, about `size` characters of JSON."""
    return {"city": "São Paulo", "days": 3, "units": ["C", "km/h"], "note": prose(max(20, size - 80), seed)}


def _calls(size: int) -> list[dict[str, Any]]:
    """Calls of some 600 characters each, about `size` together, at least one."""
    return [_arguments(min(600, size), number) for number in range(max(1, size // 600))]


@dataclass(frozen=True, eq=False)
class Shape:
    """One family: how a message is written, and the two templates.

    Attributes:
        name: what the tables call it.
        registered: the name of the registry's template.
        plain: a plain template of the same family.
        write: (reasoning, prose, calls' arguments) → the generation.
    """

    name: str
    registered: str
    plain: Mapping[str, Any]
    write: Callable[[str, str, list[dict[str, Any]]], str]

    def template(self, which: str) -> dict[str, Any]:
        """The template as JSON: `which` is "registry" or "plain"."""
        if which == "plain":
            return json.loads(json.dumps(self.plain))
        return json.loads((TEMPLATES / f"{self.registered}.json").read_text(encoding="utf-8"))

    def message(self, size: int) -> str:
        """A generation of about `size` characters: reasoning, prose, calls."""
        return _message(self, size)

    def text_only(self, size: int, text: Callable[[int, int], str] = prose) -> str:
        """A generation of about `size` characters without calls."""
        return _text_only(self, size, text)


@lru_cache(maxsize=32)
def _message(shape: Shape, size: int) -> str:
    for_calls = int(size * SHARE_OF_CALLS)
    each = (size - for_calls) // 2
    return shape.write(prose(each, 1), prose(each, 2), _calls(for_calls))


@lru_cache(maxsize=32)
def _text_only(shape: Shape, size: int, text: Callable[[int, int], str]) -> str:
    return shape.write(text(size // 2, 3), text(size // 2, 4), [])


def chunks(text: str, size: int) -> list[str]:
    """`text` in pieces of `size` characters."""
    return [text[at : at + size] for at in range(0, len(text), size)]


# --- the families ------------------------------------------------------------------------------------------------

_FUNCTION = {"type": "function", "function": "{content}"}
_NAMED = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}


def _think(reasoning: str) -> str:
    return f"<think>\n{reasoning}\n</think>\n\n"


def _json_call(arguments: dict[str, Any]) -> str:
    call = json.dumps({"name": "get_weather", "arguments": arguments}, ensure_ascii=False)
    return f"\n<tool_call>\n{call}\n</tool_call>"


def _write_qwen(reasoning: str, text: str, calls: list[dict[str, Any]]) -> str:
    return _think(reasoning) + text + "".join(map(_json_call, calls)) + "<|im_end|>"


def _xml_call(arguments: dict[str, Any]) -> str:
    body = "".join(
        f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
        for key, value in arguments.items()
    )
    return f"\n<tool_call>\n<function=get_weather>\n{body}</function>\n</tool_call>"


def _write_qwen_xml(reasoning: str, text: str, calls: list[dict[str, Any]]) -> str:
    return _think(reasoning) + text + "".join(map(_xml_call, calls)) + "<|im_end|>"


def _write_gpt_oss(reasoning: str, text: str, calls: list[dict[str, Any]]) -> str:
    parts = [f"<|channel|>analysis<|message|>{reasoning}<|end|>"]
    header = "<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
    parts += [f"{header}{json.dumps(arguments, ensure_ascii=False)}<|call|>" for arguments in calls]
    parts.append(f"<|start|>assistant<|channel|>final<|message|>{text}<|return|>")
    return "".join(parts)


def _write_cohere(reasoning: str, text: str, calls: list[dict[str, Any]]) -> str:
    parts = [f"<|START_THINKING|>{reasoning}<|END_THINKING|>", f"<|START_RESPONSE|>{text}<|END_RESPONSE|>"]
    if calls:
        items = [
            {"tool_call_id": str(number), "tool_name": "get_weather", "parameters": arguments}
            for number, arguments in enumerate(calls)
        ]
        lines = ",\n".join("    " + json.dumps(item, ensure_ascii=False) for item in items)
        parts.append(f"<|START_ACTION|>[\n{lines}\n]<|END_ACTION|>")
    return "".join(parts) + "<|END_OF_TURN_TOKEN|>"


_QWEN_FIELDS = {
    "reasoning_content": {"open": "<think>", "close": "</think>"},
    "content": {"close": "<|im_end|>", "repeats": True, "join": ""},
    "tool_calls": {
        "open": "<tool_call>",
        "close": "</tool_call>",
        "content": "json",
        "repeats": True,
        "transform": _FUNCTION,
    },
}
_CHATML = {"defaults": {"role": "assistant"}, "start_anchor": "<|im_start|>assistant\n"}

_PLAIN_QWEN_XML = {
    **_CHATML,
    "fields": {
        "reasoning_content": {"open": "<think>", "close": "</think>"},
        "content": {"close": "<|im_end|>", "repeats": True, "join": ""},
        "tool_calls": {
            "open_pattern": r"<tool_call>\n<function=(?P<name>[^>\n]+)>",
            "close": "</function>\n</tool_call>",
            "content": "xml-inline",
            "content_args": {"tag_pattern": r"<parameter=(?P<key>[^>\n]+)>\n(?P<value>.*?)\n</parameter>"},
            "repeats": True,
            "transform": _NAMED,
        },
    },
}

_PLAIN_GPT_OSS = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|start|>assistant",
    "fields": {
        "reasoning_content": {"open": "<|channel|>analysis<|message|>", "close": "<|end|>"},
        "content": {"open": "<|channel|>final<|message|>", "close": ["<|return|>", "<|end|>"]},
        "tool_calls": {
            "open_pattern": r"<\|channel\|>commentary to=functions\.(?P<name>[^\s<]+) <\|constrain\|>json<\|message\|>",
            "close": "<|call|>",
            "content": "json",
            "repeats": True,
            "transform": _NAMED,
        },
    },
}

_PLAIN_COHERE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
    "fields": {
        "reasoning_content": {"open": "<|START_THINKING|>", "close": "<|END_THINKING|>"},
        "content": {"open": "<|START_RESPONSE|>", "close": "<|END_RESPONSE|>"},
        "tool_calls": {
            "open": "<|START_ACTION|>",
            "close": "<|END_ACTION|>",
            "content": "json",
            "transform_each": True,
            "transform": {
                "type": "function",
                "id": "{tool_call_id}",
                "function": {"name": "{tool_name}", "arguments": "{parameters}"},
            },
        },
    },
}

SHAPES = (
    Shape("SmolLM3", "smollm3", {**_CHATML, "fields": _QWEN_FIELDS}, _write_qwen),
    Shape("Qwen3", "qwen3", {**_CHATML, "fields": _QWEN_FIELDS}, _write_qwen),
    Shape("Qwen3-XML", "qwen3-coder", _PLAIN_QWEN_XML, _write_qwen_xml),
    Shape("gpt-oss", "gpt-oss", _PLAIN_GPT_OSS, _write_gpt_oss),
    Shape("Cohere", "cohere-command-a", _PLAIN_COHERE, _write_cohere),
)
