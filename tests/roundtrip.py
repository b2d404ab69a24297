"""The round trip of one chat template: messages are drawn, rendered by transformers' own code, and parsed back.

Shared by `test_roundtrip.py`, `scripts/check_family.py` and `hub_coverage.py`. What is drawn is here; what is
particular to a family is in its `Domain`. What a chat template does not write at all is found out by rendering
(`rendering.kept`), not assumed.
"""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rendering
from domains import Domain, matches
from rendering import LAST, DoesNotRender, Renderer, call
from response_templates.errors import ParseError
from response_templates.parser import ResponseParser, parse_response
from response_templates.template import ResponseTemplate

Message = dict[str, Any]

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
# Delimiters of all the first families; each domain has its own beside them.
MARKS = [
    *["<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_end|>", "<|im_start|>assistant\n", "<function=f>"],
    *["</function>", "<parameter=p>", "</parameter>", "<|call|>", "<|end|>", "<|channel|>final<|message|>", "```"],
    *["<|start|>assistant", "<|END_ACTION|>", "<|START_ACTION|>", "<|END_OF_TURN_TOKEN|>", "Action:"],
]
CHARACTERS = st.characters(exclude_categories=["Cs"])
LOOKALIKES = ["007", "3", "1.0", "true", "True", "null", "None", '{"a": 1}', "[1, 2]", "", " ", "\n", "\n\n", "  two  "]
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)

