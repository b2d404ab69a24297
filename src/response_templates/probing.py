"""What does a chat template write for a message that we know? Asked of the template itself, safely.

A chat template is code from a checkpoint that nobody has vouched for. It is rendered as transformers does, in jinja2's
immutable sandbox, but in a process of its own: with a time limit (a sandbox does not stop a loop), a memory limit where
the system has one, and nothing but JSON going in and out. This file is also the program that the process runs, so it
imports nothing of the package.

Invariant: `render_chats` returns, whatever the template does. Bound: `TIME_LIMIT` seconds of the processor (where the
system can count them; a busy machine is no fault of the template), `PATIENCE_LIMIT` seconds of the clock and
`MEMORY_LIMIT` bytes; all chats of one call share one process.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

TIME_LIMIT = 10.0  # at least 1; whole seconds count
PATIENCE_LIMIT = 120.0
MEMORY_LIMIT = 1 << 30
TOO_SLOW = "the chat template does not end in time"
MAX_SOURCE = 400_000  # characters; the longest template in use has 60,000
MAX_RENDERED = 200_000  # characters of one rendered chat that are looked at
MAX_REASON = 300  # characters of what a template raises

CITY = 'Paris, "FR"'
FIRST_ARGUMENTS: Mapping[str, Any] = {"city": CITY, "days": 3, "opts": {"a": [1, True, None], "b": "x\ny"}}
SECOND_ARGUMENTS: Mapping[str, Any] = {"tz": "CET"}
CALL_IDS = ("abcdefgh1", "abcdefgh2")  # nine characters, which is what Mistral's templates insist on


def _call(number: int, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": dict(arguments)}
    return {"id": CALL_IDS[number], "type": "function", "function": function}


def _tool(name: str, types: Mapping[str, str]) -> dict[str, Any]:
    properties = {key: {"type": value, "description": key} for key, value in types.items()}
    parameters = {"type": "object", "properties": properties, "required": list(types), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


USER = {"role": "user", "content": "Hi."}
THOUGHT = "THINK1"
ANSWER = "Hello."
CALLS = [_call(0, "get_weather", FIRST_ARGUMENTS), _call(1, "get_time", SECOND_ARGUMENTS)]
# Kimi's templates write the id of a call and not its name, which is part of the id.
CALLS_NAMED_BY_ID = [call | {"id": f"functions.{call['function']['name']}:{n}"} for n, call in enumerate(CALLS)]
# No nested types: Command R+'s template goes round in circles on an object.
TOOLS = [
    _tool("get_weather", {"city": "string", "days": "integer", "opts": "string"}),
    _tool("get_time", {"tz": "string"}),
]
# For reading what was written: the same with the types of the probes' arguments, of what is inside of them, too.
_ITEMS = [{"type": "integer"}, {"type": "boolean"}, {"type": "null"}]
_INSIDE = {"properties": {"a": {"type": "array", "prefixItems": _ITEMS}, "b": {"type": "string"}}}
TYPED_TOOLS = [_tool("get_weather", {"city": "string", "days": "integer", "opts": "object"}), TOOLS[1]]
TYPED_TOOLS[0]["function"]["parameters"]["properties"]["opts"] |= _INSIDE
LEGACY_TOOLS: list[dict[str, Any]] = [
    {"name": name, "description": name, "parameter_definitions": {}} for name in ("get_weather", "get_time")
]
_REASONING = dict.fromkeys(("reasoning_content", "reasoning", "thinking"), THOUGHT)

# The probe messages, by name. Where a template refuses one with the tools, it is asked without; where it refuses a call
# altogether, with the arguments as JSON text.
PROBES: Mapping[str, Mapping[str, Any]] = {
    "content": {"role": "assistant", "content": ANSWER},
    "think": {"role": "assistant", "content": ANSWER, **_REASONING},
    "calls": {"role": "assistant", "content": "", "tool_calls": CALLS},
    "call": {"role": "assistant", "content": "", "tool_calls": CALLS[:1]},  # some refuse more than one
    "null_calls": {"role": "assistant", "content": None, "tool_calls": CALLS},  # some write calls only beside null
    "id_calls": {"role": "assistant", "content": "", "tool_calls": CALLS_NAMED_BY_ID},
    "think_calls": {"role": "assistant", "content": "", "tool_calls": CALLS, **_REASONING},
}


def _forms(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The message, and if it has calls, the same with their arguments as text."""
    calls = message.get("tool_calls")
    if not calls:
        return [message]
    texts = [
        {**call, "function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"])}}
        for call in calls
    ]
    return [message, {**message, "tool_calls": texts}]


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat that a chat template is to write.

    Attributes:
        forms: the messages, as alternatives: where the template refuses the first, with all tools, the next is tried.
        tools: what is offered, as alternatives in the same way.
        prompt: with the generation prompt at its end.
        arguments: what else the template is given (`enable_thinking`, ...).
    """

    forms: Sequence[Sequence[Mapping[str, Any]]]
    tools: Sequence[Sequence[Mapping[str, Any]] | None] = (None,)
    prompt: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rendering:
    """What a chat template made of some chats.

    Attributes:
        texts: the text of each chat; None where there is none.
        reasons: for each chat, why there is no text; empty where there is one.
        failure: why the template could not be asked at all, or not to the end; empty if it could.
    """

    texts: tuple[str | None, ...]
    reasons: tuple[str, ...]
    failure: str = ""


def render_probes(source: str) -> Mapping[str, str]:
    """Each probe of `PROBES` as the chat template `source` writes it, after a user's "Hi.".

    A probe that the template refuses is left out; so is everything if the template does not end in time, or jinja2 is
    not installed. `prompt` is the chat without an answer, with the generation prompt.
    """
    return _render_probes(source)


@lru_cache(maxsize=256)
def _render_probes(source: str) -> Mapping[str, str]:
    tools = (TOOLS, None, LEGACY_TOOLS)
    chats = {name: Chat([[USER, form] for form in _forms(message)], tools) for name, message in PROBES.items()}
    chats["prompt"] = Chat([[USER]], tools, prompt=True)
    rendering = render_chats(source, tuple(chats.values()))
    if rendering.failure:
        return {}
    return {name: text for name, text in zip(chats, rendering.texts, strict=True) if text is not None}


def render_chats(source: str, chats: Sequence[Chat], tokens: Mapping[str, Any] | None = None) -> Rendering:
    """Each chat as the chat template `source` writes it; `tokens` are the special tokens that it may print, by name."""
    if len(source) > MAX_SOURCE:
        return _no_rendering(chats, f"the chat template is longer than {MAX_SOURCE} characters")
    if not sys.executable:
        return _no_rendering(chats, "there is no Python to run the chat template in")
    variables = {"bos_token": "", "eos_token": "", **(tokens or {})}
    request = json.dumps(
        {"source": source, "tokens": variables, "chats": [asdict(chat) for chat in chats], "seconds": int(TIME_LIMIT)}
    )
    failure = ""
    try:
        done = subprocess.run(
            [sys.executable, __file__],
            input=request.encode("ascii"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE_LIMIT if resource is not None else TIME_LIMIT,
            check=False,
        )
        lines = done.stdout
        if resource is not None and done.returncode == -signal.SIGXCPU:
            failure = TOO_SLOW
        elif done.returncode:
            failure = f"the process that runs the chat template ended with {done.returncode}"
    except subprocess.TimeoutExpired as error:
        lines = error.stdout or b""
        failure = TOO_SLOW
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return _no_rendering(chats, f"the chat template cannot be run: {error}")
    return _rendering(chats, lines, failure)


def _no_rendering(chats: Sequence[Chat], failure: str) -> Rendering:
    return Rendering((None,) * len(chats), (failure,) * len(chats), failure)


def _rendering(chats: Sequence[Chat], lines: bytes, failure: str) -> Rendering:
    """The answers that came; the process writes one a line, `[text, reason]`, or why it can give none."""
    answers: list[tuple[str | None, str]] = []
    for line in lines.split(b"\n")[:-1]:  # behind the last line end is what was cut off, or nothing
        answer = json.loads(line)
        if isinstance(answer, str):
            return _no_rendering(chats, answer)
        answers.append((answer[0], answer[1]))
    missing = len(chats) - len(answers)
    if missing and not failure:
        failure = "the process that runs the chat template ended before its time"
    answers += [(None, failure)] * missing
    return Rendering(tuple(text for text, _ in answers), tuple(reason for _, reason in answers), failure)


# --- the other process ---------------------------------------------------------------------------------------------


def _environment() -> Any:
    """jinja2 as transformers sets it up for chat templates."""
    import datetime

    from jinja2 import nodes
    from jinja2.exceptions import TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}…{% endgeneration %}`, which marks the assistant's text: here only its body."""

        tags = {"generation"}  # noqa: RUF012 - jinja2's own attribute

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

        def _body(self, caller: Any) -> str:
            return str(caller())

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    def tojson(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, **options)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime(2026, 1, 1).strftime(form)
    return environment


