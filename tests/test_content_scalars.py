"""Content parsers text, int, float and bool, and the lines of kv-lines."""

from __future__ import annotations

from typing import Any

import pytest

from response_templates.content import ContentError, compile_content

VALUES: list[tuple[str, dict[str, Any], str, Any]] = [
    ("text", {}, " a\n b \n", "a\n b"),
    ("text", {}, "\u00a0a\u2003", "a"),
    ("text", {"strip": False}, " a\n", " a\n"),
    ("text", {}, "\ud800\x00", "\ud800\x00"),
    ("int", {}, " 007\n", 7),
    ("int", {}, "-7", -7),
    ("int", {}, "9" * 4300, 10**4300 - 1),
    ("float", {}, " 1.5 ", 1.5),
    ("float", {}, "1e3", 1000.0),
    ("bool", {}, " TRUE ", True),
    ("bool", {}, "1", True),
    ("bool", {}, "yes", False),
    ("bool", {}, "", False),
    ("kv-lines", {}, "a: 1\nb:2", {"a": "1", "b": "2"}),
    ("kv-lines", {}, " a : b:c \n\nnope\na:\n", {"a": ""}),
    ("kv-lines", {}, "a: 1\r\nb: 2", {"a": "1", "b": "2"}),
    ("kv-lines", {}, ":1", {"": "1"}),
    ("kv-lines", {}, "", {}),
    ("kv-lines", {"strip": False}, " a : 1 ", {" a ": " 1 "}),
    ("kv-lines", {"line_sep": ";", "kv_sep": "=>"}, "a=>1;b=>2=>3", {"a": "1", "b": "2=>3"}),
    ("kv-lines", {"value_parser": {"name": "json"}}, "a: [1]\nb: null", {"a": [1], "b": None}),
    ("kv-lines", {"value_parser": {"name": "text"}, "strip": False}, "a:  1 ", {"a": "1"}),
]
ERRORS: list[tuple[str, dict[str, Any], str, str]] = [
    ("int", {}, "7.0", "not an integer: '7.0'"),
    ("int", {}, "", "not an integer: ''"),
    ("int", {}, "9" * 4301, "not an integer"),
    ("float", {}, "x", "not a finite number"),
    ("float", {}, "nan", "not a finite number"),
    ("float", {}, "1e400", "not a finite number"),
    ("kv-lines", {"value_parser": {"name": "int"}}, "a: 1\nb: x", "line 2, the value of 'b': not an integer"),
]


@pytest.mark.parametrize(("name", "args", "body", "value"), VALUES, ids=str)
def test_value(name: str, args: dict[str, Any], body: str, value: Any) -> None:
    got = compile_content(name, args).parse(body)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(("name", "args", "body", "message"), ERRORS, ids=str)
def test_error(name: str, args: dict[str, Any], body: str, message: str) -> None:
    with pytest.raises(ContentError, match=message):
        compile_content(name, args).parse(body)


@pytest.mark.parametrize("name", ["text", "int", "float", "bool", "kv-lines"])
def test_none_of_them_knows_that_it_is_whole(name: str) -> None:
    parser = compile_content(name, {})
    assert not parser.is_whole("a: 1")
    assert parser.strings is None
    assert parser.name == name
    assert parser.is_text == (name != "kv-lines")


def test_unknown_parser() -> None:
    with pytest.raises(KeyError):
        compile_content("yaml", {})
