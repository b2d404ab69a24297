"""Hostile and sloppy output of each family: no call is lost, none is invented (`data/sloppy/NAME.jsonl`).

Each case says what comes out under `recover` (`message`, and how many regions are `malformed`) and, where it differs,
under `repair` (`repaired`).
"""

from __future__ import annotations

from typing import Any

import pytest

from domains import sloppy_cases
from response_templates.errors import ParseError
from response_templates.parser import ResponseParser, parse_response
from response_templates.registry import get_template

CASES = sloppy_cases()
CASE = pytest.mark.parametrize("case", CASES, ids=[f"{case['template']}: {case['case']}" for case in CASES])


def parsed(case: dict[str, Any], errors: str) -> tuple[dict[str, Any], int]:
    """The message without `malformed`, and how many regions are listed there; whole and streamed agree."""
    template = get_template(case["template"]).template
    message = parse_response(case["output"], template, prefix=case["prefix"], errors=errors)
    parser = ResponseParser(template, case["prefix"], errors=errors)
    for character in case["output"]:
        parser.feed(character)
    assert parser.finalize()[0] == message
    return message, len(message.pop("malformed", ()))


@CASE
def test_recover(case: dict[str, Any]) -> None:
    assert parsed(case, "recover") == (case["message"], case["malformed"])


@CASE
def test_repair(case: dict[str, Any]) -> None:
    assert parsed(case, "repair") == (case.get("repaired", case["message"]), case["malformed"])


@CASE
def test_strict_raises_where_something_is_malformed(case: dict[str, Any]) -> None:
    if case["malformed"]:
        with pytest.raises(ParseError):
            parsed(case, "strict")
    else:
        assert parsed(case, "strict") == (case["message"], 0)
