"""Conservation: every character is in exactly one span, and the spans say where it went."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from response_templates import Span, explain, load_template
from response_templates.delimiters import last_match
from response_templates.spans import _Witness
from strategies import Case, cases, hostile_texts, splits

TEMPLATE: dict[str, Any] = {
    "start_anchor": "@",
    "fields": {
        "reasoning_content": {"open": "<think>", "close": "</think>"},
        "content": {"close": "<|end|>"},
        "tool_calls": {
            "open": "<call>",
            "close": "</call>",
            "content": "json",
            "repeats": True,
            "transform": {"type": "function", "function": "{content}"},
        },
    },
}
EXPLICIT: dict[str, Any] = {"start_anchor": "@", "fields": {"a": {"open": "<a>", "close_pattern": r"</a>\s*"}}}
D, T, X = "delimiter", "text", "discarded"

EXPLAINED: dict[str, tuple[dict[str, Any], str, list[tuple[str, str, str | None]]]] = {
    "nothing": (TEMPLATE, "", []),
    "only text": (TEMPLATE, "Hi", [("Hi", T, "content")]),
    "regions": (
        TEMPLATE,
        "<think> a </think>\nb<|end|>",
        [
            ("<think>", D, "reasoning_content"),
            (" a ", T, "reasoning_content"),
            ("</think>", D, "reasoning_content"),
            ("\nb", T, "content"),
            ("<|end|>", D, "content"),
        ],
    ),
    "discarded text": (
        EXPLICIT,
        "x<a>y</a>  z",
        [("x", X, None), ("<a>", D, "a"), ("y", T, "a"), ("</a>  ", D, "a"), ("z", X, None)],
    ),
    "a malformed call": (
        TEMPLATE,
        "<call>{</call>",
        [("<call>", D, "tool_calls"), ("{", T, "tool_calls"), ("</call>", D, "tool_calls")],
    ),
    "a close inside a string": (
        TEMPLATE,
        '<call>"</call>"</call>',
        [("<call>", D, "tool_calls"), ('"</call>"', T, "tool_calls"), ("</call>", D, "tool_calls")],
    ),
    "a string that never ends": (
        TEMPLATE,
        '<call>"</call>x',
        [("<call>", D, "tool_calls"), ('"', T, "tool_calls"), ("</call>", D, "tool_calls"), ("x", T, "content")],
    ),
    "the beginning of a close at the end": (
        TEMPLATE,
        "<call>1</cal",
        [("<call>", D, "tool_calls"), ("1", T, "tool_calls"), ("</cal", D, "tool_calls")],
    ),
    "the beginning of a close at the end of text": (
        TEMPLATE,
        "<think>a</thi",
        [("<think>", D, "reasoning_content"), ("a</thi", T, "reasoning_content")],
    ),
    "two delimiters in a row": (
        TEMPLATE,
        "<think></think><|end|>",
        [("<think>", D, "reasoning_content"), ("</think>", D, "reasoning_content"), ("<|end|>", D, "content")],
    ),
}


@pytest.mark.parametrize(("template", "text", "expected"), EXPLAINED.values(), ids=EXPLAINED.keys())
def test_where_each_character_went(
    template: dict[str, Any], text: str, expected: list[tuple[str, str, str | None]]
) -> None:
    spans = explain(text, template, prefix="")
    assert [(text[span.start : span.end], span.kind, span.field) for span in spans] == expected


def test_what_the_prefix_pre_wrote_comes_first() -> None:
    assert explain("b</think>", TEMPLATE, prefix="x@<think>a") == [
        Span(0, 7, "delimiter", "reasoning_content"),
        Span(7, 9, "text", "reasoning_content"),
        Span(9, 17, "delimiter", "reasoning_content"),
    ]


def spans_of(case: Case, chunks: list[str]) -> list[Span]:
    witness = _Witness(case.template, case.prefix, errors="recover")
    for chunk in chunks:
        witness.feed(chunk)
    witness.finalize()
    return witness.spans


def parsed_text(case: Case) -> str:
    """What is parsed: what the prefix pre-wrote, and the generation."""
    template = load_template(case.template)
    anchor = last_match(template.start_anchor_pattern, template.start_anchor)(case.prefix)
    return (case.prefix if anchor is None else case.prefix[anchor[1] :]) + case.text


def check_conservation(case: Case, chunks: list[str]) -> None:
    spans = spans_of(case, chunks)
    at = 0
    for span in spans:
        assert span.start == at < span.end
        assert (span.kind == "discarded") == (span.field is None)
        at = span.end
    assert at == len(parsed_text(case))
    assert spans == spans_of(case, [case.text])


@given(cases())
def test_every_character_is_in_one_span(case: Case) -> None:
    check_conservation(case, [case.text])
    check_conservation(case, list(case.text))


@given(cases().flatmap(lambda case: splits(case.text).map(lambda chunks: (case, chunks))))
def test_however_the_text_is_cut(pair: tuple[Case, list[str]]) -> None:
    check_conservation(*pair)


@given(cases(), hostile_texts())
def test_of_any_text_at_all(case: Case, text: str) -> None:
    case = Case(case.template, case.prefix, text)
    check_conservation(case, [text])
    check_conservation(case, list(text))
