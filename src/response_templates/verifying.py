"""Does a response template fit this very checkpoint? Asked of its own chat template, before anything is written.

How it is asked
    Chats that end with a message that we know (an answer, with reasoning, with calls, with all of it) are rendered by
    the checkpoint's chat template, in the limited process of `probing`: after a first question, after an earlier
    answer, after a tool's result, with thinking as it is by default, on and off. Each rendered chat is cut where the
    generation prompt ends; what is behind the cut is parsed as if the model had written it, and must be the message.
    What the chat template does not write at all (some drop reasoning, some the text beside calls) cannot come back:
    that is told as a note. Whatever else differs is a failure, with a diff of the two messages.

Invariant: `verify` runs no code of the checkpoint in this process, and writes nothing. Bound: one process per chat
template, with the limits of `probing`.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import regex

from . import patterns
from .checkpoints import Checkpoint, files_of, read_checkpoint
from .errors import ParseError, TemplateError
from .parser import parse_response
from .plan import plan_for
from .probing import CALLS, LEGACY_TOOLS, TOOLS, TYPED_TOOLS, Chat, Rendering, render_chats
from .reasoning import KEYS
from .registry import RegisteredTemplate, get_template, list_templates
from .template import ResponseTemplate, load_template

Message: TypeAlias = "dict[str, Any]"
TemplateChoice: TypeAlias = "RegisteredTemplate | ResponseTemplate | Mapping[str, Any] | str | os.PathLike[str]"

PASSED, NOTED, FAILED, SKIPPED = "passed", "noted", "failed", "skipped"
MAX_SHOWN = 400  # characters of a rendered text that a failure shows
LONGER_THAN_AN_END_TOKEN = 40
CHARACTERS_BEFORE = 12  # by which text that is written as reasoning is known


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what it was.
        status: `passed`; `noted` (worth knowing, nothing is wrong); `failed`; `skipped` (it could not be looked at).
        detail: what was seen, in a line.
        diff: where a message came back as another: the two, as a unified diff.
    """

    name: str
    status: str
    detail: str = ""
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What `verify` found.

    Attributes:
        target: the checkpoint.
        template_name: the template's name in the registry, or where it came from.
        checks: everything that was looked at.
    """

    target: str
    template_name: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Nothing failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.status == FAILED)

    @property
    def notes(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.status == NOTED)

    def table(self) -> str:
        """The checks as a Markdown table."""
        rows = [f"| {_cell(check.name)} | {check.status} | {_cell(check.detail)} |" for check in self.checks]
        return "\n".join(["| check | result | |", "|---|---|---|", *rows])

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON data."""
        checks = [
            {"name": each.name, "status": each.status, "detail": each.detail, "diff": each.diff} for each in self.checks
        ]
        return {"target": self.target, "template": self.template_name, "ok": self.ok, "checks": checks}

    def __str__(self) -> str:
        lines = [f"{self.target}: template {self.template_name}"]
        for check in self.checks:
            lines.append(f"  {check.status:8}{check.name}" + (f": {check.detail}" if check.detail else ""))
            lines += [f"            {line}" for line in check.diff.splitlines()]
        return "\n".join(lines)


def verify(
    target: str | os.PathLike[str],
    template: TemplateChoice | None = None,
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    ids: bool = True,
) -> Report:
    """Try a response template on a checkpoint, by what its own chat template writes.

    Args:
        target: a folder, or the id of a repository on the Hub.
        template: a name of the registry, a dict, a path or a `ResponseTemplate`; by default the one that the checkpoint
            has or, if it has none, the one of the registry that fits.
        revision: a branch, tag or commit of the repository.
        token: as `huggingface_hub` takes it; by default its own login.
        ids: also look whether the delimiters survive the checkpoint's tokenizer (its `tokenizer.json` is fetched).

    Raises:
        CheckpointError: the checkpoint cannot be read.
        ConfigError: its `tokenizer_config.json` is not a JSON object.
        UnknownTemplateError: the registry has no template of that name.
    """
    checkpoint = read_checkpoint(files_of(target, revision, token))
    if template is None and isinstance(checkpoint.response_template, Mapping):
        template = checkpoint.response_template
    name, source = chosen(checkpoint, template)
    if source is None:
        check = Check("template", FAILED, "no template of the registry is known to fit; name one")
        return Report(checkpoint.name, name, (check,))
    return verify_checkpoint(checkpoint, name, source, ids=ids)


