"""The reference is worth something only if it is right itself: the SPEC's sentences with values worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from reference import Delimiter, Rejected, Span, reference_parse
from strategies import Case, cases

Fields = dict[str, dict[str, Any]]

R = {"open": "<a>", "close": "</a>"}
JSON = {**R, "content": "json"}
CALLS = {**JSON, "repeats": True, "transform": {"type": "function", "function": "{content}"}}
XML = {
    "open_pattern": r"<f=(?P<n>\w+)>",
    "content": "xml-inline",
    "content_args": {"tag_pattern": r"<p=(?P<key>\w+)>(?P<value>.*?)</p>"},
    "transform": {"type": "function", "function": {"name": "{n}", "arguments": "{content}"}},
}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def broken(field: str, text: str) -> list[tuple[str, str]]:
    return [(field, text)]


# the sentence: fields, text, message ("malformed" as (field, text) pairs)
SENTENCES: dict[str, tuple[Fields, str, dict[str, Any]]] = {
    "text outside regions is the implicit field's": ({"c": {}, "r": R}, "x<a>y</a>", {"c": "x", "r": "y"}),
    "without an implicit field it is discarded": ({"r": R}, "x<a>y</a>z", {"r": "y"}),
    "inside a region only its own close is looked for": (
        {"c": {"close": "|"}, "r": R, "s": {"open": "<s>"}},
        "<a>1|<s><a>2</a>3",
        {"r": "1|<s><a>2", "c": "3"},
    ),
    "no close: open until the end": ({"r": {"open": "<a>"}}, "<a>y</a>", {"r": "y</a>"}),
    "the delimiter that starts first": ({"x": {"open": "<b"}, "y": {"open": "a<bbb"}}, "a<bbb1", {"y": "1"}),
    "at the same place the longest": ({"x": {"open": "<"}, "y": {"open": ["<<<", "<<"]}}, "<<1", {"y": "1"}),
    "then opens before closes": ({"c": {"close": "|"}, "r": {"open": "|"}}, "a|b", {"c": "a", "r": "b"}),
    "then by field name": ({"y": {"open": "|"}, "x": {"open": "|"}}, "|b", {"x": "b"}),
    "a pattern's own preference decides its end": (
        {"c": {}, "r": {"open": "<", "close_pattern": "(?:a|ab)"}},
        "<xab!",
        {"r": "x", "c": "b!"},
    ),
    "an optional tail belongs to the close": (
        {"c": {}, "r": {"open": "<a>", "close_pattern": r"</a>(?:\s*</b>)?"}},
        "<a>x</a> \n</b>y",
        {"r": "x", "c": "y"},
    ),
    "a lookahead close leaves its text": (
        {"c": {}, "r": {"open": "<a>", "close_pattern": "(?=X)"}},
        "<a>xXy",
        {"r": "x", "c": "Xy"},
    ),
    "an empty open and an empty close make progress": (
        {"c": {"repeats": True}, "r": {"open_pattern": "(?=X)", "close_pattern": "(?=X)", "repeats": True}},
        "aXb",
        {"c": ["a", "Xb"], "r": [""]},
    ),
    "the implicit field's close is no text": (
        {"c": {"close": "|", "repeats": True}},
        "a||b| |c",
        {"c": ["a", "b", "", "c"]},
    ),
    "a whitespace region does not overwrite content": (
        {"c": {}, "r": R},
        "x<a>y</a> \n<a>z</a>\n",
        {"c": "x", "r": "z"},
    ),
    "the later value wins": ({"r": R}, "<a>y</a><a>z</a>", {"r": "z"}),
    "repeats collects": ({"r": {**R, "repeats": True}}, "<a>y</a><a></a>", {"r": ["y", ""]}),
    "join counts empty matches": ({"r": {**R, "repeats": True, "join": "|"}}, "<a>a</a><a></a><a>b</a>", {"r": "a||b"}),
    "empty values are left out": ({"c": {}, "r": JSON}, "<a>{}</a> ", {}),
    "0 and false are not empty": (
        {"r": {**JSON}, "s": {"open": "<s>", "content": "json"}},
        "<a>0</a><s>false",
        {"r": 0, "s": False},
    ),
    "strip=false keeps the layout": ({"c": {"content_args": {"strip": False}}}, "  a ", {"c": "  a "}),
    "a group is a name in the transform": (
        {"r": {"open_pattern": "<(?P<n>[ab]+)>", "close": "</a>", "transform": {"n": "{n}", "c": ["{content}"]}}},
        "<ab>x</a>",
        {"r": {"n": "ab", "c": ["x"]}},
    ),
    "close wins over open": (
        {"r": {"open_pattern": "<(?P<n>a)>", "close_pattern": "</(?P<n>b)?>", "transform": "{n}", "repeats": True}},
        "<a>x</b><a>y</>",
        {"r": ["b", "a"]},
    ),
    "a group that did not take part fills nothing": (
        {"r": {"open_pattern": "<(?P<n>a)?>", "close": "|", "transform": {"n": "{n}"}}},
        "<>x|",
        {"malformed": broken("r", "<>x|")},
    ),
    "transform_each": (
        {"r": {**JSON, "transform": {"q": "{k}"}, "transform_each": True}},
        '<a>[{"k": 1}, {"k": null}]</a>',
        {"r": [{"q": 1}, {"q": None}]},
    ),
    "a close in a string is text": ({"r": JSON, "c": {}}, '<a>{"k": "</a>"}</a>z', {"r": {"k": "</a>"}, "c": "z"}),
    "an escaped quote does not end the string": ({"r": JSON}, r'<a>"\"</a>"</a>', {"r": '"</a>'}),
    "a close in a custom string is text": (
        {"r": {**JSON, "content_args": {"string_delims": [["<|", "|>"]]}}},
        '<a>{"k": <|"</a>|>}</a>',
        {"r": {"k": '"</a>'}},
    ),
    "a close in a Python string is text": (
        {"tool_calls": {**CALLS, "content": "python-call-list"}},
        "<a>[f(k='\"</a>')]</a>",
        {"tool_calls": [call("f", k='"</a>')]},
    ),
    "a string that never ends: the first close was it": (
        {"r": JSON, "c": {}},
        '<a>"x</a>y</a>z',
        {"malformed": broken("r", '<a>"x</a>'), "c": "y</a>z"},
    ),
    "the held beginning of a close is no body": ({"r": JSON}, "<a>1</", {"r": 1}),
    "of a text region it is text": ({"r": R}, "<a>1</", {"r": "1</"}),
    "a held pattern beginning": (
        {"r": {"open": "<a>", "close_pattern": r"\s*</a>", "content": "json"}},
        "<a>1 \n</",
        {"r": 1},
    ),
    "malformed: the markup is kept, parsing goes on": (
        {"r": JSON, "c": {}},
        "x<a>{</a>y",
        {"malformed": broken("r", "<a>{</a>"), "c": "y"},
    ),
    "missing": ({"c": {}, "r": {**R, "optional": False}}, "x", {"c": "x", "malformed": broken("r", "")}),
    "calls: arguments missing": ({"tool_calls": CALLS}, '<a>{"name": "f"}</a>', {"tool_calls": [call("f")]}),
    "calls: arguments null": (
        {"tool_calls": CALLS},
        '<a>{"name": "f", "arguments": null}</a>',
        {"tool_calls": [call("f")]},
    ),
    "calls: arguments as a string": (
        {"tool_calls": CALLS},
        r'<a>{"name": "f", "arguments": "{\"k\": 1}"}</a>',
        {"tool_calls": [call("f", k=1)]},
    ),
    "calls: parameters": (
        {"tool_calls": CALLS},
        '<a>{"name": "f", "parameters": {"k": 1}}</a>',
        {"tool_calls": [call("f", k=1)]},
    ),
    "calls: an id": (
        {"tool_calls": CALLS},
        '<a>{"name": "f", "arguments": {}, "tool_call_id": "7"}</a>',
        {"tool_calls": [{**call("f"), "id": "7"}]},
    ),
    "calls: a list is a call each": (
        {"tool_calls": CALLS},
        '<a>[{"name": "f"}, {"name": "g"}]</a><a>{"name": "h"}</a>',
        {"tool_calls": [call("f"), call("g"), call("h")]},
    ),
    "calls: the name as the key": ({"tool_calls": CALLS}, '<a>{"f": {"k": 1}}</a>', {"tool_calls": [call("f", k=1)]}),
    "calls: no name": ({"tool_calls": CALLS}, "<a>{}</a>", {"malformed": broken("tool_calls", "<a>{}</a>")}),
    "calls: arguments are a list": (
        {"tool_calls": CALLS},
        '<a>{"name": "f", "arguments": [1]}</a>',
        {"malformed": broken("tool_calls", '<a>{"name": "f", "arguments": [1]}</a>')},
    ),
    "calls: shaped otherwise on purpose": (
        {"tool_calls": {**JSON, "transform": {"call": "{content}"}}},
        '<a>{"arguments": [1]}</a>',
        {"tool_calls": {"call": {"arguments": [1]}}},
    ),
    "cut off: whole by itself": ({"tool_calls": CALLS}, '<a>{"name": "f"}', {"tool_calls": [call("f")]}),
    "cut off: not whole": (
        {"tool_calls": CALLS},
        '<a>{"name": "f"',
        {"malformed": broken("tool_calls", '<a>{"name": "f"')},
    ),
    "cut off: parameters closed, call not": (
        {"tool_calls": {**XML, "close": "</f>"}},
        "<f=g><p=a>1</p></",
        {"malformed": broken("tool_calls", "<f=g><p=a>1</p></")},
    ),
    "no close at all: no tag open": ({"tool_calls": XML}, "<f=g><p=a>1</p>", {"tool_calls": call("g", a="1")}),
    "no close at all: a tag left open": (
        {"tool_calls": XML},
        "<f=g><p=a>1</p><p=b>",
        {"malformed": broken("tool_calls", "<f=g><p=a>1</p><p=b>")},
    ),
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_reference_reads_the_sentence(sentence: str) -> None:
    fields, text, expected = SENTENCES[sentence]
    message, _, spans = reference_parse({"version": 1, "start_anchor": "@", "fields": fields}, text)
    if "malformed" in message:
        message["malformed"] = [(entry["field"], entry["text"]) for entry in message["malformed"]]
    assert message == expected
    assert "".join(text[span.start : span.end] for span in spans) == text


PREFIXES = {
    "all up to the last anchor is dropped": ("<s>a<s>b", "bc"),
    "no anchor: all of it is parsed": ("ab", "abc"),
    "the longest at a tie": ("<s><s>>b", "bc"),
    "none": ("", "c"),
}


@pytest.mark.parametrize("name", PREFIXES)
def test_prefix(name: str) -> None:
    prefix, expected = PREFIXES[name]
    template = {"start_anchor": ["<s>", "<s>>"], "fields": {"content": {}}}
    assert reference_parse(template, "c", prefix)[0] == {"content": expected}


def test_events_and_spans() -> None:
    template = {"start_anchor": "@", "fields": {"c": {}, "r": JSON}}
    message, events, spans = reference_parse(template, " x <a>1</a> <a>?</a>")
    assert [(event["type"][7:], event["field"], event.get("text", event.get("value"))) for event in events] == [
        ("open", "c", None),
        ("chunk", "c", "x "),
        ("close", "c", "x"),
        ("open", "r", None),
        ("chunk", "r", "1"),
        ("close", "r", 1),
        ("open", "c", None),
        ("close", "c", ""),
        ("open", "r", None),
        ("chunk", "r", "?"),
        ("malformed", "r", "<a>?</a>"),
    ]
    assert spans[:4] == [
        Span(0, 3, "text", "c"),
        Span(3, 6, "delimiter", "r"),
        Span(6, 7, "text", "r"),
        Span(7, 11, "delimiter", "r"),
    ]
    assert message["c"] == "x"


def test_strict_raises_at_the_first_malformed_region() -> None:
    template = {"start_anchor": "@", "defaults": {"role": "assistant"}, "fields": {"c": {}, "r": JSON}}
    with pytest.raises(Rejected) as caught:
        reference_parse(template, "b<a>?</a><a>!</a>", "@a", errors="strict")
    error = caught.value
    assert (error.field, error.text, error.position) == ("r", "<a>?</a>", 1)
    assert error.partial == {"role": "assistant", "c": "ab"}


def test_a_pattern_that_could_still_match_is_a_beginning() -> None:
    close = Delimiter("r", "close", r"\s*</a>(?=b)", True)
    assert [close.begins_at("x \n</a>", at) for at in range(7)] == [False, True, True, True, False, False, False]


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(cases())
def test_spans_cover_the_text_once(case: Case) -> None:
    at = 0
    for span in reference_parse(case.template, case.text)[2]:
        assert span.start == at < span.end
        at = span.end
    assert at == len(case.text)
