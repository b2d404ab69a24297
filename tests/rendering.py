"""Rendering chats with transformers' own code, and finding out by rendering what a chat template loses.

`Renderer` shows one chat template one message; `kept` says, from a probe of the same shape, which parts of a message
the template writes at all (some drop reasoning, some the text beside calls, some all calls but the first). What a
template does not write cannot come back, and is not expected to.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]

# The tokens that tokenizers of a family have, as far as chat templates print them.
SPECIAL = {
    "chatml": {"bos_token": "", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
    "gpt-oss": {"bos_token": "<|startoftext|>", "eos_token": "<|return|>", "pad_token": "<|endoftext|>"},
    "cohere": {"bos_token": "<BOS_TOKEN>", "eos_token": "<|END_OF_TURN_TOKEN|>", "pad_token": "<PAD>"},
}

# The text of the last message of every history, by which the end of the history is found.
LAST = "QLASTQ"
LONGER_THAN_AN_END_TOKEN = 40


class DoesNotRender(Exception):
    """The chat template refuses this chat, or writes nothing that could be told from the prompt."""


@functools.lru_cache(maxsize=4)
def _tokenizer(kind: str) -> Any:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    plain = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="<unk>")
    for name, value in SPECIAL[kind].items():
        setattr(tokenizer, name, value)
    return tokenizer


@dataclass(frozen=True)
class Turn:
    """One assistant message as a chat template writes it: the prompt before it, and what the model would generate."""

    prompt: str
    generation: str


@dataclass(frozen=True)
class Renderer:
    """A chat template, the special tokens that go with it, and the string that starts an assistant's turn."""

    chat_template: str
    kind: str
    anchors: tuple[str, ...]

    def render(self, chat: Sequence[Message], **arguments: Any) -> str:
        """The chat as text. Raises DoesNotRender whatever the template's reason."""
        try:
            text = _tokenizer(self.kind).apply_chat_template(
                list(chat), chat_template=self.chat_template, tokenize=False, **arguments
            )
        except Exception as error:  # a chat template raises whatever its author thought of
            raise DoesNotRender(str(error)) from error
        return str(text)

    def turn(self, history: Sequence[Message], message: Message, **arguments: Any) -> Turn:
        """The prompt for an answer after `history`, and `message` as the generation.

        Where the message isn't rendered behind the generation prompt (which may open a thinking block that the template
        leaves out of a plain answer), the prompt ends with the start of the turn instead.
        """
        whole = self.render([*history, message], **arguments)
        if LAST not in whole:
            raise DoesNotRender("the history is not written")
        prompt = self.render(history, add_generation_prompt=True, **arguments)
        whole = whole[: len(whole) - self._fixed_tail(whole, self.render(history, **arguments))]
        if whole.startswith(prompt):
            return Turn(prompt, whole[len(prompt) :])
        starts = self._starts(whole)
        if not starts:
            raise DoesNotRender("the start of the turn is not found")
        end = starts[0][1]
        return Turn(whole[:end], whole[end:])

    @staticmethod
    def _fixed_tail(whole: str, before: str) -> int:
        """Length of what the template writes after every chat, such as a prompt for a further turn (Cohere)."""
        after = before[before.rfind(LAST) + len(LAST) :]
        shared = next((n for n, (a, b) in enumerate(zip(whole[::-1], after[::-1], strict=False)) if a != b), len(after))
        if shared <= LONGER_THAN_AN_END_TOKEN:
            return 0
        return shared - after[-shared:].find("<|")  # it begins with a token

    def _starts(self, text: str) -> list[tuple[int, int]]:
        """Begin and end of each anchor after the history's last message."""
        found, last = [], max(0, text.rfind(LAST))
        for anchor in self.anchors:
            at = text.find(anchor, last)
            while at >= 0:
                found.append((at, at + len(anchor)))
                at = text.find(anchor, at + len(anchor))
        return sorted(found)


Shape = tuple[bool, bool, int]


def shape_of(message: Mapping[str, Any]) -> Shape:
    """What a message has: reasoning, content, how many calls."""
    return bool(message.get("reasoning_content")), bool(message.get("content")), len(message.get("tool_calls", ()))


def probe(shape: Shape) -> Message:
    """A message of that shape whose parts can be found again in the rendered text."""
    message: Message = {"role": "assistant", "content": ""}
    if shape[0]:
        message |= {"reasoning_content": "QREASONQ", "thinking": "QREASONQ"}
    if shape[1]:
        message["content"] = "QCONTENTQ"
    calls = [call(f"qname{number}q", {}) for number in range(shape[2])]
    if calls:
        message["tool_calls"] = calls
    return message


def call(name: str, arguments: Mapping[str, Any]) -> Message:
    return {"type": "function", "function": {"name": name, "arguments": dict(arguments)}}


@dataclass(frozen=True)
class Kept:
    """Which parts of a message of some shape a chat template writes."""

    reasoning: bool
    content: bool
    calls: int
    content_as_reasoning: bool = False


def kept(renderer: Renderer, history: Sequence[Message], shape: Shape, **arguments: Any) -> Kept:
    """Found by rendering a probe. Raises DoesNotRender."""
    text = renderer.turn(history, probe(shape), **arguments).generation
    calls = sum(f"qname{number}q" in text for number in range(shape[2]))
    moved = "<|channel|>analysis<|message|>QCONTENTQ" in text  # gpt-oss: the text beside a call
    return Kept("QREASONQ" in text, "QCONTENTQ" in text, calls, moved)


def expected(message: Message, parts: Kept) -> Message:
    """The message that must come back: what the template writes of it."""
    result: Message = {"role": "assistant"}
    if parts.reasoning and message.get("reasoning_content"):
        result["reasoning_content"] = message["reasoning_content"]
    if parts.content and message.get("content"):
        result["reasoning_content" if parts.content_as_reasoning else "content"] = message["content"]
    if parts.calls:
        result["tool_calls"] = message["tool_calls"][: parts.calls]
    return result
