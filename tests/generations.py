"""Generations for the registry's templates: whole turns as the families write them, and damaged ones.

`FORMS` says how each template's family writes reasoning, text and calls; whoever adds a template may add its form.
Invariant: an undamaged turn of a form parses without anything malformed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Arguments = dict[str, Any]
Call = tuple[str, Arguments]


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def hermes(calls: list[Call]) -> str:
    return "".join(f"<tool_call>\n{as_json({'name': n, 'arguments': a})}\n</tool_call>\n" for n, a in calls)


def qwen_xml(calls: list[Call]) -> str:
    text = ""
    for name, arguments in calls:
        tags = "".join(f"<parameter={key}>\n{as_text(value)}\n</parameter>\n" for key, value in arguments.items())
        text += f"<tool_call>\n<function={name}>\n{tags}</function>\n</tool_call>\n"
    return text


def quoted_xml(calls: list[Call]) -> str:
    return qwen_xml([(name, {key: as_json(value) for key, value in each.items()}) for name, each in calls])


def harmony(calls: list[Call]) -> str:
    return "<|start|>assistant".join(
        f"<|channel|>commentary to=functions.{n} <|constrain|>json<|message|>{as_json(a)}<|call|>" for n, a in calls
    )


def cohere(calls: list[Call]) -> str:
    items = [{"tool_call_id": str(i), "tool_name": n, "parameters": a} for i, (n, a) in enumerate(calls)]
    return f"<|START_ACTION|>{as_json(items)}<|END_ACTION|>" if calls else ""


def command_r(calls: list[Call]) -> str:
    items = [{"tool_name": name, "parameters": arguments} for name, arguments in calls]
    return f"Action: ```json\n{json.dumps(items, indent=4, ensure_ascii=False)}\n```" if calls else ""


def python_code(calls: list[Call]) -> str:
    return "".join(f"<code>{name}({as_json(arguments)})</code>\n" for name, arguments in calls)


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)


@dataclass(frozen=True)
class Form:
    """How a family writes a turn: reasoning, text, calls, in this order."""

    reasoning: str
    content: str
    calls: Callable[[list[Call]], str]
    end: str

    def turn(self, reasoning: str, content: str, calls: list[Call]) -> str:
        thought = self.reasoning.format(reasoning) if reasoning and self.reasoning else ""
        return thought + (self.content.format(content) if content else "") + self.calls(calls) + self.end


CHATML = ("<think>\n{}\n</think>\n\n", "{}\n")
FORMS: Mapping[str, Form] = {
    "qwen3": Form(*CHATML, hermes, "<|im_end|>"),
    "smollm3": Form(*CHATML, hermes, "<|im_end|>"),
    "smollm3-python": Form(*CHATML, python_code, "<|im_end|>"),
    "qwen3-coder": Form(*CHATML, qwen_xml, "<|im_end|>"),
    "qwen3-coder-quoted": Form(*CHATML, quoted_xml, "<|im_end|>"),
    "tiny-aya-agent": Form("", "<|START_RESPONSE|>{}<|END_RESPONSE|>", qwen_xml, "<|END_OF_TURN_TOKEN|>"),
    "gpt-oss": Form(
        "<|channel|>analysis<|message|>{}<|end|><|start|>assistant",
        "<|channel|>commentary<|message|>{}<|end|><|start|>assistant",
        harmony,
        "",
    ),
    "cohere-command-a": Form(
        "<|START_THINKING|>{}<|END_THINKING|>",
        "<|START_RESPONSE|>{}<|END_RESPONSE|>",
        cohere,
        "<|END_OF_TURN_TOKEN|>",
    ),
    "cohere-command-r": Form("", "{}\n", command_r, "<|END_OF_TURN_TOKEN|>"),
}

WORDS = [
    "Lima",
    "a b",
    " x",
    "y\n\nz",
    "",
    "  ",
    "é東🌦",
    '"q"',
    "\\d",
    "\n",
    "null",
    "007",
    "12",
    "1.50",
    "True",
    "[1",
    "{}",
]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=4).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="<`"), max_size=12
)
SCALARS = TEXTS | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
VALUES = st.recursive(
    SCALARS | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["city", "n", "flag", "items", "note", "when", "x_1"])
CALLS = st.lists(
    st.tuples(st.sampled_from(["get_weather", "f", "fs.read"]), st.dictionaries(KEYS, VALUES, max_size=4)), max_size=3
)
PROSE = st.sampled_from(["", "Hello.", "Two\n\nlines.", "a < b", "é 東京", " It is so. "])

# Some parameters of each tool have a schema, as `KEYS` are; `note` has none, `x_1` isn't listed.
PROPERTIES = {
    "city": {"type": "string"},
    "n": {"type": "integer"},
    "flag": {"type": ["boolean", "null"]},
    "items": {"type": "array", "items": {"type": "string"}},
    "when": {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "number"}]},
    "note": {},
}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": PROPERTIES}}}
    for name in ("get_weather", "fs.read")
]


@st.composite
def turns(draw: st.DrawFn, name: str) -> str:
    """A turn of the family of the registry template `name`."""
    return FORMS[name].turn(draw(PROSE), draw(PROSE), draw(CALLS))


@st.composite
def damaged(draw: st.DrawFn, name: str) -> str:
    """A turn that was cut off, or lost some characters, or has some twice."""
    text = draw(turns(name))
    begin = draw(st.integers(0, len(text)))
    end = draw(st.integers(begin, min(len(text), begin + 12)))
    return draw(st.sampled_from([text[:begin], text[:begin] + text[end:], text[:end] + text[begin:]]))
