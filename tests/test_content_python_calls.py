"""Content parser python-call-list."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from response_templates.content import ContentError, compile_content
from response_templates.content.python_calls import MAX_DEPTH, MAX_INTEGER

PARSER = compile_content("python-call-list", {})


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


LISTS: list[tuple[str, list[dict[str, Any]]]] = [
    ("[]", []),
    (" [ ]\n", []),
    ("[f()]", [call("f")]),
    ("[ f ( a = 1 ) , g( ) ]\r\n", [call("f", a=1), call("g")]),
    ("[f(a\n=\n1\n)]", [call("f", a=1)]),
    ("[f.g-1.h()]", [call("f.g-1.h")]),
    ("[True(class=1)]", [call("True", **{"class": 1})]),
    ("[f(a-b.c=1)]", [call("f", **{"a-b.c": 1})]),
    ("[f(a='x\ty', b=\"it's\", c='')]", [call("f", a="x\ty", b="it's", c="")]),
    (
        "[f(a='\\\\ \\' \\\" \\/ \\b \\f \\n \\r \\t \\u00e9 \\ud83d\\ude00')]",
        [call("f", a="\\ ' \" / \b \f \n \r \t é 😀")],
    ),
    ("[f(a='\\x41\\U0001f600\\xe9')]", [call("f", a="A😀é")]),
    ("[f(a='x\ny\r', b=\"\n\")]", [call("f", a="x\ny\r", b="\n")]),
    ('[{"name": "f", "arguments": {"a": 1}}]', [call("f", a=1)]),
    (' [ {"name": "f", "arguments": {}},\n{"name": "g", "arguments": {"a": "]"}} ]', [call("f"), call("g", a="]")]),
    ("[f(a='x](,)')]", [call("f", a="x](,)")]),
    ("[f(a=-1, b=1.5, c=1E+3, d=-0, e=0.5e-3)]", [call("f", a=-1, b=1.5, c=1000.0, d=0, e=0.0005)]),
    (f"[f(a={MAX_INTEGER}, b=-{MAX_INTEGER})]", [call("f", a=MAX_INTEGER, b=-MAX_INTEGER)]),
    (
        "[f(a=True,b=False,c=None,d=true,e=false,f=null)]",
        [call("f", a=True, b=False, c=None, d=True, e=False, f=None)],
    ),
    ("[f(a=[1, 'x', [], {}], b={'k' : 1, \"j\": [2]})]", [call("f", a=[1, "x", [], {}], b={"k": 1, "j": [2]})]),
]
LINES: list[tuple[str, list[dict[str, Any]]]] = [
    ("f()", [call("f")]),
    (
        'f(city="Paris", opts={"a": [1, true, null]})\ng(tz="CET")',
        [call("f", city="Paris", opts={"a": [1, True, None]}), call("g", tz="CET")],
    ),
    ("f(a=1), g()", [call("f", a=1), call("g")]),
    ("f();g() ;\n h()", [call("f"), call("g"), call("h")]),
    ("\nf()\r\n\r\ng()\n", [call("f"), call("g")]),
    ("f(a='\\n)\\n')\ng()", [call("f", a="\n)\n"), call("g")]),
]
ERRORS: list[tuple[str, str, int | None]] = [
    ("", "the name of a function", 0),
    ("[f(),]", "the name of a function", 5),
    ("[f(a=1,)]", "no trailing comma", 7),
    ("[f(1)]", "no positional arguments", 3),
    ("[f(a=1, a=2)]", "'a' comes twice", 8),
    ("[f(a={'k': 1, 'k': 2})]", "'k' comes twice", 14),
    ("[f(a=1)] x", "after the closing ']'", 9),
    ("[f()][g()]", "after the closing ']'", 5),
    ("[f()g()]", "expected ',' or ']'", 4),
    ("[f(a=1 b=2)]", "expected ',' or ')'", 7),
    ("[f.()]", "expected '('", 2),
    ("[é()]", "the name of a function", 1),
    ("[1f()]", "the name of a function", 1),
    ("[f(é=1)]", "expected name=value", 3),
    ("\u00a0[f()]", "the name of a function", 0),
    ("[\x0bf()]", "the name of a function", 1),
    ("[f(a='\ud800')]", "lone surrogate", 6),
    ("[f(a='\\ud800')]", "lone surrogate", 6),
    ("[f(a='\\x4')]", "no such escape", 6),
    ("[f(a='\\U00110000')]", "no such character", 6),
    ('[{"name": "f"}, 1]', "list of objects", None),
    ('{"name": "f"} g()', "expected an object", 14),
    ('{"name": "f"};', "expected an object", 14),
    ('[{"name": "f"}', "expected", 14),
    ("[f(a='x)]", "never ends", 5),
    ("[f(a='x' 'y')]", "expected ',' or ')'", 9),
    ("[f(a=+1)]", "expected a value", 5),
    ("[f(a=01)]", "expected ',' or ')'", 6),
    ("[f(a=.5)]", "expected a value", 5),
    ("[f(a=1e400)]", "too large", 5),
    (f"[f(a={MAX_INTEGER + 1})]", "too large", 5),
    (f"[f(a={'9' * 50_000})]", "too large", 5),
    ("[f(a=NaN)]", "expected a value", 5),
    ("[f(a=TRUE)]", "expected a value", 5),
    ("[f(a=b)]", "expected a value", 5),
    ("[f(a=g())]", "expected a value", 5),
    ("[f(a=(1, 2))]", "expected a value", 5),
    ("[f(a=[1,])]", "expected a value", 8),
    ("[f(a={k: 1})]", "expected a key in quotes", 6),
    ("[f(a={1: 1})]", "expected a key in quotes", 6),
    ("f() g()", "expected a line break", 4),
    ("f(),", "the name of a function", 4),
    ("f()\n[g()]", "the name of a function", 4),
    ("[" * 20_000, "the name of a function", 1),
    ("[f(a=" + "[" * 20_000, f"more than {MAX_DEPTH} levels", 5 + MAX_DEPTH),
]


@pytest.mark.parametrize(("body", "calls"), [*LISTS, *LINES], ids=lambda each: repr(each)[:50])
def test_value(body: str, calls: list[dict[str, Any]]) -> None:
    assert PARSER.parse(body) == calls


@pytest.mark.parametrize(("body", "message", "position"), ERRORS, ids=lambda each: repr(each)[:50])
def test_error(body: str, message: str, position: int | None) -> None:
    with pytest.raises(ContentError) as caught:
        PARSER.parse(body)
    assert message in str(caught.value)
    assert caught.value.position == position


def test_deepest() -> None:
    nested: Any = 1
    for _ in range(MAX_DEPTH):
        nested = {"k": nested}
    assert PARSER.parse(f"[f(a={json.dumps(nested)})]") == [call("f", a=nested)]


@pytest.mark.parametrize("body", [body for body, _ in LISTS], ids=repr)
def test_a_list_is_whole_only_once_it_is_closed(body: str) -> None:
    assert PARSER.is_whole(body)
    end = body.rindex("]")
    assert not any(PARSER.is_whole(body[:cut]) for cut in range(end + 1))


OBJECTS: list[tuple[str, list[dict[str, Any]]]] = [
    ('{"name": "f", "arguments": {"a": 1}}', [call("f", a=1)]),
    (
        '{"name": "f", "arguments": {"a": "x"}}{"name": "g", "arguments": {}};\n{"name": "h", "arguments": {"a": "]"}}',
        [call("f", a="x"), call("g"), call("h", a="]")],
    ),
    (' {"name": "f"}\n,{"name": "f"}', [{"name": "f"}, {"name": "f"}]),
]


@pytest.mark.parametrize(("body", "calls"), OBJECTS, ids=repr)
def test_json_objects_without_a_list(body: str, calls: list[dict[str, Any]]) -> None:
    assert PARSER.parse(body) == calls
    assert PARSER.is_whole(body)
    assert not PARSER.is_whole(body.rstrip()[:-1])


@pytest.mark.parametrize(
    ("body", "whole"),
    [("f()", True), ("f(a=1)\ng(", False), ("f(a=1)\ng()", True), ("f(a=1),", False), ("f(a='", False)],
)
def test_calls_without_brackets_are_whole_if_each_is(body: str, whole: bool) -> None:
    assert PARSER.is_whole(body) is whole


SCALARS = st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER)
VALUES = st.recursive(
    SCALARS | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,5}\Z")
CALLS = st.lists(st.tuples(NAMES, st.dictionaries(NAMES, VALUES, max_size=3)), min_size=1, max_size=3)


@given(CALLS, st.sampled_from([", ", "\n", ";"]))
def test_reads_json_values_in_python_calls(calls: list[tuple[str, dict[str, Any]]], separator: str) -> None:
    written = [f"{name}({', '.join(f'{k}={json.dumps(v)}' for k, v in values.items())})" for name, values in calls]
    expected = [{"name": name, "arguments": values} for name, values in calls]
    assert PARSER.parse(f"[{', '.join(written)}]") == expected
    assert PARSER.parse(separator.join(written)) == expected
