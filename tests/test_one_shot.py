"""Whole texts read without the state machine: the same message, and which texts are left to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from domains import domains
from response_templates import registry
from response_templates.one_shot import message_of
from response_templates.parser import ResponseParser
from response_templates.plan import Plan, plan_for
from response_templates.template import load_template
from response_templates.tools import ToolTypes
from strategies import Case, cases

TEMPLATE = {
    "start_anchor": "@",
    "fields": {
        "reasoning_content": {"open": "<think>", "close": "</think>"},
        "content": {"close": "<end>"},
        "tool_calls": {
            "open": "<call>",
            "close": "</call>",
            "content": "json",
            "repeats": True,
        },
    },
}
CALL = {"type": "function", "function": {"name": "f", "arguments": {"a": "1"}}}
AS_JSON = '{"name": "f", "arguments": {"a": "1"}}'


def plan_of(template: dict[str, Any]) -> Plan:
    return plan_for(load_template(template))


def streamed(template: Any, text: str) -> dict[str, Any]:
    parser = ResponseParser(template, "", errors="recover")
    parser.feed(text)
    return parser.finalize()[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", {}),
        ("x", {"content": "x"}),
        ("<think>r</think>x<end>", {"reasoning_content": "r", "content": "x"}),
        ("<think>r", {"reasoning_content": "r"}),
        ("<think>r</thin", {"reasoning_content": "r</thin"}),
        ("x<end>y", {"content": "y"}),
        ("x<end>", {"content": "x"}),
        (f"x<call>{AS_JSON}</call>", {"content": "x", "tool_calls": [CALL]}),
        (f"<call>{AS_JSON}</call><call>[{AS_JSON}, {AS_JSON}]</call>", {"tool_calls": [CALL] * 3}),
        (f"<call>{AS_JSON}", {"tool_calls": [CALL]}),
        (f"<call>{AS_JSON}</cal", {"tool_calls": [CALL]}),
        ('<call>{"name": "</call>", "arguments": {}}</call>', None),  # a close inside a string
        ("<call>no JSON</call>", None),
        ('<call>{"name": "f"', None),
        ('<call>{"a": 1}</call>', None),  # no call
    ],
)
def test_what_is_read_and_what_is_left_to_the_state_machine(text: str, message: dict[str, Any] | None) -> None:
    assert message_of(plan_of(TEMPLATE), text) == message
    if message is not None:
        assert streamed(TEMPLATE, text) == message


def test_missing_fields_are_left_to_the_state_machine() -> None:
    template = {"start_anchor": "@", "fields": {"content": {}, "title": {"open": "<t>", "close": "</t>"}}}
    template["fields"]["title"]["optional"] = False  # type: ignore[index]
    assert message_of(plan_of(template), "x") is None
    assert message_of(plan_of(template), "x<t></t>") == {"content": "x"}
    assert message_of(plan_of({**template, "defaults": {"title": "none"}}), "x") == {"title": "none", "content": "x"}


def test_patterns_beyond_the_automaton_are_left_to_the_state_machine() -> None:
    fields = {"content": {}, "quote": {"open": "<q>", "close_pattern": r"(a)\1"}}
    assert message_of(plan_of({"start_anchor": "@", "fields": fields}), "x") is None


def test_arguments_are_cast() -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}}
    tools = ToolTypes.from_tools([{"type": "function", "function": {"name": "f", "parameters": parameters}}])
    message = message_of(plan_of(TEMPLATE), f"<call>{AS_JSON}</call>", tools)
    assert message is not None
    assert message["tool_calls"][0]["function"]["arguments"] == {"a": 1}


@pytest.mark.parametrize("name", registry.list_templates())
def test_ordinary_output_of_every_family_is_read(name: str) -> None:
    """Else one shot would be no faster than a stream."""
    template = registry.get_template(name).template
    for each in domains()[name].plain:
        assert message_of(plan_for(template), each["output"]) == streamed(template, each["output"])


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(cases())
def test_what_is_read_is_what_the_state_machine_reads(case: Case) -> None:
    message = message_of(plan_for(load_template(case.template)), case.text)
    assert message is None or message == streamed(case.template, case.text)
