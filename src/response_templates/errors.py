"""The errors of this package, one small hierarchy.

Each is also a subclass of what transformers' native engine raises in that place, so that code written against
upstream keeps working. Nothing here imports anything of the package.
"""

from __future__ import annotations

import queue
from typing import Any


class ResponseTemplateError(Exception):
    """Base of every error that this package raises on purpose."""


class TemplateError(ResponseTemplateError, ValueError):
    """A response template is not valid; the message names the field and the key."""


class ParseError(ResponseTemplateError, ValueError):
    """The generation does not parse under `errors="strict"`. Nothing that was parsed before is lost.

    Attributes:
        field: name of the field whose region is malformed (or that is missing).
        text: what the model wrote there, delimiters included.
        position: where that begins, in characters from the start of the generation; negative inside the prefix.
        partial: the message as far as it had come.
    """

    def __init__(
        self,
        message: str,
        *,
        field: str,
        text: str = "",
        position: int = 0,
        partial: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.field = field
        self.text = text
        self.position = position
        self.partial = {} if partial is None else partial

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"field": self.field, "text": self.text, "position": self.position, "partial": self.partial}
        return _rebuild_parse_error, (str(self), state)


def _rebuild_parse_error(message: str, state: dict[str, Any]) -> ParseError:
    return ParseError(message, **state)


class PrefixRequiredError(ResponseTemplateError, ValueError):
    """`prefix=` (the prompt) was left out; `prefix=""` opts out."""


class ParserFinalizedError(ResponseTemplateError, RuntimeError):
    """`feed` or `finalize` was called on a parser that is already finalized."""


class TemplateMissingError(ResponseTemplateError, AttributeError):
    """A tokenizer was asked to parse but has no response template."""


class UnknownTemplateError(ResponseTemplateError, KeyError, ValueError):
    """The registry has no template of that name."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class InputTypeError(ResponseTemplateError, TypeError, ValueError):
    """An argument is of a kind that cannot be parsed (bytes, floats, ids out of the vocabulary, ...)."""


class CampaignError(ResponseTemplateError, RuntimeError):
    """A run over many repos cannot begin: its list of repos, its state file or its login is not there or not usable."""


class StreamError(ResponseTemplateError, RuntimeError):
    """A streamer is used in a way it can't be: a second time, before its end, or its `generate` died."""


class StreamTimeoutError(StreamError, TimeoutError, queue.Empty):
    """No event came in time. (transformers' own streamers raise `queue.Empty`, the asynchronous one `TimeoutError`.)"""
