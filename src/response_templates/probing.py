"""What does a chat template write for a message that we know? Asked of the template itself, safely.

A chat template is code from a checkpoint that nobody has vouched for. It is rendered as transformers does, in jinja2's
immutable sandbox, but in a process of its own: with a time limit (a sandbox does not stop a loop), a memory limit where
the system has one, and nothing but JSON going in and out. This file is also the program that the process runs, so it
imports nothing of the package.

Invariant: `render_probes` returns, whatever the template does. Bound: `TIME_LIMIT` seconds and `MEMORY_LIMIT` bytes;
all probes of a template share one process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

TIME_LIMIT = 10.0
MEMORY_LIMIT = 1 << 30
MAX_SOURCE = 400_000  # characters; the longest template in use has 60,000
MAX_RENDERED = 200_000  # characters of one rendered chat that are looked at

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
# No nested types: Command R+'s template goes round in circles on an object.
TOOLS = [
    _tool("get_weather", {"city": "string", "days": "integer", "opts": "string"}),
    _tool("get_time", {"tz": "string"}),
]
# For reading what was written: the same with the types of the probes' arguments.
TYPED_TOOLS = [_tool("get_weather", {"city": "string", "days": "integer", "opts": "object"}), TOOLS[1]]
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
    "null_calls": {"role": "assistant", "content": None, "tool_calls": CALLS},  # some write calls only beside null
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


def render_probes(source: str) -> Mapping[str, str]:
    """Each probe of `PROBES` as the chat template `source` writes it, after a user's "Hi.".

    A probe that the template refuses is left out; so is everything if the template does not end in time, or jinja2 is
    not installed. `prompt` is the chat without an answer, with the generation prompt.
    """
    return _render_probes(source) if len(source) <= MAX_SOURCE else {}


@lru_cache(maxsize=256)
def _render_probes(source: str) -> Mapping[str, str]:
    chats = {name: [[USER, form] for form in _forms(message)] for name, message in PROBES.items()}
    request = json.dumps({"source": source, "tools": [TOOLS, None, LEGACY_TOOLS], "chats": chats, "user": USER})
    if not sys.executable:
        return {}
    try:
        done = subprocess.run(
            [sys.executable, __file__],
            input=request.encode("ascii"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIME_LIMIT,
            check=False,
        )
        answer = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return {str(name): str(text) for name, text in answer.items()} if isinstance(answer, dict) else {}


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


def _limit_memory() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    except (ImportError, OSError, ValueError):  # not every system has it; the time limit holds everywhere
        return


def _render(template: Any, messages: Sequence[Any], tools: Iterable[Any] | None, prompt: bool) -> str | None:
    try:
        text = template.render(
            messages=messages, tools=tools, documents=None, add_generation_prompt=prompt, bos_token="", eos_token=""
        )
    except Exception:  # whatever the template raises, it only means that it has no answer
        return None
    return str(text)[:MAX_RENDERED]


def _answer(request: Mapping[str, Any]) -> dict[str, str]:
    template = _environment().from_string(request["source"])
    answers: dict[str, str] = {}
    first = [(name, forms[0], False) for name, forms in request["chats"].items()]
    others = [(name, form, False) for name, forms in request["chats"].items() for form in forms[1:]]
    rounds = [(tools, [*first, ("prompt", [request["user"]], True)]) for tools in request["tools"]]
    for tools, chats in [*rounds, *((tools, others) for tools in request["tools"])]:
        for name, messages, prompt in chats:
            text = None if name in answers else _render(template, messages, tools, prompt)
            if text is not None:
                answers[name] = text
    return answers


def _main() -> None:
    _limit_memory()
    try:
        answers = _answer(json.load(sys.stdin))
    except Exception:  # jinja2 missing, or a template that does not compile
        answers = {}
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    del sys.path[0]  # this file's folder: its modules must not hide others' of the same name
    _main()