def chosen(checkpoint: Checkpoint, template: TemplateChoice | None) -> tuple[str, Any]:
    """The name of the template that is meant and what it was given as; None for what if no template is known to fit."""
    if template is not None:
        return named(template)
    found = checkpoint.fitting()
    return (found.name, found.template) if found is not None else ("", None)


def named(template: TemplateChoice) -> tuple[str, Any]:
    """The name of a template that was given, and what `load_template` takes for it.

    Raises:
        UnknownTemplateError: the registry has no template of that name.
    """
    if isinstance(template, RegisteredTemplate):
        return template.name, template.template
    if isinstance(template, str) and not template.lstrip().startswith("{"):
        if template in list_templates() or not Path(template).is_file():
            return template, get_template(template).template
        return name_of(Path(template)), Path(template)
    return name_of(template), template


def name_of(template: Any) -> str:
    """What a template that has no name is called: as the registry's that it equals, or by its file."""
    try:
        loaded = load_template(template)
    except TemplateError:
        loaded = None
    known = (name for name in list_templates() if get_template(name).template == loaded)
    return next(known, Path(template).name if isinstance(template, os.PathLike) else "custom")


def verify_checkpoint(checkpoint: Checkpoint, name: str, source: Any, *, ids: bool = True) -> Report:
    """As `verify`, of what was read and chosen already."""
    checks = [_loads(source)]
    if checks[0].status == PASSED:
        template = load_template(source)
        checks.append(_loads_natively(template))
        checks += _by_chat_templates(checkpoint, template, ids)
    return Report(checkpoint.name, name, tuple(checks))


# --- loading -------------------------------------------------------------------------------------------------------


def _loads(source: Any) -> Check:
    try:
        load_template(source)
    except TemplateError as error:
        return Check("template loads", FAILED, str(error))
    return Check("template loads", PASSED)


def _loads_natively(template: ResponseTemplate) -> Check:
    name = "transformers' own engine loads it"
    try:
        from transformers.utils.chat_parsing import ResponseParser as Native
    except ImportError:
        return Check(name, SKIPPED, "this transformers has none (it came with 5.13)")
    try:
        Native(template.to_dict(), prefix="")
    except Exception as error:  # whatever it thinks of it
        return Check(name, FAILED, f"{type(error).__name__}: {error}")
    return Check(name, PASSED)


# --- the chats -----------------------------------------------------------------------------------------------------

LAST = "Which of them? QLASTQ"  # the end of every history, by which the end is found in the rendered text
QUESTION = {"role": "user", "content": LAST}
THOUGHT = "The user wants something.\n\nI know what."
ANSWER = 'Here it is: "a < b".\n\nAnything else?'
OLD_THOUGHT = "An old thought."
OLD_CALL = {"id": "abcdefgh0", "type": "function", "function": {"name": "get_time", "arguments": {"tz": "UTC"}}}
TEXT_OF_RESULT = f"12:00 {LAST}"


def _thinking(thought: str) -> dict[str, str]:
    return dict.fromkeys(KEYS, thought)


HISTORIES: Mapping[str, Sequence[Message]] = {
    "first": [QUESTION],
    "after an answer": [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "Hello.", **_thinking(OLD_THOUGHT)},
        QUESTION,
    ],
    "after a tool's result": [
        {"role": "user", "content": "What time is it?"},
        {"role": "assistant", "content": "", "tool_calls": [OLD_CALL], **_thinking(OLD_THOUGHT)},
        {"role": "tool", "name": "get_time", "tool_call_id": "abcdefgh0", "content": TEXT_OF_RESULT},
    ],
}
# How chat templates are told to think or not; what one doesn't know it ignores.
_SWITCHES = ("enable_thinking", "thinking", "reasoning")
SWITCHES: Mapping[str, Mapping[str, Any]] = {
    "": {},
    "thinking on": dict.fromkeys(_SWITCHES, True),
    "thinking off": dict.fromkeys(_SWITCHES, False),
}
SHAPES: Mapping[str, Message] = {
    "answer": {"content": ANSWER},
    "reasoning and answer": {"reasoning_content": THOUGHT, "content": ANSWER},
    "one call": {"tool_calls": CALLS[:1]},
    "two calls": {"tool_calls": CALLS},
    "reasoning and calls": {"reasoning_content": THOUGHT, "tool_calls": CALLS},
    "text and calls": {"content": ANSWER, "tool_calls": CALLS},
    "reasoning, text and calls": {"reasoning_content": THOUGHT, "content": ANSWER, "tool_calls": CALLS},
}
OFFERED = (TOOLS, None, LEGACY_TOOLS)


