"""Every content parser on every text: a value, or a `ContentError` that can be shown; never anything else."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from response_templates.content import ContentError, ContentParser, compile_content

DELIMITED = {"unquoted_keys": True, "string_delims": [["<|", "|>"], ['"""', '"']]}
TAG = r"<(?P<key>\w+)(?: type=(?P<type>\w*))?>(?P<value>.*?)(?:</>|\Z)"
PARSERS: list[tuple[str, dict[str, Any]]] = [
    ("text", {}),
    ("int", {}),
    ("float", {}),
    ("bool", {}),
    ("json", {}),
    ("json", DELIMITED),
    ("json", {**DELIMITED, "allow_non_json": True}),
    ("xml-inline", {"tag_pattern": TAG}),
    ("xml-inline", {"tag_pattern": TAG, "value_parser": {"name": "json"}, "merge_duplicates": True}),
    ("kv-lines", {}),
    ("kv-lines", {"value_parser": {"name": "float"}}),
    ("python-call-list", {}),
]
COMPILED = [compile_content(name, args) for name, args in PARSERS]
CHARACTERS = st.sampled_from(
    [*"{}[]()<>\"'\\:,;=-.+eE01aN \n\r\0", "\ud800", "\udc00", "😀", "\u2028", "٣", "true", "None", "1e400", "9" * 5000]
)
PIECES = st.sampled_from(
    ["\\ud83d", "\\u", "f(a=", '{"a":', "<a>", "<a type=x>", "</>", "<|", "|>", '"""', "a: ", "NaN", "[" * 600]
)
ANY_CHARACTER = st.characters(min_codepoint=0, max_codepoint=0x10FFFF)
TEXTS = (
    st.lists(CHARACTERS | PIECES, max_size=12).map("".join)
    | st.text(ANY_CHARACTER)
    | st.text(ANY_CHARACTER, max_size=3)
)


@given(st.sampled_from(COMPILED), TEXTS)
def test_a_value_or_a_content_error(parser: ContentParser, body: str) -> None:
    try:
        value = parser.parse(body)
    except ContentError as error:
        str(error).encode("utf-8")
        assert error.position is None or 0 <= error.position <= len(body)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
        assert parser.name != "json" or not parser.is_whole(body)
    else:
        if not isinstance(value, int):  # long integers have a limit of their own in json.dumps
            json.dumps(value, allow_nan=False)
    assert parser.is_whole(body) in (True, False)


HOSTILE = [
    "[",
    "{",
    '{"a":',
    '"',
    "\\",
    '\\"',
    "'",
    "f(",
    "f(a=",
    "f()",
    "f()\n",
    "<a>",
    "<a",
    "<a>1</>",
    " ",
    "\n",
    "1",
    "1,",
    "a:",
    "<|",
    "\ud800",
]


def outcome(parser: ContentParser, text: str) -> str:
    """The error's message, or nothing."""
    try:
        parser.parse(text)
    except ContentError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("parser", COMPILED, ids=[f"{name}-{number}" for number, (name, _) in enumerate(PARSERS)])
@pytest.mark.parametrize("unit", HOSTILE, ids=repr)
def test_a_long_text_of_one_kind(parser: ContentParser, unit: str) -> None:
    body = unit * (100_000 // len(unit))
    for text in (body, "[" + body, '{"a":"' + body, "[f(a='" + body):
        assert len(outcome(parser, text)) < 1500  # 60 characters at a time, ten each where they are escaped
