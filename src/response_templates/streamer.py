"""Streamers for `generate`: it puts token ids in, another thread or task takes events out.

Theory of operation
    `generate` calls `put` first with the prompt, then with the tokens of each step, and `end` after the last. A value
    of one dimension is one id for each row of the batch; of two, some ids for each row (the prompt; the tokens that an
    assistant model guessed right). Each row has a parser; its events go to a queue without bounds, so that `put` never
    waits for who reads. A row that is finished before others is filled with padding by `generate`: a run of padding is
    kept back until another id shows that it was none.

    What goes wrong reaches the reader in its place in the stream: a row that doesn't parse (the generation goes on, and
    so do the other rows), an error inside `generate` (through `run` and `start`), a `generate` that died in its thread.

Invariants: the events of a row are those of its parser, in order, each with `row`; nothing is delivered after the end.
Bound: a step costs what its parsers cost, plus one queue operation for each event.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .attribute import tokenizer_of
from .errors import InputTypeError, ParseError, StreamError, StreamTimeoutError
from .message import Message
from .parser import Errors, Event
from .rows import Row, RowFactory, prompt_rows, step_rows

POLL_SECONDS = 0.25  # how often a waiting reader looks whether the generating thread is alive


class _End:
    """What stands in the queue behind the last event."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """An error, at its place among the events."""

    error: BaseException


class _Streamer:
    """What both streamers share: everything but how the reader waits."""

    def __init__(
        self,
        tokenizer: Any,
        prefix: Any = None,
        *,
        tools: Sequence[Any] | None = None,
        errors: Errors = "strict",
        timeout: float | None = None,
        response_template: Any = None,
        pad_token_id: int | None = None,
        **parser_options: Any,
    ) -> None:
        if timeout is not None and timeout < 0:
            raise InputTypeError(f"timeout must be None or a number of seconds from 0 on, not {timeout!r}")
        options = {"tools": tools, "errors": errors, **parser_options}
        self._factory = RowFactory(tokenizer, prefix, response_template, options)
        inner = tokenizer_of(tokenizer)
        self._pad = pad_token_id
        self._fill = pad_token_id if pad_token_id is not None else inner.pad_token_id
        self._last: int | None = inner.eos_token_id
        self.timeout = timeout
        self._prompt: list[list[int]] | None = None
        self._rows: list[Row] = []
        self._dimensions: int | None = None  # of the values that are put, once that is known
        self._thread: threading.Thread | None = None  # the one that generates, once that is known
        self._over = False  # nothing more is delivered
        self._closed = False  # nobody reads any more
        self._drained = False  # the reader has met the end
        self._error: BaseException | None = None

    # -- what `generate` calls --------------------------------------------------------------------------------------

    def put(self, value: Any) -> None:
        """Take the prompt (the first time) or the tokens of a step.

        Args:
            value: token ids (a tensor, an array, a list): of one dimension, one id for each row; of two, rows of ids.

        Raises:
            StreamError: the streamer has been used already.
            InputTypeError: these are no token ids, or not for as many rows as before.
        """
        if self._closed:
            return
        if self._over:
            raise StreamError(_USED)
        try:
            if self._prompt is None:
                self._thread = threading.current_thread()
                self._prompt = prompt_rows(value)
            else:
                self._step(value)
        except Exception as error:
            self.fail(error)
            raise

    def end(self) -> None:
        """The generation is over.

        Raises:
            StreamError: the streamer has been used already, or no prompt was put.
        """
        if self._closed:
            return
        if self._over:
            raise StreamError(_USED)
        try:
            self._begin(None)
            for row in self._rows:
                self._parse(row, row.finish)
        except Exception as error:
            self.fail(error)
            raise
        self._finish()

    def fail(self, error: BaseException) -> None:
        """End the stream with an error that is raised where the events are read. Does nothing after the end."""
        if self._over:
            return
        if not isinstance(error, Exception):  # a KeyboardInterrupt belongs to the thread that it came to
            cause, error = error, StreamError(f"the generation was ended by {type(error).__name__}")
            error.__cause__ = cause
        self._error = error
        self._deliver(_Failure(error))
        self._finish()

    def run(self, generate: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `generate(*args, streamer=self, **kwargs)` and return its result; its error reaches the reader, too.

        Of a model's own `generate` the padding token is looked up as well, unless `pad_token_id` was given.

        Raises:
            Exception: whatever `generate` raises.
        """
        if self._pad is None:
            self._fill = _padding_of(generate, kwargs, self._fill)
        self._thread = threading.current_thread()
        try:
            result = generate(*args, streamer=self, **kwargs)
        except BaseException as error:
            self.fail(error)
            raise
        if not self._over:
            self.fail(StreamError(_NO_END))
        return result

    def start(self, generate: Callable[..., Any], *args: Any, **kwargs: Any) -> threading.Thread:
        """As `run`, in a new thread (a daemon), which is returned. Errors of `generate` go to the reader only."""
        thread = threading.Thread(target=self._run_quietly, args=(generate, args, kwargs), daemon=True)
        thread.start()
        return thread

    def _run_quietly(self, generate: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            self.run(generate, *args, **kwargs)
        except BaseException as error:
            self.fail(error)  # where it came from before `run` could

    # -- what the reader calls --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Read no further: what comes from now on is dropped. `generate` isn't disturbed; see `StopWhenOver`."""
        self._closed = True
        if not self._over:
            self._error = self._error or StreamError("this streamer was closed before its generation was over")
            self._finish()

    @property
    def closed(self) -> bool:
        """Has the reader gone away?"""
        return self._closed

    def wants(self, row: int) -> bool:
        """Is anybody interested in what else this row generates? Not if it failed, or the streamer is closed."""
        if self._over:
            return False
        return row >= len(self._rows) or self._rows[row].error is None

    @property
    def messages(self) -> list[Message]:
        """The messages of all rows, after the generation.

        Raises:
            StreamError: it isn't over yet, or the streamer was closed before.
            ParseError: under `errors="strict"`, a row doesn't parse. (Also what ended the generation, if an error did.)
        """
        if not self._over:
            raise StreamError("the generation is not over yet: read the events first, or wait for generate to return")
        if self._error is not None:
            raise self._error
        return [row.result() for row in self._rows]

    @property
    def message(self) -> Message:
        """The message, after the generation, where there is one row.

        Raises:
            StreamError: as for `messages`; or there are several rows.
        """
        messages = self.messages
        if len(messages) != 1:
            raise StreamError(f"there are {len(messages)} rows; take .messages")
        return messages[0]

    # -- inside -----------------------------------------------------------------------------------------------------

    def _step(self, value: Any) -> None:
        dimensions, rows = step_rows(value)
        if self._dimensions is None:
            self._dimensions = dimensions
        another = threading.current_thread() is not self._thread and dimensions == 2
        if dimensions != self._dimensions or another:  # what came is the prompt of a second generation
            raise StreamError(_USED)
        self._begin(len(rows))
        if len(rows) != len(self._rows):
            raise InputTypeError(f"ids for {len(rows)} rows were put, but the generation has {len(self._rows)}")
        for row, ids in zip(self._rows, rows, strict=True):
            self._parse(row, lambda row=row, ids=ids: row.take(ids))  # type: ignore[misc]

    def _begin(self, count: int | None) -> None:
        """Make the rows; `count` is their number, None where no token came."""
        if self._rows:
            return
        if self._prompt is None:
            raise StreamError("generate ended before it put its prompt")
        alone = (count or len(self._prompt)) == 1  # then there is nothing to fill it up for
        fill = None if alone else self._last if self._fill is None else self._fill  # as `generate` chooses
        self._rows = self._factory.rows(self._prompt, count, fill, self._last)
        for row in self._rows:
            self._deliver(*row.initial_events)

    def _parse(self, row: Row, action: Callable[[], list[Event]]) -> None:
        if row.error is not None:
            return
        try:
            self._deliver(*action())
        except ParseError as error:
            row.error = error
            self._deliver(_Failure(error))

    def _finish(self) -> None:
        self._over = True
        self._deliver(_End())

    def _deliver(self, *items: Event | _Failure | _End) -> None:
        raise NotImplementedError

    def _died(self) -> bool:
        """Is the generating thread gone, and the stream not over?"""
        return not self._over and self._thread is not None and not self._thread.is_alive()

    def _start_reading(self) -> None:
        if self._closed:
            raise StreamError("this streamer is closed")
        if self._drained:
            raise StreamError("all events of this streamer have been read; make a new one for the next generation")

    def _read(self, item: Event | _Failure | _End) -> Event | None:
        """What the reader gets for an item of the queue; None at the end."""
        if isinstance(item, _Failure):
            raise item.error
        if isinstance(item, _End):
            self._drained = True
            return None
        return item


class ResponseStreamer(_Streamer):
    """Pass it to `generate` as `streamer=`, and iterate over it in another thread: it yields the parser's events.

    Each event also has `row`, the row of the batch (0 where there is one prompt). The result is in `message`, that of a
    batch in `messages`. It is a context manager, too, that closes itself.

    Args:
        tokenizer: the tokenizer (or processor) of the model.
        prefix: the prompt, for a batch one for all or one each. None: what `generate` was given as input ids. `""`
            opts out.
        tools, errors: as for `ResponseParser`.
        timeout: seconds to wait for an event; None: as long as it takes.
        response_template: a template to use in place of the tokenizer's own.
        pad_token_id: what `generate` fills finished rows with; None: the tokenizer's padding token.
        parser_options: others, as for `tokenizer.get_response_parser`.

    Raises:
        TemplateMissingError: the tokenizer has no response template.
        TemplateError, InputTypeError: as for `ResponseParser`.
        ParseError, StreamError, or any error of `generate`: when events are read. After a ParseError of one row of a
            batch, reading may go on.
        StreamTimeoutError: when events are read: none came within `timeout`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._queue: queue.SimpleQueue[Event | _Failure | _End] = queue.SimpleQueue()

    def _deliver(self, *items: Event | _Failure | _End) -> None:
        for item in items:
            self._queue.put(item)

    def __iter__(self) -> Iterator[Event]:
        self._start_reading()
        return self

    def __next__(self) -> Event:
        if self._drained:
            raise StopIteration
        event = self._read(self._next())
        if event is None:
            raise StopIteration
        return event

    def _next(self) -> Event | _Failure | _End:
        limit = None if self.timeout is None else time.monotonic() + self.timeout
        while True:
            left = POLL_SECONDS if limit is None else min(POLL_SECONDS, limit - time.monotonic())
            died = self._died()  # looked at before the queue: what it put before it died is read first
            try:
                return self._queue.get(timeout=left) if left > 0 and not died else self._queue.get_nowait()
            except queue.Empty:
                if died:
                    self.fail(StreamError(_DIED))
                elif limit is not None and time.monotonic() >= limit:
                    raise StreamTimeoutError(f"no event came within {self.timeout} seconds") from None

    def __enter__(self) -> ResponseStreamer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class AsyncResponseStreamer(_Streamer):
    """As `ResponseStreamer`, for `async for`: `generate` runs in a thread, the events are read in a task.

    It may be made anywhere, and belongs to the event loop in which it is first read.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ready: deque[Event | _Failure | _End] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._arrived = asyncio.Event()

    def _deliver(self, *items: Event | _Failure | _End) -> None:
        self._ready.extend(items)
        if items and self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._arrived.set)
            except RuntimeError:  # the loop is closed: nobody reads any more
                self._closed = True

    def __aiter__(self) -> AsyncIterator[Event]:
        self._start_reading()
        return self

    async def __anext__(self) -> Event:
        if self._drained:
            raise StopAsyncIteration
        event = self._read(await self._next())
        if event is None:
            raise StopAsyncIteration
        return event

    async def _next(self) -> Event | _Failure | _End:
        self._loop = asyncio.get_running_loop()  # from now on whoever delivers wakes us; what came before is in _ready
        limit = None if self.timeout is None else time.monotonic() + self.timeout
        while True:
            died = self._died()
            self._arrived.clear()
            if self._ready:
                return self._ready.popleft()
            if died:
                self.fail(StreamError(_DIED))
                continue
            left = POLL_SECONDS if limit is None else min(POLL_SECONDS, limit - time.monotonic())
            if left <= 0:
                raise StreamTimeoutError(f"no event came within {self.timeout} seconds")
            try:
                await asyncio.wait_for(self._arrived.wait(), left)
            except asyncio.TimeoutError:
                continue

    async def __aenter__(self) -> AsyncResponseStreamer:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()


_USED = "this streamer has been used already; a streamer is for one generation, make a new one for the next"
_DIED = (
    "the generating thread ended without calling end(), most likely by an error; streamer.start(model.generate, ...)"
    " in place of a thread of your own hands the error itself on"
)
_NO_END = "generate returned without calling end() of its streamer"


def _padding_of(generate: Callable[..., Any], kwargs: dict[str, Any], default: int | None) -> int | None:
    """The token with which this call of a model's `generate` fills finished rows; `default` if that can't be seen."""
    configs = (kwargs.get("generation_config"), getattr(getattr(generate, "__self__", None), "generation_config", None))
    named = [kwargs.get("pad_token_id"), *(getattr(config, "pad_token_id", None) for config in configs)]
    return next((each for each in named if isinstance(each, int)), default)
