"""Coverage of the Hub: for each of its chat templates, does `template_for` answer, and is the answer right?

Everything is found by rendering and asking, nothing from lists of our own: which chat templates write reasoning or
calls (`renders`), what `template_for` says of a checkpoint folder that holds the chat template and nothing else
(`asked`), and whether what the chat template writes comes back (`tried`): fixed probes in every history, where the
switches of thinking take turns, then messages drawn by hypothesis. Used by `scripts/conformance.py` (all) and
`test_conformance.py` (a few).
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import materials
import native_texts
import roundtrip
from domains import Domain, domains
from rendering import LAST, DoesNotRender, Renderer, call
from response_templates import registry
from response_templates.registry import RegisteredTemplate
from roundtrip import Mismatch, Trip, Written

Message = dict[str, Any]
DRAWN = 25

# --- which chat templates write reasoning or calls -------------------------------------------------------------------

ASKS = {"role": "user", "content": f"Hi. {LAST}"}
REASONING = dict.fromkeys(("reasoning_content", "reasoning", "thinking", "thought"), "QREASONQ")
ARGUMENTS = {"qkeyq": "qvalueq"}
CALL = call("qnameq", ARGUMENTS, "abcdefgh1")
CALL_AS_TEXT = CALL | {"function": {"name": "qnameq", "arguments": json.dumps(ARGUMENTS)}}
CALL_NAMED_BY_ID = call("", ARGUMENTS, "functions.qnameq:0")  # Kimi writes the id, not the name
THINKS: list[Message] = [
    {"role": "assistant", "content": "QCONTENTQ", **REASONING},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "QREASONQ"}, {"type": "text", "text": "Q"}]},
]
CALLS: list[Message] = [
    {"role": "assistant", "content": content, "tool_calls": [item], **more}
    for item in (CALL, CALL_AS_TEXT, CALL_NAMED_BY_ID)
    for content in ("", None)
    for more in ({}, REASONING)
]
TOOLS: list[list[Any] | None] = [[roundtrip.tool("qnameq", {"qkeyq": ""})], None, [roundtrip.LEGACY_TOOL]]
SWITCHES: list[dict[str, Any]] = [{}, {"enable_thinking": True}, {"thinking": True}, {"reasoning": True}]
# What a generation prompt opens where reasoning is to follow; an opened block that is closed again is none.
OPENED = re.compile(
    r"<[^\w/]*(?:seed:)?(?:think|thinking|thought|reasoning|reason|inner_prefix|START_THINKING)\b[^<>]*>\s*$", re.I
)


@dataclass(frozen=True)
class Renders:
    """What a chat template writes: an assistant's reasoning, its calls, a prompt that opens the reasoning."""

    reasoning: bool
    calls: bool
    opens: bool

    def __bool__(self) -> bool:
        return self.reasoning or self.calls or self.opens


def renders(chat_template: str) -> Renders:
    """Found by rendering messages with marked parts in every form that some chat template wants."""
    renderer = Renderer(chat_template, (("bos_token", "<s>"), ("eos_token", "</s>")), "")
    reasoning = any(map(reasons, (text for message in THINKS for text in texts(renderer, [ASKS, message]))))
    calls = any("qnameq" in text for message in CALLS for text in written_calls(renderer, message))
    prompts = texts(renderer, [ASKS], add_generation_prompt=True)
    return Renders(reasoning, calls, any(OPENED.search(text) for text in prompts))


def reasons(text: str) -> bool:
    """The reasoning is in the text, and not as the printed Python list of a template that knows no typed content."""
    return "QREASONQ" in text and not re.search(r"[\"']thinking[\"']: ?[\"']QREASONQ", text)


def texts(
    renderer: Renderer, chat: list[Message], tools: Any = (None,), switches: Any = SWITCHES, **arguments: Any
) -> Iterator[str]:
    """What follows the user's message, for each kind of tools and each switch that can be rendered."""
    for offered in tools:
        for switch in switches:
            try:
                text = renderer.render(chat, tools=offered, **switch, **arguments)
            except DoesNotRender:
                continue
            yield text[text.rfind(LAST) :]


