"""Conformance texts in both engines: the same message, or a difference of a kind that docs/differences.md names.

A black box: transformers' native engine is called, never read. `compared` says of one text `same`, or the kind of the
difference (`KINDS`), by what the two messages and the text show; what no kind explains is `unexplained`, which
`test_conformance.py` allows nowhere. Needs transformers 5.13 or later (`available`).
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from response_templates.errors import ParseError
from response_templates.parser import parse_response
from response_templates.registry import RegisteredTemplate

Message = dict[str, Any]


@functools.cache
def engine() -> Any:
    """The native engine's module; None before transformers 5.13."""
    try:
        from transformers.utils import chat_parsing
    except ImportError:
        return None
    return chat_parsing


def available() -> bool:
    return engine() is not None


@dataclass(frozen=True)
class Text:
    """An output behind its prompt, with the tools, for one registry template."""

    output: str
    prompt: str
    tools: list[Any]


@dataclass(frozen=True)
class Pair:
    """What the two engines make of a text; `failed` is the native engine's error, if it raised one."""

    text: Text
    template: Mapping[str, Any]
    ours: Message
    theirs: Message
    failed: str = ""

    @property
    def keys(self) -> set[str]:
        """The keys in which the two differ."""
        return {key for key in {*self.ours, *self.theirs} if exact(self.ours.get(key)) != exact(self.theirs.get(key))}


def exact(value: Any) -> str:
    """Equal only for equal JSON, the order of keys aside; the native engine may return what is none."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=repr)


def calls(message: Mapping[str, Any]) -> list[Any]:
    """The message's calls as a flat list, whatever they are."""
    found = message.get("tool_calls") or []
    items = found if isinstance(found, list) else [found]
    return [each for item in items for each in (item if isinstance(item, list) else [item])]


def nested(message: Mapping[str, Any]) -> bool:
    return any(isinstance(item, list) for item in message.get("tool_calls") or ())


def functions(message: Mapping[str, Any]) -> list[Any]:
    return [item.get("function") if isinstance(item, dict) else item for item in calls(message)]


def as_text(message: Mapping[str, Any]) -> str:
    """The calls with every value as text: equal where only the types differ."""
    return exact([values_as_text(function) for function in functions(message)])


def values_as_text(function: Any) -> Any:
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(arguments, dict):
        return function
    return {**function, "arguments": {key: "".join(plain(value).split()) for key, value in arguments.items()}}


def plain(value: Any) -> str:
    return value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def well_formed(function: Any) -> bool:
    return (
        isinstance(function, dict)
        and isinstance(function.get("name"), str)
        and isinstance(function.get("arguments"), dict)
    )


def cut_off(pair: Pair) -> bool:
    return any(item["error"].endswith("so it may be incomplete") for item in pair.ours.get("malformed", ()))


def malformed(pair: Pair) -> bool:
    return bool(pair.ours.get("malformed"))


def lists_of_calls(pair: Pair) -> bool:
    return pair.keys == {"tool_calls"} and nested(pair.theirs)


def mended(pair: Pair) -> bool:
    return pair.keys <= {"tool_calls"} and not all(map(well_formed, functions(pair.theirs)))


def typed(pair: Pair) -> bool:
    return pair.keys == {"tool_calls"} and as_text(pair.ours) == as_text(pair.theirs)


def lost(pair: Pair) -> bool:
    """The native message has less: of the keys that differ, ours holds all that theirs holds, and more."""
    texts = pair.keys - {"tool_calls"}
    ours, theirs = functions(pair.ours), functions(pair.theirs)
    fewer = "tool_calls" not in pair.keys or (len(theirs) < len(ours) and all(each in ours for each in theirs))
    return fewer and all(str(pair.theirs.get(key) or "") in str(pair.ours.get(key) or "") for key in texts)


def call_text(pair: Pair) -> bool:
    """Other calls, or text that is elsewhere: the native engine closes at a delimiter inside a string or a value."""
    return "tool_calls" in pair.keys


@dataclass(frozen=True)
class Kind:
    """A kind of difference on purpose: its reason, and how it is recognised in what was compared."""

    name: str
    reason: str
    explains: Callable[[Any], bool]


KINDS = (
    Kind(
        "the native engine raises",
        "A region that it can't read, such as a body that a delimiter in a string cut; read here, or malformed.",
        lambda pair: bool(pair.failed),
    ),
    Kind("a call that was cut off", "Malformed here; natively a call where the body happens to parse.", cut_off),
    Kind("a malformed region", "Kept under `malformed` here; natively passed on, or lost.", malformed),
    Kind("several lists of calls", "One flat list here; natively a list of lists.", lists_of_calls),
    Kind("calls that are not well-formed", "Mended here where the meaning is plain.", mended),
    Kind("types of arguments", "The same text, typed by the schema or the tags here.", typed),
    Kind("text or calls that are lost natively", "All that the native message has is in ours, and more.", lost),
    Kind("other calls", "An id stays among the call's keys natively, or a delimiter in a value cuts it.", call_text),
)


def parsed_natively(template: Mapping[str, Any], text: Text) -> tuple[Message, str]:
    try:
        return engine().parse_response(text.output, template, prefix=text.prompt, tools=text.tools or None), ""
    except Exception as error:  # whatever it raises
        return {}, f"{type(error).__name__}: {error}"


def pair_of(entry: RegisteredTemplate, text: Text) -> Pair:
    template = entry.template.to_dict()
    try:
        ours = parse_response(text.output, entry.template, prefix=text.prompt, tools=text.tools, errors="recover")
    except ParseError as error:  # recover never raises on an output
        raise AssertionError(f"{entry.name}: {error}") from error
    theirs, failed = parsed_natively(template, text)
    return Pair(text, template, ours, theirs, failed)


def kind_of(pair: Pair) -> str:
    if not pair.failed and not pair.keys:
        return "same"
    return next((kind.name for kind in KINDS if kind.explains(pair)), "unexplained")


@dataclass
class Tally:
    """How many texts of each kind, and the shortest example of each."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, entry: RegisteredTemplate, texts: Iterable[Text]) -> None:
        for text in texts:
            pair = pair_of(entry, text)
            kind = kind_of(pair)
            self.counts[kind] += 1
            known = self.examples.get(kind)
            if kind != "same" and (known is None or len(text.output) < len(known["output"])):
                self.examples[kind] = example(entry, pair)

    def merge(self, counts: Mapping[str, int], examples: Mapping[str, dict[str, Any]]) -> None:
        self.counts.update(counts)
        for kind, shown in examples.items():
            known = self.examples.get(kind)
            if known is None or len(shown["output"]) < len(known["output"]):
                self.examples[kind] = shown


def example(entry: RegisteredTemplate, pair: Pair) -> dict[str, Any]:
    def shown(message: Message) -> Message:
        return {key: value for key, value in message.items() if key != "role"}

    theirs: Any = pair.failed.splitlines()[0][:200] if pair.failed else shown(pair.theirs)
    return {
        "template": entry.name,
        "prompt": pair.text.prompt[-40:],
        "output": pair.text.output,
        "ours": shown(pair.ours),
        "natively": theirs,
    }
