"""response-templates: turn what a chat model generated back into a message.

The public names are imported when they are first used, so that `import response_templates` stays light: neither torch
nor transformers is touched until a tokenizer is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .errors import (
        InputTypeError,
        ParseError,
        ParserFinalizedError,
        PrefixRequiredError,
        ResponseTemplateError,
        StreamError,
        StreamTimeoutError,
        TemplateError,
        TemplateMissingError,
        UnknownTemplateError,
    )
    from .id_parser import IdParser
    from .masks import token_masks
    from .offsets import OffsetParser
    from .openai import OpenAIDeltas, async_openai_deltas, from_openai, openai_deltas, to_openai
    from .parser import ResponseParser, parse_response
    from .registry import RegisteredTemplate, get_template, list_templates, template_for
    from .snapshot import Snapshot
    from .spans import Span, explain
    from .stopping import StopAfterCalls, StopAtEnd, StopWhenOver, end_tokens
    from .streamer import AsyncResponseStreamer, ResponseStreamer
    from .template import Field, ResponseTemplate, load_template
    from .tokenizer import install, uninstall

_HOME = {
    "InputTypeError": "errors",
    "ParseError": "errors",
    "ParserFinalizedError": "errors",
    "PrefixRequiredError": "errors",
    "ResponseTemplateError": "errors",
    "StreamError": "errors",
    "StreamTimeoutError": "errors",
    "TemplateError": "errors",
    "TemplateMissingError": "errors",
    "UnknownTemplateError": "errors",
    "OpenAIDeltas": "openai",
    "async_openai_deltas": "openai",
    "from_openai": "openai",
    "openai_deltas": "openai",
    "to_openai": "openai",
    "IdParser": "id_parser",
    "OffsetParser": "offsets",
    "token_masks": "masks",
    "Snapshot": "snapshot",
    "Span": "spans",
    "explain": "spans",
    "ResponseParser": "parser",
    "parse_response": "parser",
    "RegisteredTemplate": "registry",
    "get_template": "registry",
    "list_templates": "registry",
    "template_for": "registry",
    "StopAfterCalls": "stopping",
    "StopAtEnd": "stopping",
    "StopWhenOver": "stopping",
    "end_tokens": "stopping",
    "AsyncResponseStreamer": "streamer",
    "ResponseStreamer": "streamer",
    "Field": "template",
    "ResponseTemplate": "template",
    "load_template": "template",
    "install": "tokenizer",
    "uninstall": "tokenizer",
}

__all__ = [
    "AsyncResponseStreamer",
    "Field",
    "IdParser",
    "InputTypeError",
    "OffsetParser",
    "OpenAIDeltas",
    "ParseError",
    "ParserFinalizedError",
    "PrefixRequiredError",
    "RegisteredTemplate",
    "ResponseParser",
    "ResponseStreamer",
    "ResponseTemplate",
    "ResponseTemplateError",
    "Snapshot",
    "Span",
    "StopAfterCalls",
    "StopAtEnd",
    "StopWhenOver",
    "StreamError",
    "StreamTimeoutError",
    "TemplateError",
    "TemplateMissingError",
    "UnknownTemplateError",
    "async_openai_deltas",
    "end_tokens",
    "explain",
    "from_openai",
    "get_template",
    "install",
    "list_templates",
    "load_template",
    "openai_deltas",
    "parse_response",
    "template_for",
    "to_openai",
    "token_masks",
    "uninstall",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
