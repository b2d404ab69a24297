"""Values of regions → the message."""

from __future__ import annotations

from typing import Any

import pytest

from response_templates.message import add_value, assemble, is_empty, merged_groups
from response_templates.plan import plan_for
from response_templates.template import load_template

FIELDS = {
    "content": {},
    "notes": {"open": "<n>", "close": "</n>", "repeats": True},
    "joined": {"open": "<j>", "close": "</j>", "repeats": True, "join": "+"},
    "tool_calls": {"open": "<c>", "close": "</c>", "content": "json", "repeats": True},
}
PLAN = plan_for(load_template({"start_anchor": "@", "defaults": {"role": "assistant"}, "fields": FIELDS}))


@pytest.mark.parametrize(
    ("value", "empty"), [(None, True), ("", True), ([], True), ({}, True), (0, False), ([0], False)]
)
def test_is_empty(value: Any, empty: bool) -> None:
    assert is_empty(value) is empty


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ([], {}),
        ([("content", "a"), ("content", "b")], {"content": "b"}),
        ([("content", "a"), ("content", "")], {"content": "a"}),
        ([("content", "")], {}),
        ([("notes", "a"), ("notes", ["b"])], {"notes": ["a", ["b"]]}),
        ([("joined", "a"), ("joined", "b")], {"joined": "a+b"}),
        ([("tool_calls", [1, 2]), ("tool_calls", 3)], {"tool_calls": [1, 2, 3]}),
    ],
)
def test_values_become_a_message(added: list[tuple[str, Any]], message: dict[str, Any]) -> None:
    values: dict[str, Any] = {}
    for name, value in added:
        add_value(values, PLAN.fields[name], value)
    assert assemble(PLAN, values) == {"role": "assistant", **message}


def test_malformed_regions_are_listed() -> None:
    entry = {"field": "notes", "text": "<n>", "error": "why"}
    assert assemble(PLAN, {}, [entry]) == {"role": "assistant", "malformed": [entry]}


def test_groups_of_the_close_win() -> None:
    assert merged_groups({"a": "1", "b": None}, {"a": "2", "c": None}) == {"a": "2"}
    assert merged_groups({"a": "1"}, {"a": None}) == {"a": "1"}