def _shown(shape: Message, as_text: bool) -> Message:
    """A message as a chat template is shown it, the arguments of its calls as objects or as JSON text."""
    message: Message = {"role": "assistant", "content": "", **shape}
    if "reasoning_content" in shape:
        message |= _thinking(shape["reasoning_content"])
    if "tool_calls" in shape and as_text:
        message["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"])}}
            for call in shape["tool_calls"]
        ]
    return message


@dataclass(frozen=True, slots=True)
class _Case:
    """One chat: which message comes after which history, how; and the same without it, with and without a prompt."""

    shape: str
    history: str
    switch: str
    as_text: bool = False

    @property
    def where(self) -> str:
        return ", ".join(filter(None, [self.history, self.switch]))

    def chats(self) -> tuple[Chat, Chat, Chat]:
        """The history with the generation prompt, the history alone, and the whole chat."""
        arguments, history = SWITCHES[self.switch], HISTORIES[self.history]
        forms = [history, [*map(_with_text_arguments, history)]]
        whole = [[*each, _shown(SHAPES[self.shape], self.as_text)] for each in forms]
        forms, whole = ([*each, [*map(_in_parts, each[0])]] for each in (forms, whole))
        return (
            Chat(forms, OFFERED, True, arguments),
            Chat(forms, OFFERED, False, arguments),
            Chat(whole, OFFERED, False, arguments),
        )


def _with_text_arguments(message: Message) -> Message:
    return _shown(message, True) if "tool_calls" in message else message


def _in_parts(message: Message) -> Message:
    """The message with its text as a list of parts, which is what some chat templates insist on (MiniMax M1)."""
    return {**message, "content": [{"type": "text", "text": message["content"]}]}


def _cases() -> list[_Case]:
    cases = [_Case(shape, history, switch) for shape in SHAPES for history in HISTORIES for switch in SWITCHES]
    return cases + [
        _Case(case.shape, case.history, case.switch, True) for case in cases if "tool_calls" in SHAPES[case.shape]
    ]


# --- one chat template ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Turn:
    """An assistant's message as a chat template writes it: the prompt before it, and what the model would generate.

    `headless`: in a whole chat nothing stands before the message, unlike in the prompt.
    """

    case: _Case
    prompt: str
    generation: str
    headless: bool = False


@dataclass(slots=True)
class _Rendered:
    """What a chat template made of all cases."""

    prompts: dict[str, str] = field(default_factory=dict)  # by history and switch
    turns: list[_Turn] = field(default_factory=list)
    unsplit: list[str] = field(default_factory=list)  # where the start of the turn was not found
    reasons: list[str] = field(default_factory=list)
    failure: str = ""


DEFAULT = "default"
# One beside the default may want what only its own callers have (Command R's `rag` its documents): a note.
REFUSES_ALL = "it refuses every message that it was shown"


def _by_chat_templates(checkpoint: Checkpoint, template: ResponseTemplate, ids: bool) -> Iterator[Check]:
    if not checkpoint.chat_templates:
        yield Check("chat template", FAILED, "the checkpoint has no chat template, so nothing can be tried")
        return
    rendered = {}
    for name, source in checkpoint.chat_templates.items():
        rendered[name] = _render(source, checkpoint.tokens, template)
        label = f"{name}: " if len(checkpoint.chat_templates) > 1 else ""
        for check in _of_chat_template(rendered[name], template):
            status = NOTED if name != DEFAULT and check.detail.startswith(REFUSES_ALL) else check.status
            yield Check(label + check.name, status, check.detail, check.diff)
    if ids:
        yield _by_ids(checkpoint, [turn for each in rendered.values() for turn in each.turns], template)


