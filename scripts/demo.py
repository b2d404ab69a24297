"""The demo: a model answers a question with a tool, and its raw output becomes messages of the chat.

    python scripts/demo.py                                        # the small model that lives in this repository
    python scripts/demo.py --question "What is 12 plus 30?"
    python scripts/demo.py --model Qwen/Qwen3-0.6B                # any checkpoint; its template comes from the registry

What it does: renders the question with the checkpoint's own chat template, generates, parses, runs the tool calls,
appends both messages, and generates again until the model calls no tool. Nothing that is printed as the model's is
canned: it comes out of `generate`. Bounds: `MAX_ROUNDS` turns of at most `--max-new-tokens` tokens each.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Message = dict[str, Any]
Event = dict[str, Any]

MODEL = Path(__file__).resolve().parent.parent / "demo" / "model"
QUESTION = "What is the weather in Lima and in Oslo?"
MAX_ROUNDS = 4


class DemoError(Exception):
    """The demo cannot go on; the message says why and what to do."""


# The tools: real functions, whose hints and docstrings become the schemas that the model is shown.


def get_weather(city: str) -> str:
    """
    Get the weather of a city. (Made up from the city's name: the demo has no network.)

    Args:
        city: the name of the city
    """
    number = zlib.crc32(city.encode())
    sky = ("sunny", "cloudy", "rainy", "windy", "foggy", "snowy")[number % 6]
    degrees = number // 6 % 4 if sky == "snowy" else number // 6 % 30 + 4
    return f"{sky}, {degrees} °C"


def add(a: float, b: float) -> str:
    """
    Add two numbers.

    Args:
        a: the first number
        b: the second number
    """
    total = round(a + b, 6)
    return str(int(total) if total == int(total) else total)


def set_alarm(hour: int, minute: int, every_day: bool) -> str:
    """
    Set an alarm. (It only says so: no bell will ring.)

    Args:
        hour: the hour, 0 to 23
        minute: the minute, 0 to 59
        every_day: whether it rings every day, or once
    """
    return f"alarm set for {hour:02d}:{minute:02d}, {'every day' if every_day else 'once'}"


TOOLS: tuple[Callable[..., str], ...] = (get_weather, add, set_alarm)


def run_call(call: Message) -> Message:
    """Run one parsed tool call. Returns the tool's message; a call that can't be run gives a message that says so."""
    function = call["function"]
    tool = {tool.__name__: tool for tool in TOOLS}.get(function["name"])
    try:
        result = tool(**function["arguments"]) if tool else f"error: no tool named {function['name']}"
    except (TypeError, ValueError) as error:  # the model's arguments don't fit; it is told, as in any agent
        result = f"error: {error}"
    return {"role": "tool", "name": function["name"], "content": result}


# The model's side


@dataclass(frozen=True)
class Turn:
    """One generation: the raw text, the parsed message, and the events as they streamed."""

    raw: str
    message: Message
    events: tuple[Event, ...]


def load(model: str, template: str | None) -> tuple[Any, Any]:
    """Load tokenizer and model, with a response template set. Raises DemoError if there is none that fits."""
    import response_templates

    response_templates.install()
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
        weights = AutoModelForCausalLM.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise DemoError(f"cannot load {model}: {error}") from error
    if template is not None:
        tokenizer.response_template = _named(template)
    elif tokenizer.response_template is None:
        registered = response_templates.template_for(tokenizer)
        if registered is None:
            names = ", ".join(response_templates.list_templates())
            raise DemoError(
                f"{model} has no response_template, and none in the registry is known to fit. "
                f"If you know which one does, name it: --template NAME, of {names}"
            )
        tokenizer.response_template = registered.template.to_dict()
    if tokenizer.chat_template is None:
        raise DemoError(f"{model} has no chat template, so it can't be asked anything")
    return tokenizer, weights.eval()


def _named(template: str) -> Message:
    """A template by registry name, or from a JSON file. Raises DemoError."""
    import response_templates

    try:
        if Path(template).is_file():
            return response_templates.load_template(Path(template)).to_dict()
        return response_templates.get_template(template).template.to_dict()
    except (response_templates.ResponseTemplateError, LookupError) as error:
        raise DemoError(f"--template {template}: {error}") from error


def generate(tokenizer: Any, model: Any, messages: list[Message], max_new_tokens: int) -> Turn:
    """Generate the next message of the chat, greedily; parsed as a stream while it comes, and whole at the end."""
    import torch

    from response_templates import ResponseStreamer

    inputs = tokenizer.apply_chat_template(
        messages, tools=list(TOOLS), add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    inputs = inputs.to(model.device)
    prompt = inputs["input_ids"][0]
    streamer = ResponseStreamer(tokenizer, tools=TOOLS, errors="recover")
    with torch.inference_mode():
        output = streamer.run(model.generate, **inputs, max_new_tokens=max_new_tokens, do_sample=False)
    generated = output[0, prompt.shape[0] :]
    message = tokenizer.parse_response(generated, prefix=prompt, tools=TOOLS, errors="recover")
    events = tuple({key: value for key, value in event.items() if key != "row"} for event in streamer)
    return Turn(tokenizer.decode(generated, skip_special_tokens=False), message, events)


def chat(tokenizer: Any, model: Any, question: str, max_new_tokens: int, show: Screen) -> list[Message]:
    """Ask, run the tools that the model calls, and go on until it calls none. Returns the whole chat."""
    messages: list[Message] = [{"role": "user", "content": question}]
    show.heading("The question")
    show.text(question)
    for number in range(1, MAX_ROUNDS + 1):
        turn = generate(tokenizer, model, messages, max_new_tokens)
        show.turn(number, turn)
        messages.append(turn.message)
        calls = turn.message.get("tool_calls", [])
        if not calls:
            break
        results = [run_call(call) for call in calls]
        show.heading(f"Turn {number}: the tools ran, and their results join the chat")
        for result in results:
            show.text(f"{result['name']} → {result['content']}")
        messages += results
    show.heading("The answer")
    show.text(messages[-1].get("content") or "(the model gave none)")
    return messages


# What is seen


def _kind(event: Event) -> tuple[str, str, bool]:
    """What neighbouring chunks are put on one line by."""
    return event["type"], event["field"], event.get("dirty", False)


class Screen:
    """Prints headings and text; in colour where rich is installed and the output is a terminal."""

    def __init__(self) -> None:
        try:
            from rich.console import Console
        except ImportError:
            self._console = None
        else:
            self._console = Console(highlight=False, soft_wrap=True)

    def heading(self, title: str) -> None:
        """A heading, with an empty line before it."""
        self._print(f"\n── {title} " + "─" * max(0, 74 - len(title)), "bold cyan")

    def text(self, text: str) -> None:
        """Text as it is: nothing in it is markup."""
        self._print(text, None)

    def turn(self, number: int, turn: Turn) -> None:
        """One generation: raw, parsed, streamed."""
        self.heading(f"Turn {number}: what the model generated")
        self.text(turn.raw)
        self.heading(f"Turn {number}: the message that parse_response made of it")
        self.text(json.dumps(turn.message, ensure_ascii=False, indent=2))
        self.heading(f"Turn {number}: the same as events, as they came, token by token")
        for (kind, field, dirty), group in itertools.groupby(turn.events, _kind):
            events = list(group)
            if kind == "region_chunk":
                texts = " ".join(json.dumps(event["text"], ensure_ascii=False) for event in events)
                self.text(f"{kind:<17} {field:<18} {len(events)} of them{', dirty' if dirty else ''}: {texts}")
                continue
            for event in events:
                rest = {key: value for key, value in event.items() if key not in ("type", "field")}
                shown = json.dumps(rest, ensure_ascii=False) if rest else ""
                self.text(f"{kind:<17} {field:<18} {shown}".rstrip())

    def _print(self, text: str, style: str | None) -> None:
        if self._console is None:
            print(text)
        else:
            self._console.print(text, style=style, markup=False, emoji=False)


def main(arguments: list[str] | None = None) -> list[Message]:
    """Run the demo. Returns the chat, the question first. Exits with code 1 and a message where it can't run."""
    options = argparse.ArgumentParser(description="A model answers a question with a tool; its output is parsed.")
    options.add_argument("--model", default=str(MODEL), metavar="PATH_OR_ID", help="default: the repository's own")
    options.add_argument("--question", default=QUESTION, help=f"default: {QUESTION}")
    options.add_argument("--template", metavar="NAME", help="of the registry, or a JSON file; default: what fits")
    options.add_argument("--max-new-tokens", type=int, default=512, metavar="N", help="for each turn; default: 512")
    chosen = options.parse_args(arguments)
    try:
        tokenizer, model = load(chosen.model, chosen.template)
        return chat(tokenizer, model, chosen.question, chosen.max_new_tokens, Screen())
    except DemoError as error:
        sys.exit(f"demo: {error}")


if __name__ == "__main__":
    main()
