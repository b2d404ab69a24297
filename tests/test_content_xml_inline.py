"""Content parser xml-inline."""

from __future__ import annotations

import re
from typing import Any

import pytest

from response_templates.content import ContentError, compile_content

TAG = r"<(?P<key>[^>]+)>(?P<value>.*?)</>"
DSML = r'<p name="(?P<key>[^"]*)"(?: string="(?P<string>[^"]*)")?>(?P<value>.*?)</p>'
KIMI = r'<p key="(?P<key>[^"]*)"(?: type="(?P<type>[^"]*)")?>(?P<value>.*?)</p>'
ESCAPED = r'<p key="(?P<key>(?P<escaped>[^"]*))">(?P<value>.*?)</p>'
LEADING_SPACE = r"\s*<(?P<key>\w+)>(?P<value>.*?)</>\s*"
JSON = {"name": "json"}

VALUES: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({}, "junk <a>1</> junk <b> x\n</>", {"a": "1", "b": " x\n"}),
    ({}, "< a ></>", {" a ": ""}),
    ({}, "nothing", {}),
    ({}, "", {}),
    ({}, "<a>1", {}),
    ({}, "<a>1</><b>2</><a>3</>", {"a": "3", "b": "2"}),
    ({"merge_duplicates": True}, "<a>1</><b>2</><a>3</><a>4</>", {"a": ["1", "3", "4"], "b": "2"}),
    ({"merge_duplicates": True, "value_parser": JSON}, "<a>[1]</><a>[2]</>", {"a": [[1], [2]]}),
    ({"value_parser": JSON}, "<a> 1 </>", {"a": 1}),
    ({"value_parser": {"name": "text"}}, "<a> 1 </>", {"a": "1"}),
    ({"value_parser": {"name": "json", "args": {"allow_non_json": True}}}, "<a>x</><b>7</>", {"a": "x", "b": 7}),
    ({"tag_pattern": r"<(?P<key>\w+)>"}, "<a>", {"a": ""}),
    ({"tag_pattern": r"<(?P<key>\w+)(?:/|>(?P<value>x))>"}, "<a/>", {"a": None}),
    ({"tag_pattern": DSML}, '<p name="a" string="true"> 7 </p>', {"a": " 7 "}),
    ({"tag_pattern": DSML}, '<p name="a" string="false"> {"k": [1]} </p>', {"a": {"k": [1]}}),
    ({"tag_pattern": DSML}, '<p name="a">7</p>', {"a": "7"}),
    (
        {"tag_pattern": DSML, "value_parser": JSON},
        '<p name="a">7</p><p name="b" string="true">7</p>',
        {"a": 7, "b": "7"},
    ),
    ({"tag_pattern": KIMI}, '<p key="a" type="string">7</p><p key="b" type="number">7</p>', {"a": "7", "b": 7}),
    ({"tag_pattern": KIMI}, '<p key="a" type="null">null</p><p key="b">null</p>', {"a": None, "b": "null"}),
    ({"tag_pattern": KIMI}, '<p key="a&amp;b" type="string">x</p>', {"a&amp;b": "x"}),
    ({"tag_pattern": ESCAPED}, '<p key="a&amp;&quot;b&quot;">x &amp; y</p>', {'a&"b"': "x &amp; y"}),
    ({"tag_pattern": ESCAPED}, '<p key="&amp;quot;">&quot;</p><p key="">y</p>', {"&quot;": "&quot;", "": "y"}),
    ({"tag_pattern": ESCAPED}, '<p key="a&amp;b">x</p><p key="a&b">y</p>', {"a&b": "y"}),
]
ERRORS: list[tuple[dict[str, Any], str, str]] = [
    ({"value_parser": JSON}, "<a>1</><b>x</>", "the value of 'b': expected a value"),
    ({"tag_pattern": KIMI}, '<p key="a" type="number">x</p>', "the value of 'a': expected a value"),
    ({"tag_pattern": DSML}, '<p name="a" string="false">x</p>', "the value of 'a'"),
    ({"tag_pattern": r"<(?P<key>\w+)?>(?P<value>x)"}, "<>x", "has no key"),
]


