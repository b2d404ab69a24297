"""Rendering chats with transformers' own code, and finding out by rendering what a chat template loses.

`Renderer` shows one chat template one message; `kept` says, from a probe of the same shape, which parts of a message
the template writes at all (some drop reasoning, some the text beside calls, some all calls but the first). What a
template does not write cannot come back, and is not expected to.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import regex

from domains import Domain
from response_templates.reasoning import with_reasoning
from response_templates.template import ResponseTemplate

Message = dict[str, Any]

# The text of the last message of every history, by which the end of the history is found.
LAST = "QLASTQ"
NEXT = "QNEXTQ"  # the text of a user's message behind the one that is looked at
LONGER_THAN_AN_END_TOKEN = 40


class DoesNotRender(Exception):
    """The chat template refuses this chat, or writes nothing that could be told from the prompt."""


@functools.cache
def _tokenizer() -> Any:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    plain = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    return PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="<unk>")


def _rendered(
    chat_template: str, tokens: tuple[tuple[str, str], ...], chat: Sequence[Message], **arguments: Any
) -> str:
    """The chat as text. Special tokens go by name: older transformers leave out a tokenizer's empty ones."""
    text = _tokenizer().apply_chat_template(
        chat, chat_template=chat_template, tokenize=False, **dict(tokens), **arguments
    )
    return str(text)


@dataclass(frozen=True)
class Turn:
    """One assistant message as a chat template writes it: the prompt before it, and what the model would generate."""

    prompt: str
    generation: str


@dataclass(frozen=True)
class Renderer:
    """A chat template, the special tokens that go with it, and the pattern of what starts an assistant's turn."""

    chat_template: str
    tokens: tuple[tuple[str, str], ...]
    anchor: str
    inline: str = ""
    moved: str = ""
    parts: bool = False
    next_user: str = ""
    metadata: bool = False
    ids: str = "abcdefgh{number}"

    @classmethod
    def of(cls, chat_template: str, domain: Domain, template: ResponseTemplate, identifier: str = "") -> Renderer:
        """For a chat template (called `identifier` in the material) of the registry template of `domain`."""
        anchor = template.start_anchor_pattern or "|".join(map(regex.escape, template.start_anchor))
        return cls(
            chat_template,
            tuple(domain.tokens.items()),
            anchor,
            domain.inline,
            domain.content_as_reasoning,
            parts=identifier in domain.parts,
            next_user=domain.earlier.get(identifier, ""),
            metadata=domain.metadata,
            ids=domain.ids,
        )

    def render(self, chat: Sequence[Message], **arguments: Any) -> str:
        """The chat as text. Raises DoesNotRender whatever the template's reason."""
        try:
            written = with_reasoning([self._written(message) for message in chat], self.chat_template)
            return _rendered(self.chat_template, self.tokens, written, **arguments)
        except Exception as error:  # a chat template raises whatever its author thought of
            raise DoesNotRender(str(error)) from error

    def _written(self, message: Message) -> Message:
        """The message as this chat template takes it: some want lists of parts, or the arguments as JSON text."""
        if self.parts:
            message = message | {"content": [{"type": "text", "text": message.get("content") or ""}]}
        if self.metadata:
            return _with_metadata(message)
        if not message.get("tool_calls") or _takes_objects(self.chat_template, self.tokens):
            return message
        return message | {"tool_calls": [_as_text(item) for item in message["tool_calls"]]}

    def turn(self, history: Sequence[Message], message: Message, **arguments: Any) -> Turn:
        """The prompt for an answer after `history`, and `message` as the generation.

        Where the message isn't rendered behind the generation prompt (which may open a thinking block that the template
        leaves out of a plain answer), the prompt ends with the start of the turn instead.
        """
        whole = self._whole(history, message, **arguments)
        if LAST not in whole:
            raise DoesNotRender("the history is not written")
        prompt = self.render(history, add_generation_prompt=True, **arguments)
        if whole.startswith(prompt):
            return Turn(prompt, whole[len(prompt) :])
        starts = self._starts(whole)
        if not starts:
            raise DoesNotRender("the start of the turn is not found")
        end = starts[0][1]
        return Turn(whole[:end], whole[end:])

    def _whole(self, history: Sequence[Message], message: Message, **arguments: Any) -> str:
        """The chat with the message as its end, without what the chat template writes after every chat."""
        if not self.next_user:
            whole = self.render([*history, message], **arguments)
            return whole[: len(whole) - self._fixed_tail(whole, self.render(history, **arguments))]
        whole = self.render([*history, message, {"role": "user", "content": NEXT}], **arguments)
        return whole[: whole.rindex(self.next_user + NEXT)]

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
        last = max(0, text.rfind(LAST))
        # Behind the end stands what no text has: an anchor may ask for the prompt's end, which this isn't.
        return [match.span() for match in regex.finditer(self.anchor, text + "\0", flags=regex.DOTALL, pos=last)]


