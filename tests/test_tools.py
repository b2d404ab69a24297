"""Typing tool-call arguments: schemas of every form, and what stays the text that it was."""

from __future__ import annotations

import copy
import enum
import functools
import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from response_templates.errors import InputTypeError
from response_templates.tools import ToolTypes


def tool(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, **more}
    return {"type": "function", "function": {"name": "f", "description": "f", "parameters": parameters}}


def call(arguments: Any, name: str = "f") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def cast(text: Any, schema: Any, **more: Any) -> Any:
    value = ToolTypes.from_tools([tool({"a": schema}, **more)]).cast(call({"a": text}))
    return value["function"]["arguments"]["a"]


def t(*names: str) -> dict[str, Any]:
    return {"type": names[0] if len(names) == 1 else list(names)}


NODE = {"type": "object", "properties": {"n": t("integer"), "next": {"$ref": "#/$defs/N"}}}
ROWS = {"type": "array", "items": {"type": "object", "properties": {"id": t("integer"), "name": t("string")}}}

# schema, then pairs of a text and its value
CASTS: list[tuple[Any, list[tuple[str, Any]]]] = [
    (t("integer"), [("7", 7), (" 7\n", 7), ("007", 7), ("3.0", 3), ("+7", 7), ("1e3", 1000), ("-7.0", -7), ("-0", 0)]),
    (
        t("integer"),
        [(text, text) for text in ("", "3.5", "x", "1e400", "NaN", "true", "0x10", "9" * 5000, "1" * 100_000)],
    ),
    (
        t("number"),
        [("7", 7), ("7.0", 7.0), ("1e3", 1000), ("1.5", 1.5), (".5", 0.5), ("007", 7), ("9007199254740993", 2**53 + 1)],
    ),
    (t("number"), [(text, text) for text in ("", "x", "inf", "nan", "1e400", "-Infinity")]),
    (
        t("boolean"),
        [("true", True), ("True", True), (" FALSE ", False), ("1", True), ("0", False), ("yes", "yes"), ("", "")],
    ),
    (t("null"), [("null", None), ("None", None), (" null ", None), ("NULL", "NULL"), ("", "")]),
    (t("string"), [("4", "4"), ("null", "null"), ("{}", "{}"), (" x ", " x ")]),
    (
        t("object"),
        [
            ('{"k": "1", "n": [1]}', {"k": "1", "n": [1]}),
            (" {} ", {}),
            ("[1]", "[1]"),
            ("x", "x"),
            ('{"a":NaN}', '{"a":NaN}'),
        ],
    ),
    (
        t("object"),
        [
            ("{'k': 'v', 'n': None,}", {"k": "v", "n": None}),
            ("{'a': \"it's\\'\\a\\\n\"}", {"a": "it's'\a"}),
            (r"{'\x1b[0m': '\U0001f326\xe9\u0394'}", {"\x1b[0m": "🌦é\u0394"}),
            (r"{'a': '\U00110000'}", r"{'a': '\U00110000'}"),
            (r"{'a': '\x1'}", r"{'a': '\x1'}"),
            ("{'a'}", "{'a'}"),
        ],
    ),
    (
        t("array"),
        [
            ("[1]", [1]),
            ("[1, 'a', True,]", [1, "a", True]),
            ("(1, 2)", "(1, 2)"),
            ("[", "["),
            ("[" * 20_000, "[" * 20_000),
        ],
    ),
    (t("integer", "null"), [("null", None), ("None", None), ("7", 7), ("x", "x")]),
    (t("string", "null"), [("4", "4"), ("null", None)]),
    (t("string", "integer"), [("4", 4), ("x", "x")]),
    (t("boolean", "integer"), [("1", True), ("7", 7)]),
    (t("integer", "boolean"), [("1", 1), ("true", True)]),
    (t("number", "integer"), [("4", 4), ("4.0", 4.0)]),
    ({"anyOf": [t("integer"), t("null")]}, [("7", 7), ("null", None)]),
    ({"anyOf": [t("null"), t("string")]}, [("null", None), ("4", "4")]),
    ({"oneOf": [t("integer"), t("array")]}, [("7", 7), ("[]", [])]),
    ({"allOf": [{"$ref": "#/$defs/I"}]}, [("3", 3)]),
    ({"$ref": "#/$defs/I"}, [("3", 3)]),
    ({"$ref": "#/definitions/a~1b~0/0"}, [("3", 3)]),
    ({"$ref": "#/$defs/gone"}, [("3", "3")]),
    ({"$ref": "https://example.org/x"}, [("3", "3")]),
    ({"$ref": 7}, [("3", "3")]),
    ({"$ref": "#/$defs/loop"}, [("3", "3")]),
    ({"type": "string", "nullable": True}, [("null", None), ("4", "4")]),
    ({"enum": [1, 2]}, [("1", 1), ("x", "x")]),
    ({"enum": ["1", 2]}, [("1", "1"), ("2", 2)]),
    ({"enum": [None, "a"]}, [("null", None), ("a", "a")]),
    ({"const": 5}, [("5", 5)]),
    ({"const": True}, [("true", True)]),
    ({"const": 1.5}, [("1.5", 1.5)]),
    ({"type": "integer", "enum": ["1", 2]}, [("1", "1"), ("2", 2)]),
    ({}, [("4", "4"), ("true", "true")]),
    (True, [("4", "4")]),
    ({"type": "any"}, [("4", "4")]),
    ({"type": {"x": 1}, "anyOf": 3, "enum": "x", "properties": []}, [("4", "4")]),
    (ROWS, [('[{"id": "7", "name": "7", "x": "7"}, 1]', [{"id": 7, "name": "7", "x": "7"}, 1])]),
    (
        NODE,
        [
            (
                '{"n": "1", "next": {"n": "2", "next": "{\\"n\\": \\"3\\"}"}}',
                {"n": 1, "next": {"n": 2, "next": {"n": 3}}},
            )
        ],
    ),
    ({"type": "object", "additionalProperties": t("integer")}, [('{"a": "1"}', {"a": 1})]),
    ({"anyOf": [t("null"), ROWS]}, [('[{"id": "7"}]', [{"id": 7}])]),
    (
        {"type": "object", "allOf": [{"properties": {"a": t("integer")}}, {"properties": {"b": t("boolean")}}]},
        [('{"a": "1", "b": "1"}', {"a": 1, "b": True})],
    ),
]
DEFS = {
    "$defs": {"I": t("integer"), "N": NODE, "loop": {"anyOf": [{"$ref": "#/$defs/loop"}, {"$ref": "#"}]}},
    "definitions": {"a/b~": [t("integer")]},
}
PAIRS = [(schema, text, value) for schema, pairs in CASTS for text, value in pairs]