def _of_chat_template(rendered: _Rendered, template: ResponseTemplate) -> Iterator[Check]:
    if rendered.failure:
        yield Check("chat template", FAILED, rendered.failure)
    if not rendered.turns and not rendered.unsplit:
        why = next(iter(rendered.reasons), "")
        if not rendered.failure:
            yield Check("chat template", FAILED, f"{REFUSES_ALL} ({why})")
        return
    yield _anchored(rendered, template)
    yield _prompts_are_empty(rendered, template)
    before_thought = {_before(turn, THOUGHT) for turn in rendered.turns} - {""}
    for shape in SHAPES:
        yield _round_trip(
            shape, [turn for turn in rendered.turns if turn.case.shape == shape], template, before_thought
        )


def _render(source: str, tokens: Mapping[str, str], template: ResponseTemplate) -> _Rendered:
    cases = _cases()
    distinct = {json.dumps([chat.forms, chat.prompt, chat.arguments]): chat for case in cases for chat in case.chats()}
    answer: Rendering = render_chats(source, tuple(distinct.values()), tokens)
    texts = dict(zip(distinct, answer.texts, strict=True))
    rendered = _Rendered(failure=answer.failure, reasons=[reason for reason in answer.reasons if reason])
    for case in cases:
        prompt, before, whole = (texts[json.dumps([chat.forms, chat.prompt, chat.arguments])] for chat in case.chats())
        if prompt is not None and LAST in prompt:
            rendered.prompts[case.where] = prompt
        if prompt is None or before is None or whole is None or LAST not in whole:
            continue
        turn = _turn(case, prompt, before, whole, template)
        if turn is None:
            rendered.unsplit.append(f"{case.shape}, {case.where}")
        else:
            rendered.turns.append(turn)
    return rendered


def _turn(case: _Case, prompt: str, before: str, whole: str, template: ResponseTemplate) -> _Turn | None:
    """The rendered chat, cut where the generation begins.

    Where the message isn't written behind the generation prompt (which may open a thinking block that is left out of a
    plain answer), the prompt ends with the start anchor instead. Where there is no anchor, since the chat template
    begins no turn (Falcon 3 before calls, Apertus after a tool's result), the message is what follows on the history,
    and no prompt goes with it.
    """
    whole = whole[: len(whole) - _fixed_tail(whole, before)]
    if whole.startswith(prompt):
        return _Turn(case, prompt, whole[len(prompt) :])
    end = _end_of_history(whole, before)
    start = _anchor_at(template, whole, end)
    if start is not None:
        return _Turn(case, whole[:start], whole[start:])
    return None if end is None else _Turn(case, "", whole[end:], headless=True)


_BEGUN_TOKEN = re.compile(r"[<\[][^>\]]*\Z")


def _end_of_history(whole: str, before: str) -> int | None:
    """Where the text ends that a chat has in common with its history; None if that isn't all of the history's text."""
    shared = os.path.commonprefix([whole, before])  # noqa: RUF071  characters are what it compares
    last = shared.rfind(LAST)
    if last < 0:
        return None
    begun = _BEGUN_TOKEN.search(shared, last)  # two tokens that begin alike: `<|end|>`, `<|call|>`
    return begun.start() if begun else len(shared)


def _fixed_tail(whole: str, before: str) -> int:
    """How much a chat template writes after every chat, such as a prompt for a further turn."""
    after = before[before.rfind(LAST) + len(LAST) :]
    shared = len(os.path.commonprefix([whole[::-1], after[::-1]]))  # noqa: RUF071  characters are what it compares
    if shared <= LONGER_THAN_AN_END_TOKEN:
        return 0
    return shared - max(0, after[-shared:].find("<"))  # it begins with a token, behind what all tokens end with


def _anchor_at(template: ResponseTemplate, text: str, end: int | None) -> int | None:
    """Where the start anchor at the end of the history ends: of those behind the last message, the first not before it.

    If all are before it (a chat template that always writes the beginning of an answer), the last. `end` is None where
    the end is not known; then it is the first of all.
    """
    begin = text.rfind(LAST) + len(LAST)
    # Behind the end stands what no text has: an anchor may ask for the prompt's end, which this isn't.
    found = _anchor(template).finditer(text + "\0", begin, timeout=patterns.REGEX_SECONDS)
    ends = [match.end() for match in found]
    return next((each for each in ends if end is None or each >= end), ends[-1] if ends else None)