PROSE = st.lists(
    st.sampled_from(WORDS) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<`"), max_size=12)
)
PROSE_TEXT = PROSE.map(" ".join).map(str.strip).filter(lambda text: LAST not in text)


def strings(domain: Domain) -> st.SearchStrategy[str]:
    """String arguments: lookalikes of other types, any text, words and delimiters in and across lines."""
    pieces = st.sampled_from([*WORDS, *MARKS, *domain.marks])
    joined = st.lists(pieces, max_size=5).map("".join) | st.lists(pieces, max_size=4).map("\n".join)
    return st.sampled_from(LOOKALIKES) | st.text(CHARACTERS, max_size=20) | joined


def values(domain: Domain) -> st.SearchStrategy[Any]:
    if domain.values == "strings":
        return strings(domain)
    inner_keys = (
        st.from_regex(domain.inner_keys, fullmatch=True) if domain.inner_keys else st.text(CHARACTERS, max_size=6)
    )
    return st.recursive(
        strings(domain) | NUMBERS | st.booleans() | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(inner_keys, inner, max_size=3),
    )


@functools.lru_cache(maxsize=128)
def _drawn_calls(name: str, domain: _Hashed) -> st.SearchStrategy[list[tuple[str, dict[str, Any]]]]:
    arguments = st.dictionaries(st.from_regex(domain.it.keys, fullmatch=True), values(domain.it), max_size=4)
    return st.lists(st.tuples(st.sampled_from(domain.it.names), arguments), max_size=4)


class _Hashed:
    """A domain as a key of a cache, by its name."""

    def __init__(self, it: Domain) -> None:
        self.it = it

    def __hash__(self) -> int:
        return hash(self.it.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self.it is other.it


@st.composite
def messages(draw: st.DrawFn, domain: Domain) -> Message:
    """An assistant message: reasoning, content, up to four calls, each of which may be missing."""
    message: Message = {"role": "assistant", "content": draw(st.just("") | PROSE_TEXT)}
    reasoning = draw(st.just("") | PROSE_TEXT)
    if reasoning:
        message["reasoning_content"] = reasoning
    drawn = draw(_drawn_calls(domain.name, _Hashed(domain)))
    if drawn:
        # A name of its own for each call, so that each has its own types.
        named = [(f"{name}_{number}", arguments) for number, (name, arguments) in enumerate(drawn)]
        message["tool_calls"] = [
            call(name, arguments, domain.ids.format(number=number, name=name))
            for number, (name, arguments) in enumerate(named)
        ]
    return message


# --- the chats -------------------------------------------------------------------------------------------------------

USER = {"role": "user", "content": "Hi."}
ASKS = {"role": "user", "content": f"And now? {LAST}"}
OLD = {"role": "assistant", "content": "Before.", "reasoning_content": "old thought"}
OLD_CALL = {
    "role": "assistant",
    "content": "",
    "reasoning_content": "old plan",
    "tool_calls": [call("lookup", {"q": "x"}, "abcdefgh9")],
}
RESULT = {"role": "tool", "name": "lookup", "content": f"ok {LAST}", "tool_call_id": "abcdefgh9"}
HISTORIES = {
    "first": [ASKS],
    "after an answer": [USER, OLD, ASKS],
    "after a result": [USER, OLD_CALL, RESULT],
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


def nested_schema(value: Any) -> dict[str, Any]:
    """As `schema`, with the schemas of all that is inside."""
    known: dict[str, Any] = dict(schema(value))
    if isinstance(value, dict):
        known["properties"] = {key: nested_schema(item) for key, item in value.items()}
    if isinstance(value, list):
        known["prefixItems"] = [nested_schema(item) for item in value]
    return known


def typed_tools(domain: Domain, message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tools that say the types of the message's arguments, as far as the family needs them."""
    tools = tools_of(message)
    if domain.nested_schemas:
        for offered, item in zip(tools, message.get("tool_calls", ()), strict=True):
            offered["function"]["parameters"] = nested_schema(item["function"]["arguments"])
    return tools


def tools_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    calls = [item["function"] for item in message.get("tool_calls", ())]
    return [tool(item["name"], item["arguments"]) for item in calls]


SIMPLE_TOOL = tool("lookup", {"q": ""})
LEGACY_TOOL = {"name": "lookup", "description": "d", "parameter_definitions": {}}


@functools.cache
def parts(renderer: Renderer, history: str, switch: str, shape: rendering.Shape, tools: str) -> rendering.Kept | None:
    arguments = json.loads(switch) | ({"tools": json.loads(tools)} if tools else {})
    try:
        return rendering.kept(renderer, HISTORIES[history], shape, **arguments)
    except DoesNotRender:
        return None


def simple_tools(domain: Domain, identifier: str) -> list[Any]:
    return [LEGACY_TOOL] if identifier in domain.legacy_tools else [SIMPLE_TOOL]


def prompt_tools(domain: Domain, identifier: str, message: Mapping[str, Any], with_tools: bool) -> list[Any] | None:
    """The tools in the prompt: None for a message without calls, or if the chat template can't be rendered with any."""
    if identifier in domain.no_tools or not (with_tools or message.get("tool_calls")):
        return None
    drawn = tools_of(message) if domain.prompt_tools == "drawn" else []
    return [*drawn, *simple_tools(domain, identifier)]


# --- the check -------------------------------------------------------------------------------------------------------


class Mismatch(AssertionError):
    """A message that did not come back; as text a diff, with the prompt's end and the generation."""


def shown(message: Mapping[str, Any]) -> list[str]:
    return json.dumps(message, ensure_ascii=False, indent=1, sort_keys=True).splitlines()


def compare(expected: Mapping[str, Any], got: Mapping[str, Any], turn: rendering.Turn) -> None:
    if got == expected:
        return
    diff = difflib.unified_diff(shown(expected), shown(got), "the message", "what came back", lineterm="", n=1)
    raise Mismatch(
        "\n".join([*diff, f"prompt ends:  {turn.prompt[-200:]!r}", f"generation:   {turn.generation[:1000]!r}"])
    )


def parsed(template: ResponseTemplate, turn: rendering.Turn, tools: list[Any]) -> Message:
    """The message, parsed whole; raises Mismatch if it isn't the same streamed by characters."""
    try:
        got = parse_response(turn.generation, template, prefix=turn.prompt, tools=tools)
        streamed = ResponseParser(template, turn.prompt, tools=tools)
        for character in turn.generation:
            streamed.feed(character)
        compare(got, streamed.finalize()[0], turn)
    except ParseError as error:
        raise Mismatch(f"{error}\nprompt ends: {turn.prompt[-200:]!r}\ngeneration: {turn.generation!r}") from error
    return got


@dataclass(frozen=True)
class Trip:
    """A message in a chat: after which history, with which switch for thinking, with tools in the prompt or not."""

    message: Message
    history: str
    switch: Mapping[str, Any]
    with_tools: bool


@dataclass(frozen=True)
class Written:
    """A trip as the chat template wrote it, the tools for reading it, and the message that must come back."""

    turn: rendering.Turn
    tools: list[Any]
    expected: Message


def written(domain: Domain, renderer: Renderer, identifier: str, trip: Trip) -> Written | None:
    """The rendered trip; None where the format can't hold the message or the chat template refuses it."""
    message = trip.message
    if not domain.holds(message) or (identifier in domain.as_repr and has_arguments(message)):
        return None
    tools = prompt_tools(domain, identifier, message, trip.with_tools)
    probed_with = json.dumps(simple_tools(domain, identifier)) if tools else ""
    kept = parts(renderer, trip.history, json.dumps(trip.switch), rendering.shape_of(message), probed_with)
    if kept is None:
        return None
    try:
        turn = renderer.turn(HISTORIES[trip.history], kept.written(message, renderer), tools=tools, **trip.switch)
    except DoesNotRender:  # some refuse certain values; that all are refused is found out by the count
        return None
    return Written(turn, typed_tools(domain, message), rendering.expected(message, kept))


def comes_back(template: ResponseTemplate, done: Written) -> None:
    """Parse what was written, whole and by characters. Raises Mismatch."""
    got = parsed(template, done.turn, done.tools)
    compare(without_ids(done.expected), without_ids(got), done.turn)


def garbled(domain: Domain, identifier: str, turn: rendering.Turn) -> bool:
    """The chat template is known to write this message so that it can't be read back."""
    return matches(domain.not_rendered.get(identifier, ""), turn.generation)


def switches_of(domain: Domain) -> list[dict[str, Any]]:
    return [*SWITCHES, *map(dict, domain.switches)]


def round_trip(domain: Domain, template: ResponseTemplate, chat_template: str, identifier: str, examples: int) -> int:
    """Draw `examples` messages, render and parse them. Returns how many could be rendered; raises Mismatch."""
    renderer = Renderer.of(chat_template, domain, template, identifier)
    if identifier in domain.prompts:
        return behind_the_prompt(template, renderer, **domain.prompts[identifier])
    rendered = 0

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )
    @given(messages(domain), st.sampled_from(list(HISTORIES)), st.sampled_from(switches_of(domain)), st.booleans())
    def check(message: Message, history: str, switch: dict[str, Any], with_tools: bool) -> None:
        nonlocal rendered
        done = written(domain, renderer, identifier, Trip(message, history, switch, with_tools))
        if done is not None and not garbled(domain, identifier, done.turn):
            comes_back(template, done)
            rendered += 1

    check()
    return rendered


def behind_the_prompt(template: ResponseTemplate, renderer: Renderer, output: str, message: Message) -> int:
    """Parse `output` behind the prompt for the first question. Returns 1; raises Mismatch."""
    turn = rendering.Turn(renderer.render(HISTORIES["first"], add_generation_prompt=True), output)
    compare({"role": "assistant", **message}, parsed(template, turn, []), turn)
    return 1


def has_arguments(message: Message) -> bool:
    return any(item["function"]["arguments"] for item in message.get("tool_calls", ()))


def without_ids(message: Message) -> Message:
    """Most chat templates leave the ids out, some number the calls anew."""
    if "tool_calls" not in message:
        return message
    calls = [{key: value for key, value in item.items() if key != "id"} for item in message["tool_calls"]]
    return message | {"tool_calls": calls}