def parser(args: dict[str, Any]) -> Any:
    return compile_content("xml-inline", {"tag_pattern": TAG, **args})


@pytest.mark.parametrize(("args", "body", "value"), VALUES, ids=lambda each: repr(each)[:50])
def test_value(args: dict[str, Any], body: str, value: dict[str, Any]) -> None:
    assert parser(args).parse(body) == value
    assert not parser(args).is_whole(body)


@pytest.mark.parametrize(("args", "body", "message"), ERRORS, ids=lambda each: repr(each)[:50])
def test_error(args: dict[str, Any], body: str, message: str) -> None:
    with pytest.raises(ContentError, match=message):
        parser(args).parse(body)


@pytest.mark.parametrize(
    ("pattern", "body", "open_tag"),
    [
        (TAG, "", False),
        (TAG, "<a>1</>", False),
        (TAG, "<a>1</> ", False),
        (TAG, "<a>1</><b>2", True),
        (TAG, "<a>1</><", True),
        (TAG, "junk", False),
        (LEADING_SPACE, "<a>1</>\n \n", False),
        (LEADING_SPACE, "\n", False),
        (LEADING_SPACE, "<a>1</>\n<b>\n", True),
    ],
)
def test_has_open_tag(pattern: str, body: str, open_tag: bool) -> None:
    assert parser({"tag_pattern": pattern}).has_open_tag(body) is open_tag


def test_a_search_that_takes_too_long_is_a_content_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("response_templates.patterns.REGEX_SECONDS", 0.01)
    slow = parser({"tag_pattern": r"<(?P<key>a)>(?:(a|a)*b\1)(?P<value>c)"})  # a backreference: left to `regex`
    body = "<a>" + "a" * 40
    with pytest.raises(ContentError, match="too long"):
        slow.parse(body)
    assert slow.has_open_tag(body)


ELEMENTS = r"\[<(?P<key>[^<>/]+)>(?P<value>.*?)(?P<closed>(?:\[</[^<>]+>\s*)*)(?=\[<[^/]|\Z)"
NESTED: list[tuple[str, dict[str, Any]]] = [
    ("", {}),
    ("[<a>1[</a>[<b> x\n[</b>", {"a": "1", "b": " x\n"}),
    ("[<a>[<b>1[</b>[<c>2[</c>[</a>", {"a": {"b": "1", "c": "2"}}),
    ("[<a>[<item>1[</item>[<item>[</item>[</a>", {"a": ["1", ""]}),
    ("[<a>\n[<item>[<b>1[</b>[</item>\n[<item>2[</item>\n[</a>\n", {"a": [{"b": "1"}, "2"]}),
    ("[<a>[<a>1[</a>[</a>[<a>2[</a>", {"a": "2"}),
    ("[<a><b>[ </a>[</a>", {"a": "<b>[ </a>"}),
    ("[<a>" * 9 + "x" + "[</a>" * 9, {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": "x"}}}}}}}}}),
]
BADLY_NESTED = [
    ("[<a>1", "'a' is not closed"),
    ("[<a>[<b>1[</b>", "'a' is not closed"),
    ("[<a>1[</b>", "</b> closes no element"),
    ("[<a>1[</a>[</a>", "</a> closes no element"),
    ("[<a>1[<b>2[</b>[</a>", "text beside elements: '1'"),
    ("x[<a>1[</a>", "text beside elements: 'x'"),
    ('{"a": 1}', "text beside elements"),
    ("[<a>" * 600 + "[</a>" * 600, "in each other"),
]


@pytest.mark.parametrize(("body", "value"), NESTED)
def test_elements_in_elements(body: str, value: dict[str, Any]) -> None:
    assert parser({"tag_pattern": ELEMENTS}).parse(body) == value


@pytest.mark.parametrize(("body", "message"), BADLY_NESTED, ids=lambda each: each[:20])
def test_elements_that_do_not_nest(body: str, message: str) -> None:
    with pytest.raises(ContentError, match=re.escape(message)):
        parser({"tag_pattern": ELEMENTS}).parse(body)
