"""Content parser json: what it reads, what it refuses, and that nothing hurts it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from response_templates.content import ContentError, compile_content
from response_templates.content.json_body import JSON, MAX_DEPTH
from response_templates.content.reader import read_all

BARE = {"unquoted_keys": True}
GEMMA = {"unquoted_keys": True, "string_delims": [['<|"|>', '<|"|>']]}
TAGS = {"string_delims": [["<s>", "</s>"], ["<s", "|"], ['"""', '"""']]}

VALUES: list[tuple[dict[str, Any], str, Any]] = [
    ({}, ' \n{"a": [1, -2.5, true, false, null, "x"]}\t', {"a": [1, -2.5, True, False, None, "x"]}),
    ({}, '"line\none\ttwo\x00"', "line\none\ttwo\x00"),
    ({}, '{"a": 1, "b": 2, "a": 3}', {"a": 3, "b": 2}),
    ({}, '"\\ud83d\\ude00 \\u00e9 \\/\\b\\f\\n\\r\\t\\\\\\""', '😀 é /\b\f\n\r\t\\"'),
    ({}, '"\\ud800"', "\ufffd"),
    ({}, '"\\ude00\\ud83dx\\ud83d\\ud83d\\ude00"', "\ufffd\ufffdx\ufffd😀"),
    ({}, '{"\\ud800": "\\\\ud800"}', {"\ufffd": "\\ud800"}),
    ({}, '"\ud800"', "\ud800"),
    ({}, "9" * 4300, 10**4300 - 1),
    ({}, "-" + "9" * 4300, 1 - 10**4300),
    ({}, "1e-400", 0.0),
    ({}, "{}", {}),
    ({}, "[ ]", []),
    (BARE, "{a: 1, b_2: {c: [{$d: 1}]}}", {"a": 1, "b_2": {"c": [{"$d": 1}]}}),
    (BARE, "{1: 2, é: 3, x-y.z : 4}", {"1": 2, "é": 3, "x-y.z": 4}),
    (BARE, '{"a b": "c: 1, d: 2", true: true}', {"a b": "c: 1, d: 2", "true": True}),
    (BARE, '{a:"{b:1}", c:"\\"d\\":"}', {"a": "{b:1}", "c": '"d":'}),
    (BARE, '{"a":1}', {"a": 1}),
    (BARE, "{Basic LLM  Chain:{main x: 1}, a b : 2}", {"Basic LLM  Chain": {"main x": 1}, "a b": 2}),
    (BARE, "{a:None, b:[True,False], None: null}", {"a": None, "b": [True, False], "None": None}),
    (GEMMA, '{a:<|"|>x "y" \\n\n{b:1}<|"|>, b:"<|", c:<|"|><|"|>}', {"a": 'x "y" \\n\n{b:1}', "b": "<|", "c": ""}),
    (GEMMA, '{<|"|>a b<|"|>:1, c:[<|"|>1<|"|>,<|"|>2<|"|>]}', {"a b": 1, "c": ["1", "2"]}),
    (GEMMA, '{a:"\\ud83d <|\\"|>"}', {"a": '\ufffd <|"|>'}),
    (TAGS, '[<s>a|b</s>, <s a|, """a"b""", "", "</s>"]', ["a|b", " a", 'a"b', "", "</s>"]),
    ({"allow_non_json": True}, " He said [1 \n", "He said [1"),
    ({"allow_non_json": True}, ' {"a": 1} ', {"a": 1}),
    ({"allow_non_json": True}, "1e400", "1e400"),
    ({"allow_non_json": True}, "[" * 20_000, "[" * 20_000),
]

# body, what the message says, position
ERRORS: list[tuple[dict[str, Any], str, str, int]] = [
    ({}, "", "the text is empty", 0),
    ({}, "  ", "expected a value (at the end", 2),
    ({}, "NaN", "expected a value", 0),
    ({}, "[1, -Infinity]", "expected a value at character 4", 4),
    ({}, "[1e400]", "the number is too large at character 1", 1),
    ({}, "[" + "9" * 4301 + "]", "the number is too large", 1),
    ({}, "[" + "9" * 100_000 + "]", "the number is too large", 1),
    ({}, "01", "unexpected text after the value", 1),
    ({}, "1 2", "unexpected text after the value at character 2", 2),
    ({}, '{"a": 1,}', "expected a key in quotes at character 8, near", 8),
    ({}, "[1,]", "expected a value", 3),
    ({}, '{"a" 1}', "expected ':'", 5),
    ({}, "[1 2]", "expected ',' or ']'", 3),
    ({}, '{"a": 1', "expected ',' or '}' (at the end", 7),
    ({}, '["a', "this string never ends", 1),
    ({}, '["a\\"]', "this string never ends", 1),
    ({}, '"a\\d"', r"no such escape: '\\d' at character 2", 2),
    ({}, '"\\u12"', "no such escape", 1),
    ({}, "{a: 1}", "expected a key in quotes", 1),
    ({}, "'a'", "expected a value", 0),
    ({}, "\ufeff1", "expected a value", 0),
    ({}, "\u00a01", "expected a value", 0),
    ({}, "[" * 20_000, f"nested more than {MAX_DEPTH} levels", MAX_DEPTH),
    ({}, '{"a":' * 20_000, f"nested more than {MAX_DEPTH} levels", 5 * MAX_DEPTH),
    (BARE, "{a, b: 1}", "expected ':'", 2),
    (BARE, "{a: none}", "expected a value", 4),
    (BARE, "[a: 1]", "expected a value", 1),
    (GEMMA, '{a:<|"|>x', "never closed by '<|\"|>'", 7),
]