@lru_cache(maxsize=64)
def _anchor(template: ResponseTemplate) -> Any:
    literals = sorted(template.start_anchor, key=len, reverse=True)
    source = template.start_anchor_pattern or "|".join(map(regex.escape, literals))
    return regex.compile(source, regex.DOTALL)


# --- what is looked at ---------------------------------------------------------------------------------------------


def _anchored(rendered: _Rendered, template: ResponseTemplate) -> Check:
    """The last start anchor of a prompt must be behind the last message, or an old message is parsed again."""
    wrong = {where: text for where, text in rendered.prompts.items() if not _ends_anchored(text, template)}
    if wrong:
        where, text = next(iter(wrong.items()))
        anchor = template.start_anchor_pattern or " or ".join(map(repr, template.start_anchor))
        detail = f"{anchor} is not what this chat template writes before an answer; a prompt ends with {text[-60:]!r}"
        return Check("start anchor", FAILED, f"{detail} ({where})")
    if rendered.unsplit:
        return Check("start anchor", FAILED, f"it is not found in a rendered chat ({rendered.unsplit[0]})")
    seen = f"in {_counted(len(rendered.prompts), 'prompt')}"
    headless = next((turn.case for turn in rendered.turns if turn.headless), None)
    if headless is not None:
        where = f"{headless.shape}, {headless.where}"
        return Check("start anchor", NOTED, f"{seen}; the chat template leaves it out before some messages ({where})")
    return Check("start anchor", PASSED, seen)


def _ends_anchored(prompt: str, template: ResponseTemplate) -> bool:
    found = plan_for(template).last_anchor(prompt)
    return found is not None and found[1] > prompt.rfind(LAST)


def _prompts_are_empty(rendered: _Rendered, template: ResponseTemplate) -> Check:
    """What a prompt pre-writes (`<think>`, an empty thinking block) is no text of the message."""
    name = "prompt alone"
    empty = dict(template.defaults)
    for where, prompt in rendered.prompts.items():
        got, error = _parsed("", prompt, template)
        if got != empty:
            return Check(
                name, FAILED, error or f"text of the prompt is parsed as the answer's ({where})", _diff(empty, got)
            )
    return Check(name, PASSED, f"in {_counted(len(rendered.prompts), 'prompt')}")


def _round_trip(shape: str, turns: Sequence[_Turn], template: ResponseTemplate, before_thought: set[str]) -> Check:
    if not turns:
        return Check(shape, NOTED, "the chat template writes no such message")
    notes: dict[str, None] = {}
    passed = 0
    for case, forms in _grouped(turns).items():
        outcomes = [_outcome(turn, template, before_thought) for turn in forms]
        best = next((each for each in outcomes if not each.failure), outcomes[0])
        if best.failure:
            return Check(shape, FAILED, f"{best.failure} ({case})", best.diff)
        notes |= dict.fromkeys(best.notes)
        if best is not outcomes[0]:
            notes["the chat template takes arguments as JSON text only"] = None
        passed += 1
    detail = f"in {_counted(passed, 'chat')}"
    return Check(shape, NOTED if notes else PASSED, "; ".join([detail, *notes]))