def written_calls(renderer: Renderer, message: Message) -> Iterator[str]:
    return texts(renderer, [ASKS, message], TOOLS, ({},))


# --- what `template_for` says ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What `template_for` says of a checkpoint folder, and by which evidence."""

    name: str
    by: str
    loss: str = ""


def asked(chat_template: str) -> Answer:
    """Asked as a user's program does: of a folder with the chat template, whose name says nothing."""
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as folder:
        Path(folder, "chat_template.jinja").write_bytes(chat_template.encode("utf-8"))
        found = registry.template_for(folder)
    if found is None:
        return Answer("", "")
    return Answer(found.name, "fingerprint" if "fingerprint" in found.reason else "probe", found.loss)


# --- does it come back -----------------------------------------------------------------------------------------------

INDENTED = "def f(x):\n    if x:\n\n        return '  x'\n    return {\"a\": [x]}\n"
LOOKALIKE_VALUES = {
    "a": "007",
    "b": "3",
    "c": "1.0",
    "d": "true",
    "e": "null",
    "f": '{"a": 1}',
    "g": "[1, 2]",
    "h": "None",
}
TYPED_VALUES = {"i": 3, "n": -1.5, "t": True, "z": None, "o": {"a": [1, None, "x\ny"]}, "l": [], "s": 'Paris, "FR"\\'}
STRINGS = {"a": "  two  ", "b": "", "c": "\n", "d": "«ünï» 東京 🌦️", "e": "a < b && c > d", "f": 'it\'s "so"'}
NAME = "get_weather"


def _named(name: str, number: int, arguments: Message, domain: Domain) -> Message:
    """The call with a name of its own, and an id as the family's are, which may hold the name."""
    own = f"{name}_{number}"
    return call(own, arguments, domain.ids.format(number=number, name=own))


def probes(domain: Domain) -> list[Message]:
    """Messages that every chat template is tried with, apart from the drawn ones."""
    name = next((each for each in domain.names if each == NAME), domain.names[0])
    bodies = [{}, {"code": INDENTED}, {"text": "\n\n  x\n  \ty\n"}, LOOKALIKE_VALUES, STRINGS]
    bodies += [] if domain.values == "strings" else [TYPED_VALUES]
    plain = {"role": "assistant", "content": "Hello.\n\nA second line: a < b."}
    thought = {"reasoning_content": "First.\n\n  Then - so."}
    calls = [[_named(name, 0, body, domain)] for body in bodies]
    several = [_named(name, number, body, domain) for number, body in enumerate(bodies[1:4])]
    return [
        plain,
        plain | thought,
        *({"role": "assistant", "content": "", "tool_calls": each} for each in calls),
        *({"role": "assistant", "content": "", **thought, "tool_calls": each} for each in calls[1:2]),
        plain | {"tool_calls": several},
        plain | thought | {"tool_calls": several},
    ]


def trips(domain: Domain) -> Iterator[Trip]:
    """Each probe in each history; the switches of thinking take turns, the default first."""
    switches = roundtrip.switches_of(domain)
    for number, message in enumerate(probes(domain)):
        for history in roundtrip.HISTORIES:
            yield Trip(message, history, {}, with_tools=True)
        histories = list(roundtrip.HISTORIES)
        yield Trip(message, histories[number % 3], switches[1 + number % (len(switches) - 1)], with_tools=True)


def layouts(generation: str, end_tokens: tuple[str, ...]) -> list[str]:
    """The generation as it was rendered, and as it is when nothing or other white space follows its end token."""
    stripped = generation.rstrip()
    if not stripped.endswith(end_tokens):
        return [generation]
    return list(dict.fromkeys([generation, stripped, stripped + "\n", stripped + "\n\n"]))


@dataclass
class Tried:
    """How the round trip went: messages that came back (probes, drawn ones), and the first that didn't, as a diff.

    `garbled` counts the probes that the chat template is known to write so that nobody could read them back (the
    domain's `not_rendered`); they are not tried. `native` has how many of the probes' texts the native engine reads
    alike, and how many otherwise, by kind.
    """

    probes: int = 0
    drawn: int = 0
    garbled: int = 0
    wrong: str = ""
    native: native_texts.Tally = field(default_factory=native_texts.Tally)


