"""From a parsed body to a value: transforms, and what becomes of a call."""

from __future__ import annotations

from typing import Any

import pytest

from response_templates import load_template
from response_templates.content import ContentError
from response_templates.shaping import compile_shape

CALL = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
GROUPS_PATTERN = r"<(?P<name>\w+)(?: (?P<id>\d+))?>"


def shape(body: Any, groups: dict[str, str] | None = None, name: str = "f", **keys: Any) -> Any:
    """The value of a region of a field with the given keys."""
    field = {"open": "<f>", "content": "json", **keys}
    if groups is not None:
        field |= {"open": None, "open_pattern": GROUPS_PATTERN}
    template = load_template({"start_anchor": "A", "fields": {name: field}})
    return compile_shape(template.fields[name])(body, groups or {})


SHAPES: dict[str, tuple[Any, Any, Any]] = {
    # transform, content, value
    "none": (None, {"a": 1}, {"a": 1}),
    "whole": ("{content}", [1, 2], [1, 2]),
    "the type is kept": ({"v": "{content}"}, 7, {"v": 7}),
    "null is a value": ({"v": "{content}"}, None, {"v": None}),
    "nested": ({"a": [{"b": "{content}"}]}, 1.5, {"a": [{"b": 1.5}]}),
    "constants": ({"type": "function", "l": [1, True, None, "x"]}, 0, {"type": "function", "l": [1, True, None, "x"]}),
    "a constant alone": ("fixed", 1, "fixed"),
    "a number alone": (3, 1, 3),
    "dotted": ("{content.a}", {"a": "x", "b": 1}, "x"),
    "dotted twice": ({"v": "{content.a.b}"}, {"a": {"b": [1]}}, {"v": [1]}),
    "twice the same": (["{content}", "{content}"], "x", ["x", "x"]),
    "braces in the content are no placeholders": ("{content}", {"a": "{content}"}, {"a": "{content}"}),
    "plain braces": (["{}", "{a b}", "{content"], 1, ["{}", "{a b}", "{content"]),
    "keys are kept as they are": ({"{content}": 1}, 2, {"{content}": 1}),
}


@pytest.mark.parametrize(("transform", "content", "value"), SHAPES.values(), ids=SHAPES.keys())
def test_transform(transform: Any, content: Any, value: Any) -> None:
    assert shape(content, transform=transform) == value


def test_groups_are_names() -> None:
    assert shape({"a": 1}, {"name": "g"}, transform=CALL) == {
        "type": "function",
        "function": {"name": "g", "arguments": {"a": 1}},
    }


@pytest.mark.parametrize(
    ("transform", "content", "word"),
    [
        ("{content.a}", {"b": 1}, "'a'"),
        ("{content.a}", "text", "'a'"),
        ("{content.a}", None, "'a'"),
        ("{content.a.b}", {"a": [1]}, "'b'"),
        ({"x": ["{content.a}"]}, [{"a": 1}], "'a'"),
    ],
    ids=["no such key", "a text", "null", "a list inside", "a list"],
)
def test_a_placeholder_without_a_value_is_an_error(transform: Any, content: Any, word: str) -> None:
    with pytest.raises(ContentError) as caught:
        shape(content, transform=transform)
    assert word in str(caught.value)


def test_a_group_that_took_no_part_is_an_error_outside_of_calls() -> None:
    with pytest.raises(ContentError, match="id"):
        shape(1, {"name": "g"}, transform={"id": "{id}", "name": "{name}"})


def test_a_key_that_is_missing_in_a_call_is_left_out() -> None:
    transform = {"id": "{id}", **CALL}
    assert shape({}, {"name": "g"}, "tool_calls", transform=transform) == {
        "type": "function",
        "function": {"name": "g", "arguments": {}},
    }
    assert shape({}, {"name": "g", "id": "7"}, "tool_calls", transform=transform)["id"] == "7"


EACH = {"n": "{tool_name}", "a": "{parameters}"}


def test_transform_each() -> None:
    items = [{"tool_name": "f", "parameters": {"x": 1}, "more": 1}, {"tool_name": "g", "parameters": None}]
    assert shape(items, transform=EACH, transform_each=True) == [{"n": "f", "a": {"x": 1}}, {"n": "g", "a": None}]
    assert shape([], transform=EACH, transform_each=True) == []


def test_transform_each_knows_groups_and_the_item_itself() -> None:
    transform = {"whole": "{content}", "name": "{name}", "x": "{x}", "deep": "{y.z}"}
    item = {"x": 1, "y": {"z": 2}}
    assert shape([item], {"name": "g"}, transform=transform, transform_each=True) == [
        {"whole": item, "name": "g", "x": 1, "deep": 2}
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"tool_name": "f", "parameters": {}}, ["list", "dict"]),
        ("text", ["list", "str"]),
        (None, ["list"]),
        ([{"tool_name": "f", "parameters": {}}, "x"], ["item 1", "str"]),
        ([{"tool_name": "f"}], ["'parameters'"]),
    ],
    ids=["an object", "a text", "null", "a list of other things", "a key is missing"],
)
def test_transform_each_of_something_else_is_an_error(content: Any, words: list[str]) -> None:
    with pytest.raises(ContentError) as caught:
        shape(content, transform=EACH, transform_each=True)
    for word in words:
        assert word in str(caught.value)


CALL_EACH = {"type": "function", "function": {"name": "{tool_name}", "arguments": "{parameters}"}}


def test_one_call_where_a_list_of_them_was_expected() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
    content = {"tool_name": "f", "parameters": {"x": 1}}
    assert shape(content, name="tool_calls", transform=CALL_EACH, transform_each=True) == [call]


def test_a_list_of_calls_where_one_was_expected() -> None:
    transform = {"type": "function", "function": "{content}"}
    content = [{"name": "f", "arguments": {"x": 1}}, {"name": "g", "parameters": {}}]
    assert shape(content, name="tool_calls", transform=transform) == [
        {"type": "function", "function": {"name": "f", "arguments": {"x": 1}}},
        {"type": "function", "function": {"name": "g", "arguments": {}}},
    ]


@pytest.mark.parametrize(
    "content",
    [{"arguments": {}}, {"name": 1, "arguments": {}}, {"name": "f", "arguments": [1]}, "text", 1, None],
    ids=["no name", "name is a number", "arguments are a list", "a text", "a number", "null"],
)
def test_what_is_no_call_is_an_error(content: Any) -> None:
    with pytest.raises(ContentError):
        shape(content, name="tool_calls", transform={"type": "function", "function": "{content}"})


def test_a_shape_of_the_templates_own_is_left_alone() -> None:
    assert shape("code", name="tool_calls", content="text", transform={"code": "{content}"}) == {"code": "code"}


def test_values_are_not_shared_between_regions() -> None:
    field = load_template(
        {"start_anchor": "A", "fields": {"f": {"open": "<f>", "transform": {"c": "{content}", "l": []}}}}
    ).fields["f"]
    compiled = compile_shape(field)
    first = compiled("x", {})
    first["l"].append(1)
    assert compiled("x", {}) == {"c": "x", "l": []}