@pytest.mark.parametrize(("schema", "text", "value"), PAIRS, ids=lambda each: repr(each)[:40])
def test_cast(schema: Any, text: str, value: Any) -> None:
    got = cast(text, schema, **DEFS)
    assert got == value
    assert type(got) is type(value)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    TEXTS | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
)


@given(st.dictionaries(TEXTS, VALUES, max_size=3))
def test_what_python_prints_for_an_object_is_read_back(value: dict[str, Any]) -> None:
    """Some chat templates print nested arguments with Python's `str`."""
    assert cast(str(value), {"type": "object"}) == value


def test_only_strings_of_known_tools_change() -> None:
    types = ToolTypes.from_tools([tool({"a": t("integer"), "b": ROWS})])
    arguments = {"a": "1", "b": [{"id": "7"}], "c": "1"}
    before = copy.deepcopy(arguments)
    assert types.cast(call(arguments)) == call({"a": 1, "b": [{"id": "7"}], "c": "1"})
    assert arguments == before
    assert types.cast([call({"a": "1"}), call({"a": "1"}, "g"), {"x": 1}, 7]) == [
        call({"a": 1}),
        call({"a": "1"}, "g"),
        {"x": 1},
        7,
    ]
    assert types.cast(call({"a": 1.5})) == call({"a": 1.5})
    for value in ("1", None, {"name": "f"}, call("1"), call(None), {"function": {"name": ["f"]}}, {"function": "f"}):
        assert types.cast(value) == value
    assert types.cast({"id": "c", **call({"a": "1"}), "x": 1}) == {"id": "c", **call({"a": 1}), "x": 1}


