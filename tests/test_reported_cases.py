"""Faults that people reported in public for parsers of model output, reproduced (`data/reported.jsonl`).

`expected` is the message under `recover` without its `malformed` key; `malformed` says that the key must be there, and
that strict raises; `repaired` is the message under `repair` where it differs.
"""

from __future__ import annotations

from typing import Any

import pytest

import materials
from response_templates.errors import ParseError
from response_templates.parser import ResponseParser, parse_response
from response_templates.registry import get_template

FAMILIES = {"qwen3": "qwen3", "qwen3_5": "qwen3-coder", "gpt_oss": "gpt-oss", "cohere": "cohere-command-a"}
CASES = materials.reported_cases()
CASE = pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])


def whole(case: dict[str, Any], errors: str) -> dict[str, Any]:
    template = get_template(FAMILIES[case["family"]]).template
    return parse_response(case["output"], template, prefix=case["prefix"], tools=case["tools"], errors=errors)


def streamed(case: dict[str, Any], errors: str, size: int) -> dict[str, Any]:
    template = get_template(FAMILIES[case["family"]]).template
    parser = ResponseParser(template, case["prefix"], tools=case["tools"], errors=errors)
    output = case["output"]
    for start in range(0, len(output), size):
        parser.feed(output[start : start + size])
    return parser.finalize()[0]


def check(message: dict[str, Any], expected: dict[str, Any], malformed: bool) -> None:
    assert ("malformed" in message) == malformed
    got = {key: value for key, value in message.items() if key != "malformed"}
    wanted_calls = expected.get("tool_calls", [])
    for call, wanted in zip(got.get("tool_calls", []), wanted_calls, strict=False):
        if "id" not in wanted:  # a case names the id only where it is the point
            call.pop("id", None)
    assert got == expected


@CASE
def test_recover(case: dict[str, Any]) -> None:
    check(whole(case, "recover"), case["expected"], case.get("malformed", False))


@CASE
def test_repair(case: dict[str, Any]) -> None:
    message = whole(case, "repair")
    check(message, case.get("repaired", case["expected"]), case.get("malformed", False))
    assert any(item.get("repaired") for item in message.get("malformed", ())) == ("repaired" in case)


@CASE
def test_strict(case: dict[str, Any]) -> None:
    if case.get("malformed"):
        with pytest.raises(ParseError):
            whole(case, "strict")
    else:
        check(whole(case, "strict"), case["expected"], False)


@CASE
@pytest.mark.parametrize("errors", ["recover", "repair"])
@pytest.mark.parametrize("size", [1, 3])
def test_streamed_is_whole(case: dict[str, Any], errors: str, size: int) -> None:
    assert streamed(case, errors, size) == whole(case, errors)


def test_all_cases_are_there() -> None:
    assert len(CASES) == 56
