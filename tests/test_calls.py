"""Well-formed calls: every shape that models write, and what is no call."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from response_templates.calls import well_formed
from response_templates.content import ContentError


def call(name: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments, **more}}


def item(function: Any, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": function, **more}


F = call("f", {"a": 1})
NOW = call("now", {})

GOOD: list[tuple[Any, Any]] = [
    (F, F),
    ({"name": "f", "arguments": {"a": 1}}, F),
    ({"type": "function", "name": "f", "arguments": {"a": 1}}, F),
    (item({"name": "now"}), NOW),
    (item({"name": "now", "arguments": None}), NOW),
    (item({"name": "now", "arguments": ""}), NOW),
    (item({"name": "now", "arguments": " \n"}), NOW),
    (item({"name": "f", "arguments": ' {"a": 1}\n'}), F),
    (item({"name": "f", "parameters": {"a": 1}}), F),
    (item({"name": "f", "arguments": None, "parameters": '{"a": 1}'}), F),
    (item({"name": "f", "arguments": {"a": 1}, "x": [2]}), call("f", {"a": 1}, x=[2])),
    (item({"name": "f", "arguments": {"a": 1}}, id="c1"), {"id": "c1", **F}),
    (item({"name": "f", "arguments": {"a": 1}}, tool_call_id=0), {"id": "0", **F}),
    (item({"name": "f", "arguments": {"a": 1}, "id": "c2"}), {"id": "c2", **F}),
    (item({"name": "f", "arguments": {"a": 1}, "tool_call_id": "c3"}, id="c1"), {"id": "c1", **F}),
    (item({"name": "f", "arguments": {"a": 1}}, id=None), F),
    (item({"name": "f", "arguments": {"a": 1}}, id={"x": 1}), F),
    (item({"name": "f", "arguments": {"a": 1}}, id=True), F),
    ({"tool_call_id": "0", "name": "f", "parameters": {"a": 1}}, {"id": "0", **F}),
    (item({"f": {"a": 1}}), F),
    ({"f": {"a": 1}}, F),
    (item({"id": "c1", "f": {"a": 1}}), {"id": "c1", **F}),
    (item(item({"name": "f", "arguments": {"a": 1}}, id="c1")), {"id": "c1", **F}),
    (item(item(item({"f": {"a": 1}}))), F),
    ({"name": "f", "arguments": {"a": 1}, "function": "x"}, call("f", {"a": 1}, function="x")),
    ([], []),
    ([F], [F]),
    ([F, {"name": "now"}], [F, NOW]),
    ([[F], [], [[item({"now": {}})]]], [F, NOW]),
    (item([{"name": "f", "arguments": {"a": 1}}, {"now": {}}]), [F, NOW]),
    (
        item([{"name": "f", "arguments": {"a": 1}, "id": "c1"}, {"name": "now", "id": "c2"}]),
        [{"id": "c1", **F}, {"id": "c2", **NOW}],
    ),
    ([item([{"f": {"a": 1}}]), NOW], [F, NOW]),
    (item([]), []),
]
BAD: list[tuple[Any, str]] = [
    (None, "must be an object, but this is null"),
    ("f", "must be an object, but this is the text 'f'"),
    (1, "must be an object, but this is a number"),
    ({}, "has no name"),
    (item({}), "has no name"),
    (item({"arguments": {}}), "has no name"),
    (item({"name": None, "arguments": {}}), "has no name"),
    (item({"name": 1}), "the name of a tool call must be a string"),
    (item({"name": ["f"]}), "must be a string, but this is a list of 1 items"),
    (item({"name": ""}), "is empty"),
    (item({"name": " "}), "is empty"),
    (item("f"), "must be an object, but this is the text 'f'"),
    (item(None), "but this is null"),
    (item(["f"]), "but this is the text 'f'"),
    (item({"name": "f", "arguments": [1]}), "the arguments of 'f' must be an object, but they are a list"),
    (item({"name": "f", "arguments": 1}), "but they are a number"),
    (item({"name": "f", "arguments": False}), "but they are false"),
    (item({"name": "f", "arguments": "x"}), "a string that is not JSON"),
    (item({"name": "f", "arguments": "[1]"}), "but they are a list"),
    (item({"name": "f", "arguments": "null"}), "but they are the string 'null'"),
    (item({"name": "f", "arguments": '"{}"'}), "but they are the text '{}'"),
    (item({"f": [1]}), "has no name"),
    (item({"f": {}, "g": {}}), "has no name"),
    (item({"parameters": {"a": 1}}), "has no name"),
    ([F, 1], "but this is a number"),
]


@pytest.mark.parametrize(("value", "calls"), GOOD, ids=lambda each: repr(each)[:60])
def test_becomes_well_formed(value: Any, calls: Any) -> None:
    before = copy.deepcopy(value)
    assert well_formed(value) == calls
    assert value == before


@pytest.mark.parametrize(("value", "message"), BAD, ids=lambda each: repr(each)[:60])
def test_is_no_call(value: Any, message: str) -> None:
    with pytest.raises(ContentError) as caught:
        well_formed(value)
    assert message in str(caught.value)


def test_the_order_of_the_keys() -> None:
    got = well_formed({"function": {"arguments": {}, "x": 1, "name": "f"}, "type": "function", "id": "c"})
    assert isinstance(got, dict)
    assert list(got) == ["id", "type", "function"]
    assert list(got["function"]) == ["name", "arguments", "x"]


def test_depth_does_not_matter() -> None:
    value: Any = F
    for _ in range(20_000):
        value = [value]
    assert well_formed(value) == [F]
    wrapped: Any = {"name": "f", "arguments": {"a": 1}}
    for _ in range(20_000):
        wrapped = item(wrapped)
    assert well_formed(wrapped) == F


KEYS = st.sampled_from(["type", "function", "name", "arguments", "parameters", "id", "tool_call_id", "f"])
VALUES = st.recursive(
    st.sampled_from([None, True, 1, 1.5, "", "f", "{}", '{"a": 1}', "[1]", "function"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)


@given(VALUES)
def test_calls_or_a_content_error(value: Any) -> None:
    try:
        result = well_formed(value)
    except ContentError:
        return
    for each in result if isinstance(result, list) else [result]:
        assert set(each) - {"id"} == {"type", "function"}
        assert each["type"] == "function"
        assert isinstance(each.get("id", ""), str)
        assert isinstance(each["function"]["name"], str)
        assert isinstance(each["function"]["arguments"], dict)
        assert well_formed(each) == each
