"""canitoolcall's 469 raw outputs by the suite's own rules: its fixtures, its chunkings, its checks, its statuses.

An output is parsed with the template that `template_for` answers for the fixture's model by name, `errors="recover"`:
whole, at the family's markers, by characters and in random groups, as the suite's `run` does with other engines. The
suite marks chunkings that an engine can't meet as not counting; here all count, for to us a stream is text.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any
from unittest import mock

import regex

import materials
from materials import canitoolcall
from response_templates import registry
from response_templates.parser import ResponseParser, parse_response
from response_templates.registry import RegisteredTemplate

STRATEGIES = ("one", "special", "token", "rand:1:8", "rand:2:8", "rand:3:8", "rand:4:8", "rand:5:8")


@functools.cache
def fixtures() -> tuple[Any, ...]:
    """All fixtures of the suite, by id."""
    return tuple(sorted(canitoolcall("fixtures").load_fixtures(), key=lambda fixture: str(fixture.id)))


@functools.cache
def families() -> Mapping[str, Any]:
    return dict(canitoolcall("fixtures").load_families())


@functools.cache
def template_of(model: str) -> RegisteredTemplate | None:
    """By the model's name alone: the suite has no chat templates, and the Hub isn't asked."""
    with mock.patch.object(registry, "_hub_files", lambda name: iter(())):
        return registry.template_for(model)


@functools.cache
def prompts(family: str) -> Mapping[str, str]:
    """The generation prompt of each of the family's fixtures: its own, or its model's."""
    return {fixture["id"]: fixture["generation_prompt"] or "" for fixture in materials.fixtures(family)}


def prompt_of(fixture: Any) -> str:
    return prompts(fixture.family)[fixture.id]


def units(fixture: Any, strategy: Any) -> list[str]:
    """The output in the strategy's pieces; its units are characters, and the family's markers where it has any."""
    markers = sorted(families()[fixture.family].markers, key=len, reverse=True)
    pattern = "|".join([*map(regex.escape, markers), "."])
    found = regex.findall(pattern, fixture.raw_output, regex.DOTALL) if strategy.kind == "special" else []
    split = canitoolcall("chunking").split
    texts = found or list(fixture.raw_output)
    return ["".join(group) for group in split(texts, strategy, special=set(markers))]


def as_result(message: Mapping[str, Any]) -> Any:
    """Our message as the suite's result of a parse."""
    results = canitoolcall("results")
    calls = [item["function"] for item in message.get("tool_calls", ())]
    return results.ParseResult(
        content=message.get("content"),
        reasoning_content=message.get("reasoning_content"),
        tool_calls=tuple(
            results.ParsedToolCall(call["name"], json.dumps(call["arguments"], ensure_ascii=False)) for call in calls
        ),
    )


def observed(fixture: Any, entry: RegisteredTemplate) -> Any:
    """The fixture parsed whole, and streamed in every chunking."""
    prompt, tools = prompt_of(fixture), list(fixture.tools)
    whole = parse_response(fixture.raw_output, entry.template, prefix=prompt, tools=tools, errors="recover")
    streams = {}
    for strategy in canitoolcall("chunking").parse_strategies(STRATEGIES):
        parser = ResponseParser(entry.template, prompt, tools=tools, errors="recover")
        for piece in units(fixture, strategy):
            parser.feed(piece)
        streams[strategy.id] = as_result(parser.finalize()[0])
    return canitoolcall("results").Observation(nonstream=as_result(whole), streams=streams)


def judged(fixture: Any) -> dict[str, Any]:
    """The suite's verdict on one fixture: its status, and what its checks say where it isn't a pass."""
    entry = template_of(fixture.models[0])
    known = {"id": fixture.id, "model": fixture.models[0], "template": entry.name if entry else ""}
    if entry is None:
        return known | {"status": "unsupported", "detail": "no template by this name"}
    checks = canitoolcall("checks")
    rows = checks.run_checks(fixture, families()[fixture.family], observed(fixture, entry))
    details = dict.fromkeys(f"{row.check}: {row.detail}" for row in rows if row.status.value != "pass")
    return known | {"status": checks.case_status(rows).value, "detail": "; ".join(details)}