def _grouped(turns: Sequence[_Turn]) -> dict[str, list[_Turn]]:
    """The turns of each case, one for each form that its arguments had."""
    groups: dict[str, list[_Turn]] = {}
    for turn in turns:
        groups.setdefault(turn.case.where, []).append(turn)
    return groups


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came back of one message."""

    failure: str = ""
    diff: str = ""
    notes: tuple[str, ...] = ()


def _outcome(turn: _Turn, template: ResponseTemplate, before_thought: set[str]) -> _Outcome:
    expected, notes = _expected(turn, template)
    got, error = _parsed(turn.generation, turn.prompt, template)
    if _before(turn, ANSWER) in before_thought and got == _as_thought(expected):
        return _Outcome(notes=(*notes, "the chat template writes the text beside calls as reasoning"))
    if error or got != expected:
        failure = f"{error or 'another message comes back'}; the chat template writes {_short(turn.generation)}"
        return _Outcome(failure, _diff(expected, got))
    return _Outcome(notes=notes)


def _expected(turn: _Turn, template: ResponseTemplate) -> tuple[Message, tuple[str, ...]]:
    """The part of the message that the chat template writes at all, and notes on the rest."""
    shape, text = SHAPES[turn.case.shape], turn.generation
    expected: Message = dict(template.defaults)
    notes = []
    if "reasoning_content" in shape:
        if THOUGHT in text:
            expected["reasoning_content"] = THOUGHT
        else:
            notes.append("the chat template drops reasoning")
    if "content" in shape:
        beside = "tool_calls" in shape
        if ANSWER not in text:
            notes.append(
                "the chat template drops the text beside calls" if beside else "the chat template drops the answer"
            )
        else:
            expected["content"] = ANSWER
    calls = shape.get("tool_calls", [])
    written = [call for call in calls if call["function"]["name"] in text]
    if written:
        expected["tool_calls"] = [_bare(call) for call in written]
    if len(written) < len(calls):
        notes.append(f"the chat template writes {len(written) or 'none'} of {_counted(len(calls), 'call')}")
    return expected, tuple(notes)


def _as_thought(message: Message) -> Message | None:
    """The message if the text beside its calls is its reasoning; None if it has no such text, or has reasoning."""
    if "content" not in message or "tool_calls" not in message or "reasoning_content" in message:
        return None
    return {("reasoning_content" if key == "content" else key): value for key, value in message.items()}


def _bare(call: Mapping[str, Any]) -> Message:
    """A call without its id, which formats keep, number anew or drop."""
    return {"type": "function", "function": call["function"]}


def _before(turn: _Turn, part: str) -> str:
    """The few characters before a part of the generation, the prompt's too; empty where it isn't there."""
    at = turn.generation.find(part)
    return (turn.prompt + turn.generation[:at])[-CHARACTERS_BEFORE:] if at >= 0 else ""


def _parsed(generation: str, prompt: str, template: ResponseTemplate) -> tuple[Message, str]:
    """The message and, if it does not parse, why."""
    try:
        message = parse_response(generation, template, prefix=prompt, tools=TYPED_TOOLS)
    except ParseError as error:
        return _without_ids(error.partial), f"it does not parse: {error}"
    except TemplateError as error:
        return {}, str(error)
    return _without_ids(message), ""


def _without_ids(message: Any) -> Message:
    result = dict(message)
    calls = result.get("tool_calls")
    if isinstance(calls, list):
        result["tool_calls"] = [
            {key: value for key, value in call.items() if key != "id"} if isinstance(call, Mapping) else call
            for call in calls
        ]
    return result


# --- by ids --------------------------------------------------------------------------------------------------------


def _by_ids(checkpoint: Checkpoint, turns: Sequence[_Turn], template: ResponseTemplate) -> Check:
    """Text that goes through the checkpoint's tokenizer and back must parse to the same message."""
    name = "ids"
    path = checkpoint.tokenizer_file()
    if path is None:
        return Check(name, SKIPPED, "there is no tokenizer.json")
    try:
        there_and_back = _tokenizer(path)
    except Exception as error:
        return Check(name, SKIPPED, f"tokenizer.json does not load ({str(error)[:MAX_SHOWN]})")
    tried = [turn for turn in turns if not turn.case.as_text and turn.case.history == "first"]
    for turn in tried:
        expected, wrong = _parsed(turn.generation, turn.prompt, template)
        if wrong:
            continue  # told already
        got, error_text = _parsed(there_and_back(turn.generation), there_and_back(turn.prompt), template)
        if got != expected:
            what = error_text or "another message comes back"
            return Check(
                name,
                FAILED,
                f"after the tokenizer: {what} ({turn.case.shape}, {turn.case.where})",
                _diff(expected, got),
            )
    return Check(name, PASSED, f"in {_counted(len(tried), 'chat')}")


def _tokenizer(path: Path) -> Callable[[str], str]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))

    def there_and_back(text: str) -> str:
        return str(tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids, skip_special_tokens=False))

    return there_and_back


# --- how it is told ------------------------------------------------------------------------------------------------


def _diff(expected: Message, got: Message) -> str:
    before, after = (
        json.dumps(each, indent=2, ensure_ascii=False, default=str).splitlines() for each in (expected, got)
    )
    return "\n".join(difflib.unified_diff(before, after, "the message", "what comes back", lineterm=""))


def _short(text: str) -> str:
    return repr(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _cell(text: str) -> str:
    """Text in a cell of a Markdown table."""
    return " ".join(text.replace("|", "\\|").split())