def _limit(seconds: int) -> None:
    if resource is None:  # not every system has it; the limit by the clock holds everywhere
        return
    for what, limit in ((resource.RLIMIT_AS, MEMORY_LIMIT), (resource.RLIMIT_CPU, seconds)):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(what, (limit, limit + 1))


def _render(template: Any, chat: Mapping[str, Any], tokens: Mapping[str, Any]) -> tuple[str | None, str]:
    reason = ""
    variables = {**tokens, **chat["arguments"]}
    for messages in chat["forms"]:
        for tools in chat["tools"]:
            try:
                text = template.render(
                    messages=messages,
                    tools=tools,
                    documents=None,
                    add_generation_prompt=chat["prompt"],
                    **variables,
                )
            except Exception as error:  # noqa: PERF203  whatever it raises, it only means that there is no answer
                reason = reason or f"{type(error).__name__}: {error}"[:MAX_REASON]
            else:
                return str(text)[:MAX_RENDERED], ""
    return None, reason or "no answer"


def _main() -> None:
    """Writes a line for each chat as soon as it is rendered, so that what came before a loop is known."""
    request = json.load(sys.stdin)
    _limit(request["seconds"])
    try:
        template = _environment().from_string(request["source"])
    except ImportError:
        _write("jinja2 is not installed, so the chat template cannot be run: pip install jinja2")
        return
    except Exception as error:
        _write(f"the chat template does not compile: {type(error).__name__}: {error}"[:MAX_REASON])
        return
    for chat in request["chats"]:
        _write(_render(template, chat, request["tokens"]))


def _write(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    del sys.path[0]  # this file's folder: its modules must not hide others' of the same name
    _main()
