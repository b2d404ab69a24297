"""Thousands of streams at once, each fed a chunk in turn, and the memory that an idle one holds.

Run: python -m benchmarks.many_streams

Memory is what `tracemalloc` sees: of 10,000 parsers just made, and of parsers in the middle of a message. There every
chunk is a string of its own, as a detokenizer makes them; the text that a parser must keep is counted at a byte a
character, and taken off.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any

from . import engines, measure, shapes
from .engines import Engine
from .measure import Case

CHUNK = 4


def main() -> None:
    arguments = measure.options(__doc__ or "")
    streams, size, rounds = (20, 200, 2) if arguments.quick else (10_000, 200, 2)
    rows: list[dict[str, Any]] = []
    for shape in shapes.SHAPES:
        for which in ("registry", "plain"):
            rows += interleaved(shape, which, streams, size, rounds)
            rows += memory(shape, which, streams)
    measure.write("many_streams", rows, arguments.results)


def contenders(shape: shapes.Shape, which: str) -> list[Engine]:
    """The engines that take this template."""
    template = shape.template(which)
    native = engines.native(template)
    return [engines.ours(template), *([native] if native is not None else [])]


def interleaved(shape: shapes.Shape, which: str, streams: int, size: int, rounds: int) -> Iterator[dict[str, Any]]:
    """All streams get their first chunk, then all their second, and so on."""
    pieces = shapes.chunks(shape.message(size), CHUNK)
    row = {"shape": shape.name, "template": which, "kind": "interleaved", "streams": streams}
    cases: dict[str, Case] = {}
    for engine in contenders(shape, which):
        try:
            in_turn(engine, pieces, 1)
        except Exception as error:
            yield {**row, "engine": engine.name, "note": f"fails: {type(error).__name__}: {error}"}
            continue
        cases[engine.name] = lambda engine=engine: in_turn(engine, pieces, streams)  # type: ignore[misc]
    for name, timing in measure.interleaved(cases, rounds).items():
        yield {**row, "engine": name, **timing.per(streams * len(pieces))}


def in_turn(engine: Engine, pieces: list[str], streams: int) -> None:
    """Feed `streams` parsers in turn."""
    parsers = [engine.start() for _ in range(streams)]
    for piece in pieces:
        for parser in parsers:
            parser.feed(piece)
    for parser in parsers:
        parser.finalize()


def memory(shape: shapes.Shape, which: str, streams: int) -> Iterator[dict[str, Any]]:
    """Bytes for each stream beyond the text that it must keep: just made, and in the middle of a message."""
    for fed, count in ((0, streams), (400, streams // 10), (10_000, streams // 100)):
        for engine in contenders(shape, which):
            text = shape.text_only(2 * fed)[:fed] if fed else ""
            row = {"shape": shape.name, "template": which, "kind": "memory", "fed": fed, "streams": max(count, 1)}
            try:
                held = held_by(engine, text, max(count, 1))
            except Exception as error:
                yield {**row, "engine": engine.name, "note": f"fails: {type(error).__name__}: {error}"}
                continue
            yield {**row, "engine": engine.name, "bytes": round(held - fed)}


def held_by(engine: Engine, text: str, count: int) -> float:
    """Bytes that each of `count` parsers holds after `text` came in chunks."""
    warm = engine.start()
    for piece in shapes.chunks(text, CHUNK):
        warm.feed(piece)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    parsers = []
    for _ in range(count):
        parser = engine.start()
        for piece in shapes.chunks(text, CHUNK):  # new strings for each
            parser.feed(piece)
        parsers.append(parser)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return held / len(parsers)


if __name__ == "__main__":
    main()
