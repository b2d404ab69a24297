"""What a snapshot after each chunk costs: long arguments as JSON, tags and Python calls, of 10 KB to 1 MB.

Run: python -m benchmarks.snapshots

The same stream, four ways: without snapshots ("ours, events only"); with one after each chunk that nobody reads
("ours"); with one that is read ("ours, read"); and with the text so far parsed anew from its start by jiter ("jiter,
from the start"; JSON only, and not beyond 100 KB, as it is quadratic). Reading makes the string that grows anew each
time, as Python's strings can't be changed: a copy in C.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from response_templates import ResponseParser

from . import measure, shapes
from .measure import Case

CHUNK = 4
SIZES, QUICK = (10_000, 100_000, 1_000_000), (400,)
ROUNDS = {10_000: 7, 100_000: 5, 1_000_000: 3}
MOST_FOR_JITER = 100_000


@dataclass(frozen=True)
class Shape:
    """A call with one long argument: its beginning, and its end."""

    name: str
    template: str
    begin: str
    end: str
    is_json: bool = False


JSON_BEGIN = '{"name": "write_file", "arguments": {"text": "'
SHAPES = (
    Shape("JSON", "qwen3", f"<tool_call>\n{JSON_BEGIN}", '"}}\n</tool_call>', is_json=True),
    Shape(
        "tags",
        "qwen3-coder",
        "<tool_call>\n<function=write_file>\n<parameter=text>\n",
        "\n</parameter>\n</function>\n</tool_call>",
    ),
    Shape("Python", "lfm2", '<|tool_call_start|>[write_file(text="', '")]<|tool_call_end|>'),
    Shape("text", "qwen3", "", ""),
)


def main() -> None:
    arguments = measure.options(__doc__ or "")
    rows: list[dict[str, Any]] = []
    for size in QUICK if arguments.quick else SIZES:
        for shape in SHAPES:
            rows += group(shape, size)
        measure.write("snapshots", rows, arguments.results, complete=False)
    measure.write("snapshots", rows, arguments.results, complete=True)


def group(shape: Shape, size: int) -> Iterator[dict[str, Any]]:
    """All ways on one text."""
    value = json.dumps(shapes.prose(size))[1:-1] if shape.begin else shapes.prose(size)
    pieces = shapes.chunks(shape.begin + value + shape.end, CHUNK)
    template = json.loads((shapes.TEMPLATES / f"{shape.template}.json").read_text(encoding="utf-8"))
    cases: dict[str, Case] = {
        "ours, events only": stream(template, pieces, ""),
        "ours": stream(template, pieces, "take"),
        "ours, read": stream(template, pieces, "read"),
    }
    if shape.is_json and size <= MOST_FOR_JITER:
        cases["jiter, from the start"] = jiter_case(shapes.chunks(JSON_BEGIN + value + '"}}', CHUNK))
    for name, timing in measure.interleaved(cases, ROUNDS.get(size, 2)).items():
        row = {"shape": shape.name, "size": size, "chunk": CHUNK, "calls": len(pieces)}
        yield {**row, "engine": name, **timing.per(len(pieces))}


def stream(template: dict[str, Any], pieces: list[str], what: str) -> Case:
    """A run: a parser is made, fed with all pieces (with a snapshot after each) and finalized."""

    def run() -> None:
        parser = ResponseParser(template, "")
        for piece in pieces:
            parser.feed(piece)
            if what:
                snapshot = parser.snapshot()
                if what == "read":
                    snapshot.message  # noqa: B018
        parser.finalize()

    return run


def jiter_case(pieces: list[str]) -> Case:
    """The text so far, read anew after each chunk."""
    from jiter import from_json

    def run() -> None:
        text = bytearray()
        for piece in pieces:
            text += piece.encode()
            from_json(bytes(text), partial_mode="trailing-strings")

    return run


if __name__ == "__main__":
    main()
