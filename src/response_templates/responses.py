"""Parsing for a tokenizer: text or ids in any shape, its own template or another, the prompt as text or ids.

What the plugin's methods call (see `tokenizer`), and what streamers call without the plugin. It is a module of its own,
so that installing the plugin doesn't import the parser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import detokenize
from .attribute import response_template_of
from .errors import InputTypeError
from .id_parser import IdParser, parser_for_ids, prefixes_for_ids
from .message import Message
from .offsets import OffsetParser
from .parser import Errors, ResponseParser, one_each, parse_response
from .template import ResponseTemplate, load_template


def parsed(
    tokenizer: Any,
    response: Any,
    response_template: Any = None,
    *,
    prefix: Any = None,
    tools: Sequence[Any] | None = None,
    errors: Errors = "strict",
    token_delimiters: bool = False,
    offsets: bool = False,
) -> Message | list[Message]:
    """What `tokenizer.parse_response` gives, whether or not the plugin is installed."""
    template = response_template_of(tokenizer) if response_template is None else load_template(response_template)
    if token_delimiters or offsets:
        options = {"tools": tools, "errors": errors}
        return _parse_ids(tokenizer, template, response, prefix, token_delimiters, offsets, options)
    texts: Any = detokenize.texts_of(tokenizer, response, "response")
    prefixes: Any = None if prefix is None else detokenize.prefixes_of(tokenizer, prefix, template)
    if isinstance(texts, str) and isinstance(prefixes, list):
        prefixes = _only(prefixes, "there is one response")
    message: Message | list[Message] = parse_response(texts, template, prefix=prefixes, tools=tools, errors=errors)
    return message


def response_parser(
    tokenizer: Any,
    response_template: Any = None,
    *,
    prefix: Any = None,
    tools: Sequence[Any] | None = None,
    errors: Errors = "strict",
    token_delimiters: bool = False,
    offsets: bool = False,
    **options: Any,
) -> IdParser:
    """What `tokenizer.get_response_parser` gives, whether or not the plugin is installed.

    `options` are others of `ResponseParser`.
    """
    template = response_template_of(tokenizer) if response_template is None else load_template(response_template)
    prefixes = prefixes_for_ids(tokenizer, prefix, template, token_delimiters=token_delimiters)
    if isinstance(prefixes, list):
        prefixes = _only(prefixes, "a parser is for one generation")
    return parser_for_ids(
        tokenizer,
        template,
        prefixes,
        token_delimiters=token_delimiters,
        offsets=offsets,
        tools=tools,
        errors=errors,
        **options,
    )


def _parse_ids(
    tokenizer: Any,
    template: ResponseTemplate,
    response: Any,
    prefix: Any,
    token_delimiters: bool,
    offsets: bool,
    options: Mapping[str, Any],
) -> Message | list[Message]:
    """`parse_response` where it matters which ids the text came from."""
    rows = detokenize.ids_of(tokenizer, response, "response")
    prefixes = prefixes_for_ids(tokenizer, prefix, template, token_delimiters=token_delimiters)

    def parse(row: Any, before: str | None) -> Message:
        if isinstance(row, str) and token_delimiters:
            raise InputTypeError("token_delimiters=True needs the ids that were generated, but the response is text")
        if isinstance(row, str):
            parser: ResponseParser = OffsetParser(template, before, **options)
        else:
            parser = parser_for_ids(
                tokenizer, template, before, token_delimiters=token_delimiters, offsets=offsets, **options
            )
        parser.feed(row)
        return parser.finalize()[0]

    if not isinstance(rows, list) or not rows or isinstance(rows[0], int):
        return parse(rows, _only(prefixes, "there is one response") if isinstance(prefixes, list) else prefixes)
    return [parse(row, before) for row, before in zip(rows, one_each(prefixes, len(rows)), strict=True)]


def _only(prefixes: list[str], why: str) -> str:
    """The prefix of a batch of one, as `apply_chat_template(return_tensors=...)` gives it."""
    if len(prefixes) != 1:
        raise InputTypeError(f"{why}, but there are {len(prefixes)} prefixes")
    return prefixes[0]