def test_forms_of_tools() -> None:
    def g(a: int, b: str) -> int:
        """Nothing is needed here."""
        return a

    bare = {"name": "f", "parameters": {"type": "object", "properties": {"a": t("integer")}}}
    types = ToolTypes.from_tools([bare, g, {"type": "function", "function": {"name": "h"}}])
    assert types.cast(call({"a": "1"})) == call({"a": 1})
    assert types.cast(call({"a": "1", "b": "1"}, "g")) == call({"a": 1, "b": "1"}, "g")
    assert types.cast(call({"a": "1"}, "h")) == call({"a": "1"}, "h")
    assert ToolTypes.from_tools([]).cast(call({"a": "1"})) == call({"a": "1"})


class _Color(enum.Enum):
    RED = "1"


HINTS: list[tuple[Any, str, Any]] = [
    (int, "1", 1),
    (float, "1.5", 1.5),
    (bool, "true", True),
    (str, "1", "1"),
    (None, "None", None),
    (dict, '{"a": "1"}', {"a": "1"}),
    (list, "[1]", [1]),
    (int | None, "null", None),
    (typing.Optional[int], "7", 7),  # noqa: UP045
    (typing.Union[bool, str], "true", True),  # noqa: UP007
    (list[int], '["1"]', [1]),
    (typing.List[int], '["1"]', [1]),  # noqa: UP006
    (typing.Sequence[int], '["1"]', [1]),
    (tuple[int, ...], '["1"]', [1]),
    (tuple[int, str], '["1", "1"]', ["1", "1"]),
    (dict[str, list[int]], '{"a": ["1"]}', {"a": [1]}),
    (typing.Mapping[str, int], '{"a": "1"}', {"a": 1}),
    (typing.Literal[1, 2], "2", 2),
    (typing.Literal["1", "2"], "2", "2"),
    (typing.Annotated[int, "n"], "2", 2),
    (typing.Any, "2", "2"),
    (_Color, "1", "1"),
    ("int", "1", 1),
    ("list[int]", '["1"]', [1]),
]


@pytest.mark.parametrize(("hint", "text", "value"), HINTS, ids=str)
def test_type_hints(hint: Any, text: str, value: Any) -> None:
    def f(a):  # type: ignore[no-untyped-def]
        return a

    f.__annotations__ = {"a": hint}
    assert ToolTypes.from_tools([f]).cast(call({"a": text})) == call({"a": value})


def test_a_hint_that_cannot_be_resolved_does_not_hide_the_others() -> None:
    def f(a, b):  # type: ignore[no-untyped-def]
        return a

    f.__annotations__ = {"a": int, "b": "NoSuchName"}
    assert ToolTypes.from_tools([f]).cast(call({"a": "1", "b": "1"})) == call({"a": 1, "b": "1"})


@pytest.mark.parametrize(
    "bad",
    [
        7,
        "f",
        None,
        {},
        {"type": "function"},
        {"function": "f"},
        {"function": {}},
        {"name": 7},
        functools.partial(print),
        {"name": "f", "parameters": [1]},
    ],
    ids=repr,
)
def test_what_is_no_tool(bad: Any) -> None:
    with pytest.raises(InputTypeError, match=r"tools\[1\]"):
        ToolTypes.from_tools([tool({}), bad])


