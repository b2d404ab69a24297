"""The registry: response templates by name, and the one that fits a tokenizer or model.

A registered template is two files, `NAME.json` (the response template) and `NAME.meta.json` (which models and chat
templates it belongs to, and from where that is known). Nothing here knows a family: all that is particular is data.

How a template is found, strongest evidence first
    1. The chat template's text is known: its fingerprint is listed in a metadata file.
    2. The chat template is asked (see `probing`): what it writes for calls that we know has the shape that a metadata
       file describes, and the response template gives these very calls back.
    3. Only where there is no chat template: the config's `model_type` or `architectures`.
    4. Only then as well: the model's name.
    Evidence that points to two templates is none.

Invariant: `template_for` answers None rather than guess, and never runs a chat template in this process.
Bound: one process start (`probing.TIME_LIMIT`) per unknown chat template; the files are read once.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .errors import ParseError, UnknownTemplateError
from .template import ResponseTemplate, load_template

_CONFIG_FILES = ("config.json", "tokenizer_config.json", "chat_template.jinja", "chat_template.json")
# A checkpoint may have several chat templates; the one that knows of tools says most.
_PREFERRED = ("tool_use", "default")


@dataclass(frozen=True, slots=True)
class RegisteredTemplate:
    """A template of the registry.

    Attributes:
        name: its name, e.g. `qwen3`.
        template: the response template.
        meta: its metadata (models, fingerprints of chat templates, end tokens, quirks, sources).
        reason: why `template_for` chose it, and what of the chat template's output can't be read back, if that is
            known; empty when it was asked for by name.
        loss: that part of the reason alone; empty where nothing is lost.
    """

    name: str
    template: ResponseTemplate
    meta: Mapping[str, Any]
    reason: str = ""
    loss: str = ""


def list_templates() -> list[str]:
    """The names of all registered templates, sorted."""
    return sorted(_registry())


def get_template(name: str) -> RegisteredTemplate:
    """The registered template called `name`. Raises UnknownTemplateError, which names the nearest ones."""
    registry = _registry()
    if name in registry:
        return registry[name]
    near = difflib.get_close_matches(str(name), registry, n=3, cutoff=0.5) or sorted(registry)
    raise UnknownTemplateError(f"no response template named {name!r}; did you mean {', '.join(near)}?")


def template_for(source: Any) -> RegisteredTemplate | None:
    """The registered template that fits `source`; `.reason` says why. None where it would be a guess.

    Args:
        source: a tokenizer or processor, a model id of the Hub, the path of a checkpoint folder, or the text of a chat
            template. For a model id, its small configuration files are taken from the Hub's cache, or fetched unless
            the Hub is set to offline.
    """
    evidence = _evidence(source)
    for finder in (_by_fingerprint, _by_probe) if evidence.chat_templates else (_by_config, _by_name):
        found = finder(evidence)
        if found is not None:
            return found
    return None


def fingerprint(chat_template: str) -> str:
    """SHA-256 (hex) of a chat template's text, line ends unified and the outer white space dropped."""
    text = chat_template.replace("\r\n", "\n").replace("\r", "\n").strip()
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# --- the files -----------------------------------------------------------------------------------------------------


def templates_folder() -> Path:
    """Where the template files are: inside the installed package, or beside `src` in a checkout."""
    inside = Path(__file__).parent / "templates"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "templates"


@lru_cache(maxsize=1)
def _registry() -> Mapping[str, RegisteredTemplate]:
    found = {}
    for path in sorted(templates_folder().glob("*.json")):
        if not path.name.endswith(".meta.json"):
            found[path.stem] = RegisteredTemplate(path.stem, load_template(path), _meta(path))
    return MappingProxyType(found)


def _meta(path: Path) -> Mapping[str, Any]:
    beside = path.with_name(f"{path.stem}.meta.json")
    return MappingProxyType(json.loads(beside.read_text(encoding="utf-8")) if beside.is_file() else {})


# --- evidence ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What is known of a model: the texts of its chat templates (most telling first), its config, its names."""

    chat_templates: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()  # model_type and architectures
    names: tuple[str, ...] = ()


