"""What is particular to each registry template in the tests: one file a template, `data/domains/NAME.json`.

A new family brings its file and touches no other. All keys but `chat_templates` and `tokens` may be left out; `Domain`
says what they mean. `data/sloppy/NAME.jsonl` has its cases of sloppy output.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import materials

FOLDER = Path(__file__).parent / "data" / "domains"
SLOPPY = Path(__file__).parent / "data" / "sloppy"


@dataclass(frozen=True)
class Domain:
    """What one registry template is checked on.

    Attributes:
        name: of the registry template.
        chat_templates: those that belong to it, by `materials.ChatTemplate.id`. `make_fingerprints.py` reads them.
        tokens: what the chat templates print for `bos_token`, `eos_token` and others.
        only_by_fingerprint: those of `chat_templates` that the probe alone doesn't recognise.
        ambiguous: regex of string arguments that the format itself can't tell from its delimiters.
        rewritten: regex of arguments (as JSON) that the chat template changes when it writes them.
        prose_excluded: regex of content and reasoning that the format can't tell from its delimiters.
        not_rendered: for a chat template's id, a regex of generations that it is known to garble.
        marks: the family's delimiters; any of them may stand in a string argument.
        names: the functions' names that are drawn.
        keys: regex of the arguments' names.
        inner_keys: regex of the keys of nested objects; "" for any text.
        values: which values arguments have: "any", or "strings".
        nested_schemas: types need the schemas of what is inside objects and lists, since all values are text.
        ids: how the ids of calls look: `{number}` and `{name}` are filled in.
        switches: arguments of the chat template that turn thinking on and off, beside `SWITCHES`.
        inline: how reasoning is written into the content, for chat templates that read no key for it.
        content_as_reasoning: what stands before the text beside a call, if it is written as reasoning.
        prompt_tools: "drawn", or "simple" where the chat template chokes on others.
        legacy_tools: chat templates that want Cohere's old kind of tools.
        no_tools: chat templates that can't be rendered with tools at all.
        as_repr: chat templates that print arguments as Python does, which is no JSON: only calls without any come back.
        parts: chat templates that take texts only as lists of parts.
        earlier: chat templates that write the last turn otherwise than all before it, with what begins a user's turn:
            the message is followed by a user's, which is cut off again.
        metadata: true where a call is written by a key `metadata` and the content, not by `tool_calls`.
        prompts: chat templates that write prompts, but no answers: an output behind the prompt, and its message.
        fixtures: canitoolcall's families, each with `count`, and `models` if only those models' fixtures count.
        soft: fixtures that match only but for white space around the texts (canitoolcall's SOFT_PASS), with the reason.
        named: names of models that must find this template by the name alone.
        plain: prompt, output and message of ordinary output, which the native engine must read alike.
    """

    name: str
    chat_templates: tuple[str, ...]
    tokens: Mapping[str, str]
    only_by_fingerprint: tuple[str, ...] = ()
    ambiguous: str = ""
    rewritten: str = ""
    prose_excluded: str = ""
    not_rendered: Mapping[str, str] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    names: tuple[str, ...] = ("get_weather", "fs.read", "page-fetch", "A", "x_1")
    keys: str = r"[a-z_][a-zA-Z0-9_]{0,8}"
    inner_keys: str = ""
    values: str = "any"
    nested_schemas: bool = False
    ids: str = "abcdefgh{number}"
    switches: tuple[Mapping[str, Any], ...] = ()
    inline: str = ""
    content_as_reasoning: str = ""
    prompt_tools: str = "drawn"
    legacy_tools: tuple[str, ...] = ()
    no_tools: tuple[str, ...] = ()
    as_repr: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    earlier: Mapping[str, str] = field(default_factory=dict)
    metadata: bool = False
    prompts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fixtures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    soft: Mapping[str, str] = field(default_factory=dict)
    named: tuple[str, ...] = ()
    plain: tuple[Mapping[str, Any], ...] = ()

    def raw_outputs(self) -> list[dict[str, Any]]:
        """The family's fixtures of canitoolcall."""
        found = []
        for family, which in self.fixtures.items():
            models = set(which.get("models", ()))
            found += [each for each in materials.fixtures(family) if not models or models & set(each["models"])]
        return found

    def holds(self, message: Mapping[str, Any]) -> bool:
        """Nothing of the message is lost on the way: neither ambiguous (nested strings are quoted) nor rewritten."""
        arguments = [item["function"]["arguments"] for item in message.get("tool_calls", ())]
        texts = [value if isinstance(value, str) else as_json(value) for each in arguments for value in each.values()]
        prose = [message.get(key, "") for key in ("content", "reasoning_content")]
        return not (
            any(matches(self.ambiguous, text) for text in texts)
            or matches(self.rewritten, as_json(arguments))
            or any(matches(self.prose_excluded, text) for text in prose)
        )


def matches(pattern: str, text: str) -> bool:
    return bool(pattern) and re.search(pattern, text) is not None


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@functools.lru_cache(maxsize=1)
def domains() -> Mapping[str, Domain]:
    """All of them, by the name of the registry template."""
    return {path.stem: read(path) for path in sorted(FOLDER.glob("*.json"))}


def read(path: Path) -> Domain:
    source = json.loads(path.read_text(encoding="utf-8"))
    unknown = set(source) - {each.name for each in fields(Domain)}
    if unknown:
        raise ValueError(f"{path}: unknown keys {sorted(unknown)}")
    return Domain(
        path.stem, **{key: tuple(value) if isinstance(value, list) else value for key, value in source.items()}
    )


@functools.lru_cache(maxsize=1)
def owners() -> Mapping[str, str]:
    """Which registry template belongs to which chat template, "" for none, by `ChatTemplate.id` (tests' own list)."""
    found = {entry.id: "" for entry in materials.chat_templates()}
    for domain in domains().values():
        for identifier in domain.chat_templates:
            if found.get(identifier):
                raise ValueError(f"{identifier} belongs to {found[identifier]} and to {domain.name}")
            found[identifier] = domain.name
    return found


def sloppy_cases() -> list[dict[str, Any]]:
    """The cases of sloppy output of all templates; `template` says of which one."""
    return [
        {"template": path.stem} | json.loads(line)
        for path in sorted(SLOPPY.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
