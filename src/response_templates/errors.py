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


class ConfigError(ResponseTemplateError, ValueError):
    """A checkpoint's configuration file is not a JSON object, so it can neither be read nor edited."""


class CheckpointError(ResponseTemplateError, OSError):
    """A checkpoint cannot be read or written: it isn't there, it has no tokenizer, access is denied, ...

    Attributes:
        transient: trying again later may help (a rate limit, a server's fault, a dropped connection).
        retry_after: how long the server asks to wait before that, in seconds; None if it doesn't say.
    """

    def __init__(self, message: str, *, transient: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.transient = transient
        self.retry_after = retry_after


class NoTokenizerError(CheckpointError):
    """A checkpoint has no `tokenizer_config.json`, so there is nothing that a template could be put in."""


class UnsettledError(CheckpointError):
    """A commit may have been made, or somebody else's came first: the repository must be looked at again."""


class InstallError(ResponseTemplateError, RuntimeError):
    """A template was refused, or could not be installed; raised by `Result.raise_for_status`.

    Attributes:
        result: what came of it.
    """

    def __init__(self, message: str, *, result: Any) -> None:
        super().__init__(message)
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_install_error, (str(self), self.result)


def _rebuild_install_error(message: str, result: Any) -> InstallError:
    return InstallError(message, result=result)