@pytest.mark.parametrize(("args", "body", "value"), VALUES, ids=lambda each: repr(each)[:40])
def test_value(args: dict[str, Any], body: str, value: Any) -> None:
    assert compile_content("json", args).parse(body) == value


@pytest.mark.parametrize(("args", "body", "message", "position"), ERRORS, ids=lambda each: repr(each)[:40])
def test_error_says_what_and_where(args: dict[str, Any], body: str, message: str, position: int) -> None:
    with pytest.raises(ContentError) as caught:
        compile_content("json", args).parse(body)
    assert message in str(caught.value)
    assert caught.value.position == position
    assert caught.value.message == str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_deepest(brackets: str) -> None:
    opening = "[" if brackets == "[]" else '{"a":'
    body = opening * (MAX_DEPTH - 1) + brackets + brackets[1] * (MAX_DEPTH - 1)
    value = compile_content("json", {}).parse(body)
    for _ in range(MAX_DEPTH - 1):
        value = value[0] if brackets == "[]" else value["a"]
    assert value == ([] if brackets == "[]" else {})


def test_many_containers_that_are_not_deep() -> None:
    assert compile_content("json", {}).parse("[" + "[]," * 5000 + "[]]") == [[]] * 5001


def test_brackets_inside_strings_do_not_count() -> None:
    body = json.dumps(["[" * 20_000 + '\\"'])
    assert compile_content("json", {}).parse(body) == ["[" * 20_000 + '\\"']


@pytest.mark.parametrize(
    ("args", "body", "whole"),
    [
        ({}, '{"a": 1}\n', True),
        ({}, "[]", True),
        ({}, '"x"', True),
        ({}, "true", True),
        ({}, "12", False),
        ({}, "1.5", False),
        ({}, '{"a": 1', False),
        ({}, '{"a": 1}}', False),
        ({}, "", False),
        (GEMMA, '{a:<|"|>}<|"|>}', True),
        (GEMMA, '{a:<|"|>}', False),
        ({"allow_non_json": True}, "text", False),
        ({"allow_non_json": True}, "{}", True),
    ],
    ids=str,
)
def test_is_whole(args: dict[str, Any], body: str, whole: bool) -> None:
    assert compile_content("json", args).is_whole(body) is whole


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
JSON_LIKE = st.lists(
    st.sampled_from([*'{}[]:,"\\ \n', '"a"', "1", "-0", "1e9", "1e999", "true", "null", "NaN", "\\n", "\\ud83d", "x"]),
    max_size=14,
).map("".join)


def _finite(value: Any) -> bool:
    if isinstance(value, (list, dict)):
        return all(map(_finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


@given(JSON_VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_reads_what_python_writes(value: Any, ascii_only: bool, indent: int | None) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    for args in ({}, BARE, GEMMA):
        assert compile_content("json", args).parse(body) == value
    assert read_all(body, JSON) == value


@given(JSON_LIKE | JSON_VALUES.map(json.dumps) | st.text())
def test_agrees_with_the_standard_library(body: str) -> None:
    expected = outcome(lambda text: json.loads(text, strict=False), body)
    if not _finite(expected):
        expected = REFUSED
    for read in (compile_content("json", {}).parse, lambda text: read_all(text, JSON)):
        value = outcome(read, body)
        assert value == expected or (value is not REFUSED and expected is not REFUSED and "\\ud" in body.lower())


REFUSED = object()


def outcome(read: Callable[[str], Any], body: str) -> Any:
    """The value of `body`, or REFUSED."""
    try:
        return read(body)
    except ValueError:
        return REFUSED


@given(JSON_VALUES.map(json.dumps), st.data())
def test_a_prefix_is_not_whole(body: str, data: st.DataObject) -> None:
    if body[0] in '{["':
        cut = data.draw(st.integers(0, len(body) - 1))
        assert not compile_content("json", {}).is_whole(body[:cut])