@pytest.mark.parametrize("bad", ["f", 7, {"name": "f"}, b"f"], ids=repr)
def test_what_is_no_list_of_tools(bad: Any) -> None:
    with pytest.raises(InputTypeError, match="tools must be a list"):
        ToolTypes.from_tools(bad)


def test_absurd_schemas() -> None:
    deep: dict[str, Any] = t("integer")
    for _ in range(20_000):
        deep = {"anyOf": [deep]}
    assert cast("1", deep) == "1"  # further down than anyone looks
    wide = {"anyOf": [{"$ref": "#/$defs/A"}] * 50_000}
    assert cast("1", wide, **{"$defs": {"A": {"anyOf": [wide, t("integer")]}}}) == 1
    items: dict[str, Any] = {"type": "array"}
    items["items"] = items
    text = "[" * 500 + '"[]"' + "]" * 500
    value = cast(text, items)
    for _ in range(500):
        value = value[0]
    assert value == []


SCHEMAS = st.recursive(
    st.sampled_from(["integer", "number", "boolean", "null", "object", "array", "string", "x"]).map(t)
    | st.sampled_from([{}, True, {"$ref": "#"}, {"$ref": "#/properties/a"}, {"enum": [1, "a", None]}, {"const": []}]),
    lambda inner: (
        st.fixed_dictionaries({"anyOf": st.lists(inner, max_size=3)})
        | st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.fixed_dictionaries({"type": st.just("object"), "properties": st.fixed_dictionaries({"a": inner})})
    ),
    max_leaves=6,
)
TEXTS = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF), max_size=5) | st.sampled_from(
    [
        "1",
        "1.0",
        "true",
        "null",
        "[]",
        '["1"]',
        '{"a": "1"}',
        "{'a': ['1']}",
        '{"a": {"a": "[\\"1\\"]"}}',
        "1e999",
        "[" * 600,
    ]
)


@given(SCHEMAS, TEXTS)
def test_no_schema_and_no_text_hurts(schema: Any, text: str) -> None:
    value = cast(text, schema)
    assert value == text or not isinstance(value, str)
    if isinstance(schema, dict) and schema.get("type") in ("string", "x"):
        assert value == text


ELEMENT_CASES: list[tuple[dict[str, Any], Any, Any]] = [
    (
        {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}},
        {"n": "1", "s": "1"},
        {"n": 1, "s": "1"},
    ),
    ({"type": "array", "items": {"type": "boolean"}}, ["true", "no"], [True, "no"]),
    (
        {"type": "array", "prefixItems": [{"type": "null"}, {"type": "number"}], "items": {"type": "array"}},
        ["", "2.5", ""],
        [None, 2.5, []],
    ),
    ({"type": "object", "properties": {"item": {"type": "integer"}}}, ["1"], {"item": 1}),
    ({"type": "array", "items": {"type": "integer"}}, "", []),
    ({"type": "object"}, "", {}),
    ({"type": ["string", "null"]}, "", ""),
    ({"enum": ["", "a"]}, "", ""),
    ({}, "", ""),
    ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
    ({}, {"a": ["1"]}, {"a": ["1"]}),
]


@pytest.mark.parametrize(("schema", "written", "value"), ELEMENT_CASES)
def test_the_text_of_elements_is_cast_at_every_depth(schema: dict[str, Any], written: Any, value: Any) -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"p": schema}}}
    call = {"type": "function", "function": {"name": "f", "arguments": {"p": written, "q": "7"}}}
    before = copy.deepcopy(call)
    arguments = ToolTypes.from_tools([tool]).cast_elements([call])[0]["function"]["arguments"]
    assert (arguments, call) == ({"p": value, "q": "7"}, before)


def test_what_is_no_text_of_elements_keeps_its_strings() -> None:
    tool = {"name": "f", "parameters": {"properties": {"p": {"properties": {"n": {"type": "integer"}}}}}}
    call = {"type": "function", "function": {"name": "f", "arguments": {"p": {"n": "1"}}}}
    assert ToolTypes.from_tools([tool]).cast(call) == call
