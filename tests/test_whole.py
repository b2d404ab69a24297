"""Whole texts: what the quick search finds is what a search in the stream finds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from response_templates.delimiters import Delimiter, WatchList
from response_templates.parser import ResponseParser, parse_response
from response_templates.search import Budget
from response_templates.whole import WholeSearch, WholeText

WATCH_LISTS = {
    "literals": [("open", "x", "<a>", None), ("close", "y", "</a>", None)],
    "one inside another": [("open", "x", "<a>", None), ("open", "y", "<a><b>", None)],
    "proved": [("open", "x", None, r"<a>(?P<n>\d*)\s*(?:<b>)?"), ("close", "y", None, r"(?<=x)</a>|</a>(?=b)")],
    "not proved": [("open", "x", None, r"<a>(?:x|xx)*<b>"), ("close", "y", None, r"<b>")],
    "only short runs": [("open", "x", None, r"<a=(?P<n>[^>]+)>"), ("close", "y", None, r"</a>|<a(?=b)")],
    "at the start": [("open", "x", None, r"\A<b>|\A(?=x)|<a>"), ("close", "y", None, "<a><b>")],
    "anywhere": [("open", "x", None, r"\s*<a>"), ("close", "y", None, r"\d+b")],
    "empty": [("open", "x", None, r"(?=<a>)"), ("close", "y", None, r"(?=<)")],
}
PIECES = ["<a>", "<b>", "</a>", "<a=", ">", "x", "b", "1", " ", "\n", "<", "</"]


def watch_list(name: str) -> WatchList:
    return WatchList(Delimiter(*each) for each in WATCH_LISTS[name])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", WATCH_LISTS)
@given(
    text=st.lists(st.sampled_from(PIECES), max_size=16).map("".join),
    begin=st.integers(0, 8),
    blocked=st.sampled_from([frozenset(), frozenset({0}), frozenset({0, 1})]),
)
def test_same_match_and_groups(name: str, text: str, begin: int, blocked: frozenset[int]) -> None:
    watch = watch_list(name)
    at = min(begin, len(text))
    context = text[:at]
    streamed = watch.begin(10 + at, context, blocked)
    if streamed.settled() is None:
        streamed.feed(text, at)
    expected = streamed.settled() or streamed.finish()
    whole = WholeSearch(WholeText(text, 10), watch, 10 + at, context, blocked, Budget())
    found = whole.settled()
    assert (found and found[:3]) == (expected and expected[:3])
    if found is not None and expected is not None and found.groups is not None:
        rest = text[found.start - 10 :]
        groups = watch.groups(expected, rest, found.start, text[: found.start - 10], True)
        assert {key: value for key, value in groups.items() if value is not None} == {
            key: value for key, value in found.groups.items() if value is not None
        }
    if found is None:
        assert whole.held_from == streamed.held_from


@pytest.mark.parametrize("prefix", ["", "@<think>", "@<think>\nI", "@<think>x</thi", '@<tool_call>{"a": "</tool_call>'])
@pytest.mark.parametrize("text", ["", "x", "</think>y", 'nk>\n<tool_call>{"name": "f"}</tool_call>', '"}</tool_call>'])
@pytest.mark.parametrize("errors", ["strict", "recover"])
def test_after_any_prefix(prefix: str, text: str, errors: str) -> None:
    template = {
        "start_anchor": "@",
        "fields": {
            "reasoning_content": {"open": "<think>", "close": "</think>"},
            "content": {},
            "tool_calls": {"open": "<tool_call>", "close": "</tool_call>", "content": "json", "repeats": True},
        },
    }

    def outcome(parse) -> str:  # type: ignore[no-untyped-def]
        try:
            return json.dumps(parse())
        except ValueError as error:
            return str(error)

    def streamed() -> dict[str, object]:
        parser = ResponseParser(template, prefix, errors=errors)  # type: ignore[arg-type]
        parser.feed(text)
        return parser.finalize()[0]

    assert outcome(lambda: parse_response(text, template, prefix=prefix, errors=errors)) == outcome(streamed)  # type: ignore[call-overload]