def _with_metadata(message: Message) -> Message:
    """Old GLM-4: a call is the function's name as `metadata` and its arguments as content, a result an observation."""
    if message["role"] == "tool":
        return {"role": "observation", "content": message["content"]}
    calls = [item["function"] for item in message.get("tool_calls", ())]
    if len(calls) != 1 or message.get("content"):
        return {key: value for key, value in message.items() if key != "tool_calls"}
    content = json.dumps(calls[0]["arguments"], ensure_ascii=False)
    return {"role": "assistant", "metadata": calls[0]["name"], "content": content}


def _as_text(item: Message) -> Message:
    function = item["function"]
    return item | {"function": function | {"arguments": json.dumps(function["arguments"], ensure_ascii=False)}}


@functools.lru_cache(maxsize=1024)
def _takes_objects(chat_template: str, tokens: tuple[tuple[str, str], ...]) -> bool:
    """False if the chat template writes the arguments of a call only where they are text: found by rendering."""
    with_call = call("qname", {"qkey": "qvalue"}, "abcdefgh0")
    as_object, as_text = (_rendered_call(chat_template, tokens, item) for item in (with_call, _as_text(with_call)))
    return ("qkey" in as_object and "{'qkey'" not in as_object) or "qkey" not in as_text


def _rendered_call(chat_template: str, tokens: tuple[tuple[str, str], ...], item: Message) -> str:
    """A chat with this call; some chat templates write calls only where the content is null."""
    chats = [[{"role": "user", "content": "Hi."}, assistant(content, item)] for content in ("", None)]
    texts = []
    for chat in chats:
        with contextlib.suppress(Exception):  # a chat template raises whatever its author thought of
            texts.append(_rendered(chat_template, tokens, chat))
    return next((text for text in texts if "qkey" in text), "")


def assistant(content: str | None, *calls: Message) -> Message:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


Shape = tuple[bool, bool, int]


def shape_of(message: Mapping[str, Any]) -> Shape:
    """What a message has: reasoning, content, how many calls."""
    return bool(message.get("reasoning_content")), bool(message.get("content")), len(message.get("tool_calls", ()))


def probe(shape: Shape, ids: str) -> Message:
    """A message of that shape whose parts can be found again in the rendered text; `ids` as in a `Domain`."""
    message: Message = {"role": "assistant", "content": ""}
    if shape[0]:
        message["reasoning_content"] = "QREASONQ"
    if shape[1]:
        message["content"] = "QCONTENTQ"
    names = [f"qname{number}q" for number in range(shape[2])]
    calls = [call(name, {}, ids.format(number=number, name=name)) for number, name in enumerate(names)]
    if calls:
        message["tool_calls"] = calls
    return message


def call(name: str, arguments: Mapping[str, Any], identifier: str = "") -> Message:
    item = {"type": "function", "function": {"name": name, "arguments": dict(arguments)}}
    return {"id": identifier, **item} if identifier else item


def inlined(message: Message, form: str) -> Message:
    """The reasoning as part of the content, for chat templates that read no key for it."""
    content = form.format(reasoning=message["reasoning_content"], content=message["content"])
    return {key: value for key, value in message.items() if key != "reasoning_content"} | {"content": content}


@dataclass(frozen=True)
class Kept:
    """Which parts of a message of some shape a chat template writes."""

    reasoning: bool
    content: bool
    calls: int
    content_as_reasoning: bool = False
    inline: bool = False
    null_content: bool = False

    def written(self, message: Message, renderer: Renderer) -> Message:
        """The message in the way in which the chat template writes most of it."""
        if self.null_content:
            return message | {"content": None}
        return inlined(message, renderer.inline) if self.inline else message


def kept(renderer: Renderer, history: Sequence[Message], shape: Shape, **arguments: Any) -> Kept:
    """Found by rendering a probe. Raises DoesNotRender."""
    plain = probe(shape, renderer.ids)
    found = _kept(renderer, history, plain, shape[2], **arguments)
    if shape[0] and not found.reasoning and renderer.inline:
        inline = _kept(renderer, history, inlined(plain, renderer.inline), shape[2], **arguments)
        if inline.reasoning:
            return replace(inline, inline=True)
    if shape[2] and not found.calls and not shape[1]:
        with contextlib.suppress(DoesNotRender):
            null = _kept(renderer, history, plain | {"content": None}, shape[2], **arguments)
            # Counts only if it brings the calls: some transformers versions give the template the null itself.
            return replace(null, null_content=True) if null.calls else found
    return found


def _kept(renderer: Renderer, history: Sequence[Message], message: Message, calls: int, **arguments: Any) -> Kept:
    text = renderer.turn(history, message, **arguments).generation
    written = sum(f"qname{number}q" in text for number in range(calls))
    moved = bool(renderer.moved) and f"{renderer.moved}QCONTENTQ" in text
    return Kept("QREASONQ" in text, "QCONTENTQ" in text, written, moved)


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