def tried(entry: RegisteredTemplate, chat_template: str, identifier: str, examples: int) -> Tried:
    """The round trip of one chat template with the template that was answered."""
    done = Tried()
    try:
        for each in fixed(entry, chat_template, identifier):
            if roundtrip.garbled(domains()[entry.name], identifier, each.turn):
                done.garbled += 1
                continue
            roundtrip.comes_back(entry.template, each)
            done.probes += 1
            if native_texts.available():
                done.native.add(entry, [native_texts.Text(each.turn.generation, each.turn.prompt, each.tools)])
        done.drawn = roundtrip.round_trip(domains()[entry.name], entry.template, chat_template, identifier, examples)
    except Mismatch as error:
        done.wrong = str(error)
    except Exception as error:  # of hypothesis, or of the parser: not shown is not right
        done.wrong = f"{type(error).__name__}: {error}"
    return done


def native_tally(entry: RegisteredTemplate, chat_template: str, identifier: str) -> native_texts.Tally:
    """The fixed probes in the native engine alone, as `tried` counts them."""
    tally = native_texts.Tally()
    for each in fixed(entry, chat_template, identifier):
        if not roundtrip.garbled(domains()[entry.name], identifier, each.turn):
            tally.add(entry, [native_texts.Text(each.turn.generation, each.turn.prompt, each.tools)])
    return tally


def fixed(entry: RegisteredTemplate, chat_template: str, identifier: str) -> Iterator[Written]:
    """The fixed probes as this chat template writes them; with thinking as it is by default, in each layout."""
    domain = domains()[entry.name]
    if identifier in domain.prompts:
        return
    renderer = Renderer.of(chat_template, domain, entry.template, identifier)
    end_tokens = tuple(entry.meta["end_tokens"])
    for trip in trips(domain):
        done = roundtrip.written(domain, renderer, identifier, trip)
        if done is None:
            continue
        text = done.turn.generation
        for generation in [text] if trip.switch else layouts(text, end_tokens):
            yield replace(done, turn=replace(done.turn, generation=generation))


# --- one chat template -----------------------------------------------------------------------------------------------


def measured(chat_template: materials.ChatTemplate, examples: int = DRAWN) -> dict[str, Any]:
    """All of that for one chat template, as JSON."""
    written, answer = renders(chat_template.text), asked(chat_template.text)
    known: dict[str, Any] = {"name": chat_template.name, "downloads": chat_template.downloads}
    known |= {"reasoning": written.reasoning, "calls": written.calls, "opens": written.opens}
    known |= {"answer": answer.name, "by": answer.by}
    if not answer.name:
        return known | {"probes": 0, "drawn": 0, "wrong": "", "native": {}, "examples": {}}
    done = tried(registry.get_template(answer.name), chat_template.text, chat_template.id, examples)
    seen = {"native": dict(done.native.counts), "examples": done.native.examples}
    if done.garbled:
        seen |= {"garbled": done.garbled, "loss": answer.loss}
    return known | {"probes": done.probes, "drawn": done.drawn, "wrong": done.wrong} | seen


def writes(row: Mapping[str, Any]) -> bool:
    """The chat template writes reasoning or calls, or opens the reasoning in its prompt."""
    return any(row[key] for key in ("reasoning", "calls", "opens"))


VERDICTS = ("right", "lossy", "wrong", "none")


def verdict(row: Mapping[str, Any]) -> str:
    """right, lossy, wrong or none.

    Lossy: some messages can't be read back from what the chat template writes, and the answer's reason says so. If it
    doesn't say so, that is wrong; and so is an answer of which no message could be tried, for it is not shown.
    """
    if not row["answer"]:
        return "none"
    if row["wrong"] or not row["probes"] + row["drawn"]:
        return "wrong"
    if row.get("garbled"):
        return "lossy" if row["loss"] else "wrong"
    return "right"
