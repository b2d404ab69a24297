"""Turns as the families write them, a few for each registry template: for tests that need any real turn, not all.

They are the ordinary output of its domain (`Domain.plain`), and messages with tricky arguments as one of its chat
templates renders them, where it is at hand.
"""

from __future__ import annotations

import functools
from typing import Any

import materials
from domains import Domain, domains
from rendering import DoesNotRender, Renderer, Turn, call
from response_templates.registry import get_template
from roundtrip import HISTORIES, LEGACY_TOOL, SIMPLE_TOOL, tools_of

CITY = {"city": 'São "Paulo"\n\\d 🌦️', "days": 3, "exact": False}
NESTED = {"items": [1, {"a": "x, y", "b": [None, -2.5e3]}, "]"], "text": "  two\n  lines "}
LOOKALIKES = {"zip": "007", "flag": "true", "note": "null", "rows": "[1, 2]", "empty": ""}
TEXT = "It is so:\n\n- a < b\n- «東京» 🌦️"
MESSAGES: tuple[dict[str, Any], ...] = (
    {"content": TEXT, "reasoning_content": "First this.\n\nThen {that}."},
    {"content": "", "tool_calls": [call("get_weather", CITY, "abcdefgh0")]},
    {"content": "", "tool_calls": [call("fs_read", NESTED, "abcdefgh0"), call("now", {}, "abcdefgh1")]},
    {"content": "One moment.", "reasoning_content": "Hm.", "tool_calls": [call("look_up", LOOKALIKES, "abcdefgh0")]},
)


@functools.cache
def turns(name: str) -> tuple[tuple[Turn, list[Any]], ...]:
    """Turns of the family of the registry template `name`, each with the tools of its calls."""
    domain = domains()[name]
    plain = [(Turn(each["prompt"], each["output"]), tools_of(each["message"])) for each in domain.plain]
    return (*plain, *rendered(domain))


def rendered(domain: Domain) -> list[tuple[Turn, list[Any]]]:
    at_hand = {entry.id for entry in materials.chat_templates()}
    for identifier in (each for each in domain.chat_templates if each in at_hand):
        found = rendered_by(domain, identifier)
        if found:
            return found
    return []


def rendered_by(domain: Domain, identifier: str) -> list[tuple[Turn, list[Any]]]:
    renderer = Renderer.of(materials.chat_template(identifier), domain, get_template(domain.name).template)
    simple = LEGACY_TOOL if identifier in domain.legacy_tools else SIMPLE_TOOL
    found = []
    for message in MESSAGES:
        tools = tools_of(message) if domain.values == "any" else []
        offered = {} if identifier in domain.no_tools else {"tools": [simple]}
        try:
            turn = renderer.turn(HISTORIES["first"], {"role": "assistant", **message}, **offered)
        except DoesNotRender:  # some refuse some values
            continue
        found.append((turn, tools))
    return found
