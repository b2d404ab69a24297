"""`pipeline("text-generation")` answers a chat with the parsed message, also where transformers' own doesn't.

What transformers does, as its sources of these versions say
    4.51 to 5.12   the new message is `{"role": "assistant", "content": text}`, special tokens dropped;
    5.13, 5.18     it is parsed with the tokenizer's response template, but string arguments aren't cast by the tools;
    5.24           it is parsed, with the tools.
    4.51 and 4.57 know no `tools=` (they hand it to `generate`, which refuses it). All versions, 5.24 too, refuse a chat
    that holds a message without `content`, such as one that only calls tools.

The patches here fill what is missing, and nothing is patched where nothing is. The parsing itself is the tokenizer's
`parse_response`, strict as the native pipeline's.

Invariant: only the message that the native pipeline appended to a chat is replaced; prompts that are text, and chats
whose last message is continued, come out as before.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Maker = Callable[[Any], Callable[..., Any]]


def patches(module: Any) -> Iterator[tuple[type, Mapping[str, Maker]]]:
    """What is to be patched in `transformers.pipelines.text_generation`: classes, and for names in them a function
    that makes the new method of the native one."""
    pipeline, chat = module.TextGenerationPipeline, module.Chat
    yield chat, {"__init__": _chat_initializer}
    if _takes(pipeline.postprocess, "tools"):
        return
    methods: dict[str, Maker] = {"postprocess": _postprocess(chat), "_sanitize_parameters": _sanitizer}
    if not _takes(pipeline.preprocess, "tools"):
        methods["preprocess"] = _preprocess(chat)
    yield pipeline, methods


def _takes(function: Any, name: str) -> bool:
    return name in inspect.signature(function).parameters


def _sanitizer(native: Any) -> Callable[..., Any]:
    """`tools` goes to where the prompt is rendered and to where the output is parsed."""
    knows_tools = _takes(native, "tools")

    @functools.wraps(native)
    def _sanitize_parameters(self: Any, *args: Any, tools: Any = None, **kwargs: Any) -> Any:
        if tools is None:
            return native(self, *args, **kwargs)
        own = {"tools": tools} if knows_tools else {}
        before, forward, after = native(self, *args, **own, **kwargs)
        return {**before, "tools": tools}, forward, {**after, "tools": tools}

    return _sanitize_parameters


def _preprocess(chat: type) -> Maker:
    """Where the native method can't show tools to the chat template, the rendered prompt is handed to it."""

    def make(native: Any) -> Callable[..., Any]:
        @functools.wraps(native)
        def preprocess(self: Any, prompt_text: Any, *args: Any, tools: Any = None, **kwargs: Any) -> Any:
            if tools is None or not isinstance(prompt_text, chat):
                return native(self, prompt_text, *args, **kwargs)
            messages = prompt_text.messages  # type: ignore[attr-defined]
            goes_on = kwargs.pop("continue_final_message", None)
            goes_on = messages[-1]["role"] == "assistant" if goes_on is None else goes_on  # as the native method has it
            rendered = self.tokenizer.apply_chat_template(
                messages,
                tools=tools,
                add_generation_prompt=not goes_on,
                continue_final_message=goes_on,
                tokenize=False,
            )
            inputs = native(self, rendered, *args, **{**kwargs, "add_special_tokens": False})
            inputs["prompt_text"] = prompt_text
            return inputs

        return preprocess

    return make


def _postprocess(chat: type) -> Maker:
    """The message that was appended to a chat is the parsed one."""

    def make(native: Any) -> Callable[..., Any]:
        @functools.wraps(native)
        def postprocess(self: Any, model_outputs: Any, *args: Any, tools: Any = None, **kwargs: Any) -> Any:
            records = native(self, model_outputs, *args, **kwargs)
            prompt = model_outputs["prompt_text"]
            if isinstance(prompt, chat) and getattr(self.tokenizer, "response_template", None):
                count = len(prompt.messages)  # type: ignore[attr-defined]
                begin = model_outputs["input_ids"].shape[-1]
                for record, ids in zip(records, model_outputs["generated_sequence"][0], strict=True):
                    said = record.get("generated_text")
                    if isinstance(said, list) and len(said) == count + 1:
                        said[-1] = self.tokenizer.parse_response(ids[begin:], prefix=ids[:begin], tools=tools)
            return records

        return postprocess

    return make


def _chat_initializer(native: Any) -> Callable[..., Any]:
    """A message with tool calls needs no content; the native check asks for one."""

    @functools.wraps(native)
    def __init__(self: Any, messages: Any) -> None:
        native(self, [_checkable(message) for message in messages])
        self.messages = messages

    return __init__


def _checkable(message: Any) -> Any:
    if isinstance(message, Mapping) and message.get("tool_calls"):
        return {"content": "", **message}
    return message
