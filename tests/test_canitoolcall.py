"""canitoolcall's raw outputs and what they mean: every fixture, strict equality, whole and streamed.

`strict` here is canitoolcall's word: everything is compared exactly but that `""` is null and numbers are compared by
value. Outputs are parsed with `errors="recover"`, the mode for what a server receives.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

import materials
from response_templates.parser import ResponseParser, parse_response
from response_templates.registry import get_template

FAMILIES = {"qwen3-hermes": ("qwen3", 50), "qwen3-xml": ("qwen3-coder", 54), "gpt-oss": ("gpt-oss", 51)}


def fixtures() -> Iterator[Any]:
    if not materials.have("canitoolcall"):
        yield pytest.param({}, id="no-material")
        return
    for family in FAMILIES:
        for fixture in materials.fixtures(family):
            yield pytest.param(fixture, id=fixture["id"])


def outcome(message: dict[str, Any]) -> dict[str, Any]:
    calls = [call["function"] for call in message.get("tool_calls", [])]
    keys = ("content", "reasoning_content")
    return {key: message.get(key) or None for key in keys} | {"tool_calls": plain(calls)}


def plain(value: Any) -> Any:
    """JSON values such that equal means equal to canitoolcall: `1` and `1.0` are one number, `true` is none."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def check(message: dict[str, Any], fixture: dict[str, Any]) -> None:
    got = outcome(message)
    if "expected" in fixture:
        wanted = fixture["expected"]
        assert got == {
            "content": wanted["content"] or None,
            "reasoning_content": wanted["reasoning_content"] or None,
            "tool_calls": plain(wanted["tool_calls"]),
        }
        return
    accepted = fixture["expected_error"]["accept"]
    assert not got["tool_calls"]
    assert "no_tool_calls" in accepted or got["content"] == fixture["raw_output"]
    json.dumps(message)


def pieces(text: str, kind: str) -> list[str]:
    if kind == "characters":
        return list(text)
    chance = random.Random(kind)
    cuts = sorted(chance.randrange(len(text) + 1) for _ in range(len(text) // 6))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@pytest.mark.parametrize("fixture", list(fixtures()))
def test_whole(fixture: dict[str, Any]) -> None:
    materials.folder("canitoolcall")
    template = get_template(FAMILIES[fixture["family"]][0]).template
    prompt, tools = fixture["generation_prompt"], fixture["tools"]
    check(parse_response(fixture["raw_output"], template, prefix=prompt, tools=tools, errors="recover"), fixture)


@pytest.mark.parametrize("kind", ["characters", "groups-1", "groups-2"])
@pytest.mark.parametrize("fixture", list(fixtures()))
def test_streamed(fixture: dict[str, Any], kind: str) -> None:
    materials.folder("canitoolcall")
    template = get_template(FAMILIES[fixture["family"]][0]).template
    parser = ResponseParser(template, fixture["generation_prompt"], tools=fixture["tools"], errors="recover")
    for piece in pieces(fixture["raw_output"], kind):
        parser.feed(piece)
    check(parser.finalize()[0], fixture)


@pytest.mark.parametrize(("family", "number"), [(family, number) for family, (_, number) in FAMILIES.items()])
def test_all_fixtures_are_there(family: str, number: int) -> None:
    assert len(materials.fixtures(family)) == number
