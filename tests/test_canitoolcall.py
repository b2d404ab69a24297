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
from domains import domains
from response_templates.parser import ResponseParser, parse_response
from response_templates.registry import get_template


def fixtures() -> Iterator[Any]:
    if not materials.have("canitoolcall"):
        yield pytest.param("", {}, id="no-material")
        return
    for name, domain in domains().items():
        for fixture in domain.raw_outputs():
            yield pytest.param(name, fixture, id=f"{name}-{fixture['id']}")


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


def stripped(outcome: dict[str, Any]) -> dict[str, Any]:
    """But for white space around the texts: what the suite calls a soft pass."""
    return {key: (value.strip() or None) if isinstance(value, str) else value for key, value in outcome.items()}


def check(message: dict[str, Any], fixture: dict[str, Any], *, soft: bool = False) -> None:
    got = outcome(message)
    if "expected" in fixture:
        expected = fixture["expected"]
        wanted = {key: expected[key] or None for key in ("content", "reasoning_content")}
        wanted |= {"tool_calls": plain(expected["tool_calls"])}
        if soft:
            assert got != wanted, "passes strictly: needn't be listed"
            got, wanted = stripped(got), stripped(wanted)
        assert got == wanted
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


def whole(name: str, fixture: dict[str, Any]) -> dict[str, Any]:
    template, prompt = get_template(name).template, fixture["generation_prompt"]
    return parse_response(fixture["raw_output"], template, prefix=prompt, tools=fixture["tools"], errors="recover")


def streamed(name: str, fixture: dict[str, Any], kind: str) -> dict[str, Any]:
    template, prompt = get_template(name).template, fixture["generation_prompt"]
    parser = ResponseParser(template, prompt, tools=fixture["tools"], errors="recover")
    for piece in pieces(fixture["raw_output"], kind):
        parser.feed(piece)
    return parser.finalize()[0]


@pytest.mark.parametrize(("name", "fixture"), list(fixtures()))
def test_whole(name: str, fixture: dict[str, Any]) -> None:
    materials.folder("canitoolcall")
    check(whole(name, fixture), fixture, soft=fixture["id"] in domains()[name].soft)


KINDS = ["characters", "groups-1", "groups-2"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "fixture"), list(fixtures()))
def test_streamed(name: str, fixture: dict[str, Any], kind: str) -> None:
    materials.folder("canitoolcall")
    check(streamed(name, fixture, kind), fixture, soft=fixture["id"] in domains()[name].soft)


@pytest.mark.parametrize(
    ("name", "number"),
    [(name, sum(each["count"] for each in domain.fixtures.values())) for name, domain in domains().items()],
)
def test_all_fixtures_are_there(name: str, number: int) -> None:
    materials.folder("canitoolcall")
    assert len(domains()[name].raw_outputs()) == number
