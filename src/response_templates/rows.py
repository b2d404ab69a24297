"""The rows of a generation: a parser each, token ids in, events out. Shared by streamers and stopping criteria."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .attribute import tokenizer_of
from .errors import InputTypeError, ParseError, PrefixRequiredError, StreamError
from .message import Message
from .parser import Event
from .responses import response_parser


class Row:
    """One sequence that is being generated.

    Attributes:
        number: the row of the batch.
        initial_events: the events of what the prompt pre-wrote.
        error: why it doesn't parse, if so; from then on it takes nothing.
    """

    __slots__ = ("_ended", "_fill", "_held", "_last", "_message", "_parser", "error", "initial_events", "number")

    def __init__(self, number: int, parser: Any, fill: int | None, last: int | None) -> None:
        self.number = number
        self.initial_events = [{**event, "row": number} for event in parser.initial_events]
        self.error: ParseError | None = None
        self._parser = parser
        self._fill = fill
        self._last = last
        self._held: list[int] = []  # padding, as it seems
        self._ended = False  # the last id that was fed was the end token
        self._message: Message | None = None

    def take(self, ids: list[int]) -> list[Event]:
        """The events of the next ids. Raises ParseError as the parser does."""
        ids = self._settled(ids) if self._fill is not None else ids
        return self._numbered(self._parser.feed(ids[0] if len(ids) == 1 else ids))  # a lone id has a shorter way

    def finish(self) -> list[Event]:
        """The last events; padding that is still held was padding. Raises ParseError as the parser does."""
        self._message, events = self._parser.finalize()
        return self._numbered(events)

    def result(self) -> Message:
        """The message. Raises the row's error, or StreamError if the row isn't finished."""
        if self.error is not None:
            raise self.error
        if self._message is None:
            raise StreamError("this row isn't finished")
        return self._message

    def _settled(self, ids: list[int]) -> list[int]:
        """`ids` without padding at the end, behind what was held if it turns out to be none.

        Where the padding is the end token, one of them is the end token.
        """
        settled: list[int] = []
        for each in ids:
            if each == self._fill and (each != self._last or self._ended):
                self._held.append(each)
            else:
                settled += [*self._held, each]
                self._held = []
                self._ended = each == self._last
        return settled

    def _numbered(self, events: list[Event]) -> list[Event]:
        for event in events:
            event["row"] = self.number
        return events


class RowFactory:
    """Makes the rows of one generation.

    Args:
        tokenizer: a tokenizer or processor.
        prefix: the prompt, for a batch one for all or a list with one each; None: the ids that `generate` was given.
        response_template: a template in place of the tokenizer's own; None: that.
        options: others for the parser.

    Raises:
        TemplateMissingError, TemplateError, InputTypeError, ImportError: what is known to be wrong before any row is.
    """

    __slots__ = ("_options", "_prefixes", "_template", "_tokenizer")

    def __init__(self, tokenizer: Any, prefix: Any, response_template: Any, options: Mapping[str, Any]) -> None:
        self._tokenizer = tokenizer_of(tokenizer)
        self._template = response_template
        self._options = options
        self._prefixes = None if prefix is None else self._each_prefix(prefix)
        for each in self._prefixes or [""]:
            self._parser(each)

    def rows(self, prompt: list[list[int]], count: int | None, fill: int | None, last: int | None) -> list[Row]:
        """The rows of a batch.

        Args:
            prompt: the ids that `generate` was given.
            count: number of rows; None: as many as there are prompts. Several sequences for a prompt lie side by side.
            fill: the id that `generate` fills finished rows with; None: they aren't filled.
            last: the end token.
        """
        count = len(prompt) if count is None else count
        prefixes = self._spread(self._prefixes if self._prefixes is not None else _needed(prompt), count)
        return [Row(number, self._parser(prefix), fill, last) for number, prefix in enumerate(prefixes)]

    def _parser(self, prefix: Any) -> Any:
        return response_parser(self._tokenizer, self._template, prefix=prefix, **self._options)

    @staticmethod
    def _each_prefix(prefix: Any) -> list[Any]:
        """A prefix of one sequence as a list of one; those of a batch as a list."""
        if isinstance(prefix, Mapping) or hasattr(prefix, "input_ids"):
            prefix = prefix["input_ids"]
        if getattr(prefix, "ndim", None) == 2:
            return list(prefix)
        nested = isinstance(prefix, (list, tuple)) and prefix and not isinstance(prefix[0], int)
        batch = nested and getattr(prefix[0], "shape", None) != ()
        return list(prefix) if batch else [prefix]

    @staticmethod
    def _spread(prefixes: Sequence[Any], count: int) -> list[Any]:
        each, rest = divmod(count, len(prefixes))
        if rest or not each:
            raise InputTypeError(f"there are {len(prefixes)} prefixes, but generate makes {count} rows")
        return [prefix for prefix in prefixes for _ in range(each)]


def _needed(prompt: list[list[int]]) -> list[list[int]]:
    if not all(prompt):
        raise PrefixRequiredError("generate was given no input ids (embeddings, perhaps): pass the prompt as prefix")
    return prompt


def prompt_rows(value: Any) -> list[list[int]]:
    """The ids of a prompt, a list for each row. Raises InputTypeError."""
    dimensions, rows = _listed(value)
    return [[each for [each] in rows]] if dimensions < 2 else rows


def step_rows(value: Any) -> tuple[int, list[list[int]]]:
    """The ids of one step for each row, and how many dimensions they came in (1 or 2). Raises InputTypeError."""
    return _listed(value)


def _listed(value: Any) -> tuple[int, list[list[int]]]:
    """Token ids as lists: of one dimension, one id each row (a lone id is one row)."""
    listed = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(listed, int):
        listed = [listed]
    if not isinstance(listed, (list, tuple)):
        raise InputTypeError(f"token ids were expected (a tensor, an array, a list), not {type(value).__name__}")
    if all(isinstance(each, int) and not isinstance(each, bool) for each in listed):
        return 1, [[each] for each in listed]
    for row, ids in enumerate(listed):
        if not isinstance(ids, (list, tuple)):
            raise InputTypeError(f"row {row} of the token ids is {ids!r:.60}")
        for each in ids:
            if isinstance(each, bool) or not isinstance(each, int):
                raise InputTypeError(f"row {row} of the token ids holds {each!r:.60}, which is no token id")
    return 2, [list(ids) for ids in listed]