def _evidence(source: Any) -> _Evidence:
    if isinstance(source, os.PathLike) or (isinstance(source, str) and os.path.isdir(source)):
        return _of_folder(Path(source))
    if isinstance(source, str):
        if "{%" in source or "{{" in source:
            return _Evidence(chat_templates=(source,))
        return _of_model_id(source)
    return _of_tokenizer(source)


def _of_tokenizer(tokenizer: Any) -> _Evidence:
    inner = getattr(tokenizer, "tokenizer", None)
    texts = _texts(getattr(tokenizer, "chat_template", None)) or _texts(getattr(inner, "chat_template", None))
    name = getattr(tokenizer, "name_or_path", None) or getattr(inner, "name_or_path", None)
    if not isinstance(name, str) or not name:
        return _Evidence(texts)
    beside = _of_folder(Path(name)) if os.path.isdir(name) else _Evidence(names=(name,))
    return replace(beside, chat_templates=texts)  # what the tokenizer says now counts, not what its folder says


def _of_folder(folder: Path) -> _Evidence:
    files = {name: folder / name for name in _CONFIG_FILES if (folder / name).is_file()}
    more = {path.stem: _read(path) for path in sorted((folder / "additional_chat_templates").glob("*.jinja"))}
    return _of_files(files, folder.resolve().name, more)


def _of_model_id(name: str) -> _Evidence:
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        return _Evidence()
    files: dict[str, Path] = {}
    with contextlib.suppress(Exception):  # no such model, gated, no network: what came so far, and the name
        files.update(_hub_files(name))
    return _of_files(files, name, {})


def _hub_files(model: str) -> Iterator[tuple[str, Path]]:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    for file in _CONFIG_FILES:
        with contextlib.suppress(EntryNotFoundError, LocalEntryNotFoundError):  # the other files may be there
            yield file, Path(hf_hub_download(model, file))


def _of_files(files: Mapping[str, Path], name: str, more: Mapping[str, str]) -> _Evidence:
    config = _json(files.get("config.json"))
    kinds = [config.get("model_type"), *(config.get("architectures") or ())]
    named = dict(more)
    if "chat_template.jinja" in files:
        named["default"] = _read(files["chat_template.jinja"])
    own = _json(files.get("chat_template.json")).get("chat_template")
    texts = _texts(named) or _texts(own) or _texts(_json(files.get("tokenizer_config.json")).get("chat_template"))
    origin = config.get("_name_or_path")
    names = tuple(item for item in (name, origin) if isinstance(item, str) and item)
    return _Evidence(texts, tuple(kind for kind in kinds if isinstance(kind, str)), names)


def _json(path: Path | None) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _texts(chat_template: Any) -> tuple[str, ...]:
    """The texts of a `chat_template` attribute: a string, a dict by name, or a list of name and template."""
    if isinstance(chat_template, str):
        return (chat_template,) if chat_template else ()
    if isinstance(chat_template, list):
        entries = [item for item in chat_template if isinstance(item, dict)]
        chat_template = {str(item.get("name")): item.get("template") for item in entries}
    if not isinstance(chat_template, Mapping):
        return ()
    order = [*_PREFERRED, *sorted(set(chat_template) - set(_PREFERRED))]
    texts = (chat_template.get(name) for name in order)
    return tuple(text for text in texts if isinstance(text, str) and text)


# --- the ways to find a template -----------------------------------------------------------------------------------


def _only(found: Iterable[RegisteredTemplate], reason: str) -> RegisteredTemplate | None:
    candidates = list(found)
    return replace(candidates[0], reason=reason) if len(candidates) == 1 else None


def _first(texts: Iterable[str], find: Callable[[str], RegisteredTemplate | None]) -> RegisteredTemplate | None:
    return next((found for text in texts if (found := find(text)) is not None), None)


