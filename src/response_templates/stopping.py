"""Stopping criteria for `generate`: after a complete tool call, at the family's end tokens, when nobody reads any more.

`generate(stopping_criteria=[...])` calls each with all ids so far and expects a bool tensor, one for each row. None of
these is a subclass of transformers' `StoppingCriteria`, which would load torch when this module is imported:
`generate` asks for no more than a callable.

Bound: a step costs what the parsers cost for the new ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .attribute import response_template_of, tokenizer_of
from .errors import InputTypeError, StreamError, TemplateMissingError
from .parser import Errors, Event
from .registry import get_template, list_templates, template_for
from .rows import Row, RowFactory
from .shaping import CALLS_FIELD
from .streamer import AsyncResponseStreamer, ResponseStreamer


class StopAfterCalls:
    """Stops a row as soon as its first call (or its `calls`-th) is complete.

    It parses by itself, so it needs no streamer. A call is complete when its region closes; a family whose calls have
    no close delimiter ends its turn there anyway. A region with a list of calls counts as that many. A row that
    doesn't parse isn't stopped.

    Args:
        tokenizer: the tokenizer (or processor) of the model.
        prefix: the ids of the prompt as `generate` gets them (a tensor; a list for each row). None: all ids but the
            last at the first step; with an assistant model, which generates several at once, the ids have to be given.
        calls: how many.
        tools, response_template, parser_options: as for `ResponseStreamer`.

    Raises:
        TemplateMissingError, TemplateError, InputTypeError: as for `ResponseStreamer`.
        StreamError: when it is used for a second generation.
    """

    def __init__(
        self,
        tokenizer: Any,
        prefix: Any = None,
        *,
        calls: int = 1,
        tools: Sequence[Any] | None = None,
        response_template: Any = None,
        **parser_options: Any,
    ) -> None:
        if isinstance(calls, bool) or not isinstance(calls, int) or calls < 1:
            raise InputTypeError(f"calls must be a number from 1 on, not {calls!r}")
        errors: Errors = "recover"
        options = {"tools": tools, "errors": errors, **parser_options}
        self._factory = RowFactory(tokenizer, None, response_template, options)
        self._prompt_length = None if prefix is None else _length_of(prefix)
        self._last = tokenizer_of(tokenizer).eos_token_id
        self._calls = calls
        self._seen = 0  # ids of each row that the parsers were given, the prompt's included
        self._rows: list[Row] = []
        self._left: list[int] = []  # calls that each row may still make

    def __call__(self, input_ids: Any, scores: Any = None, **kwargs: Any) -> Any:
        """For each row: is it to stop?"""
        import torch

        rows = input_ids.tolist()
        length = len(rows[0])
        if not self._rows:
            self._begin(rows)
        if length <= self._seen or len(rows) != len(self._rows):
            raise StreamError("these stopping criteria have been used already; make new ones for the next generation")
        for number, (row, ids) in enumerate(zip(self._rows, rows, strict=True)):
            if self._left[number] > 0:
                self._left[number] -= calls_closed(row.take(ids[self._seen :]))
        self._seen = length
        return torch.tensor([left <= 0 for left in self._left], dtype=torch.bool, device=input_ids.device)

    def _begin(self, rows: list[list[int]]) -> None:
        self._seen = len(rows[0]) - 1 if self._prompt_length is None else self._prompt_length
        self._rows = self._factory.rows([ids[: self._seen] for ids in rows], len(rows), None, self._last)
        self._left = [self._calls - calls_closed(row.initial_events) for row in self._rows]


class StopAtEnd:
    """Stops a row at an end token of the model's family, also where the checkpoint's config forgot to name it.

    Args:
        tokenizer: the tokenizer (or processor) of the model.
        tokens: the end tokens; None: those of `end_tokens(tokenizer)`.

    Raises:
        InputTypeError: there are none.
    """

    def __init__(self, tokenizer: Any, tokens: Sequence[str] | None = None) -> None:
        tokenizer = tokenizer_of(tokenizer)
        tokens = end_tokens(tokenizer) if tokens is None else list(tokens)
        if not tokens:
            raise InputTypeError("no end tokens are known for this tokenizer; pass tokens=")
        known = {token: _id_of(tokenizer, token) for token in tokens}
        self.ids = sorted(each for each in known.values() if each is not None)
        self._spelled = [token for token, each in known.items() if each is None]
        self._by_text = _stop_strings(tokenizer, self._spelled) if self._spelled else None

    def __call__(self, input_ids: Any, scores: Any = None, **kwargs: Any) -> Any:
        """For each row: is it to stop?"""
        import torch

        done = torch.isin(input_ids[:, -1], torch.tensor(self.ids, dtype=input_ids.dtype, device=input_ids.device))
        return done if self._by_text is None else done | self._by_text(input_ids, scores)


class StopWhenOver:
    """Stops the rows of whose events nobody wants more: the streamer is closed, or the row doesn't parse."""

    def __init__(self, streamer: ResponseStreamer | AsyncResponseStreamer) -> None:
        self._streamer = streamer

    def __call__(self, input_ids: Any, scores: Any = None, **kwargs: Any) -> Any:
        """For each row: is it to stop?"""
        import torch

        over = [not self._streamer.wants(row) for row in range(input_ids.shape[0])]
        return torch.tensor(over, dtype=torch.bool, device=input_ids.device)


def end_tokens(tokenizer: Any) -> list[str]:
    """The tokens that end the turn of a model: those that the registry knows for its family, and its own end token.

    Their ids, `StopAtEnd(tokenizer).ids`, can also be given to `generate` as `eos_token_id`.
    """
    tokenizer = tokenizer_of(tokenizer)
    tokens = list(_family(tokenizer).get("end_tokens", ()))
    own = tokenizer.eos_token
    return tokens if own is None or own in tokens else [*tokens, own]


def _family(tokenizer: Any) -> Any:
    """The metadata of the registered template that the tokenizer has set or, if it has none, that fits it."""
    try:
        own = response_template_of(tokenizer)
    except TemplateMissingError:
        found = template_for(tokenizer)
        return {} if found is None else found.meta
    same = (entry for entry in map(get_template, list_templates()) if entry.template == own)
    entry = next(same, None) or template_for(tokenizer)
    return {} if entry is None else entry.meta


def _id_of(tokenizer: Any, token: str) -> int | None:
    """The id of a token of the vocabulary; None if it takes several."""
    ids: list[int] = tokenizer.encode(token, add_special_tokens=False)
    return ids[0] if len(ids) == 1 else None


def _stop_strings(tokenizer: Any, strings: list[str]) -> Any:
    from transformers.generation.stopping_criteria import StopStringCriteria

    return StopStringCriteria(tokenizer, strings)


def _length_of(prefix: Any) -> int:
    """The length of a prompt in ids, padding included."""
    if isinstance(prefix, Mapping) or hasattr(prefix, "input_ids"):
        prefix = prefix["input_ids"]
    shape = getattr(prefix, "shape", None)
    if shape is not None:
        return int(shape[-1])
    if isinstance(prefix, str) or not isinstance(prefix, (list, tuple)):
        raise InputTypeError("prefix must be the ids of the prompt, as generate gets them")
    return len(prefix[0]) if prefix and isinstance(prefix[0], (list, tuple)) else len(prefix)


def calls_closed(events: Sequence[Event]) -> int:
    """How many calls these events complete."""
    values = [each["value"] for each in events if each["type"] == "region_close" and each["field"] == CALLS_FIELD]
    return sum(len(value) if isinstance(value, list) else bool(value) for value in values)