def _by_fingerprint(evidence: _Evidence) -> RegisteredTemplate | None:
    def find(text: str) -> RegisteredTemplate | None:
        print_ = fingerprint(text)
        known = [entry for entry in _registry().values() if print_ in entry.meta.get("fingerprints", {})]
        where = known[0].meta["fingerprints"][print_] if known else ""
        loss = known[0].meta.get("losses", {}).get(where, "") if known else ""
        found = _only(known, f"its chat template is known (that of {where}; fingerprint {print_[:12]})")
        return replace(found, reason=f"{found.reason}; {loss}", loss=loss) if found and loss else found

    return _first(evidence.chat_templates, find)


def _by_probe(evidence: _Evidence) -> RegisteredTemplate | None:
    return _first(evidence.chat_templates, _probe)


def _probe(text: str) -> RegisteredTemplate | None:
    from . import probing

    described = [(entry, probe) for entry in _registry().values() for probe in entry.meta.get("probes", ())]
    candidates = [(entry, probe) for entry, probe in described if _marked(text, probe)]
    if not candidates:
        return None
    rendered = probing.render_probes(text)
    fitting = {
        entry.name: (entry, probe)
        for entry, probe in candidates
        if _shaped(rendered, probe) and _inverts(entry.template, rendered, probe)
    }
    what = " and ".join(sorted({shape for _, probe in fitting.values() for shape in probe["shapes"]}))
    reason = f"its chat template writes a probe message ({what}) as this family's templates do"
    return _only((entry for entry, _ in fitting.values()), reason)


def _marked(text: str, probe: Mapping[str, Any]) -> bool:
    """A look at the source before anything is run: all marks of `with` are in it, none of `without`."""
    return all(mark in text for mark in probe["with"]) and not any(mark in text for mark in probe.get("without", ()))


def _shaped(rendered: Mapping[str, str], probe: Mapping[str, Any]) -> bool:
    """What follows the user's message has the described shape, for each probe message that is described."""
    return all(
        re.fullmatch(shape, _after_user(rendered.get(name, "")), re.DOTALL) for name, shape in probe["shapes"].items()
    )


def _after_user(text: str) -> str:
    from .probing import USER

    _, said, after = text.rpartition(USER["content"])
    return after if said else ""


def _inverts(template: ResponseTemplate, rendered: Mapping[str, str], probe: Mapping[str, Any]) -> bool:
    """The calls and the answer that were rendered come back."""
    return all(
        _comes_back(template, rendered[name], 1 if name == "call" else probe.get("calls", 2))
        for name in probe["shapes"]
        if name in {"calls", "call", "null_calls", "id_calls", "content"}
    )


def _comes_back(template: ResponseTemplate, text: str, calls: int) -> bool:
    from . import probing
    from .parser import parse_response

    try:
        message = parse_response("", template, prefix=text, tools=probing.TYPED_TOOLS)
    except ParseError:
        return False
    got = [item.get("function") for item in message.get("tool_calls", ())]
    if got:
        return got == [item["function"] for item in probing.CALLS[:calls]]
    return message.get("content") in (None, probing.ANSWER)


def _by_config(evidence: _Evidence) -> RegisteredTemplate | None:
    kinds = set(evidence.kinds)
    found = [entry for entry in _registry().values() if kinds & set(entry.meta.get("config", ()))]
    named = ", ".join(sorted(kinds))
    return _only(found, f"it has no chat template; its config says {named}")


def _by_name(evidence: _Evidence) -> RegisteredTemplate | None:
    for name in evidence.names:
        found = _only(_named(name, _listed), f"only its name is known; {name} is a model of this family")
        found = found or _only(_named(name, _matches), f"only its name is known; {name} is named as this family is")
        if found is not None:
            return found
    return None


def _named(name: str, test: Callable[[str, Mapping[str, Any]], bool]) -> Iterator[RegisteredTemplate]:
    return (entry for entry in _registry().values() if test(name, entry.meta))


def _listed(name: str, meta: Mapping[str, Any]) -> bool:
    return name.lower() in _lowered(tuple(meta.get("models", ())))


@lru_cache(maxsize=256)
def _lowered(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


def _matches(name: str, meta: Mapping[str, Any]) -> bool:
    last = name.rsplit("/", 1)[-1]
    return any(re.search(pattern, last, re.IGNORECASE) for pattern in meta.get("name_patterns", ()))
