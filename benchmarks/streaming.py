"""What a chunk costs in a stream: five families, two templates each, messages of 1 KB to 1 MB.

Run: python -m benchmarks.streaming

A run is a whole stream: making the parser, feeding every chunk, `finalize`. `kind` is "message" (reasoning, prose,
calls), "text" (no calls) or "text without <". The native engine is quadratic in the length, so at 1 MB it runs once,
in chunks of 4 only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import engines, measure, shapes
from .engines import Engine
from .measure import Case

TEMPLATES = ("registry", "plain")


@dataclass(frozen=True)
class Setting:
    """One group of rows: what is measured, and how often."""

    kind: str
    size: int
    chunk: int
    rounds: int
    with_native: bool


KINDS: Mapping[str, Callable[[shapes.Shape, int], str]] = {
    "message": shapes.Shape.message,
    "text": shapes.Shape.text_only,
    "text without <": lambda shape, size: shape.text_only(size, shapes.tame_prose),
}
FULL = (
    Setting("message", 1_000, 4, 31, True),
    Setting("message", 10_000, 4, 41, True),
    Setting("message", 100_000, 4, 4, True),
    Setting("message", 1_000_000, 4, 5, False),
    Setting("message", 10_000, 1, 9, True),
    Setting("message", 1_000_000, 1, 1, False),
    Setting("text", 10_000, 4, 41, True),
    Setting("text without <", 10_000, 4, 41, True),
)
QUICK = (Setting("message", 600, 4, 2, True), Setting("text", 300, 1, 2, True))
ENOUGH = 50_000  # characters parsed in one timed run: a shorter message is streamed several times over
NATIVE_ONCE = Setting("message", 1_000_000, 4, 1, True)


def main() -> None:
    arguments = measure.options(__doc__ or "")
    rows: list[dict[str, Any]] = []
    for setting in QUICK if arguments.quick else FULL:
        for shape in shapes.SHAPES:
            for which in TEMPLATES:
                rows += group(shape, which, setting)
        measure.write("streaming", rows, arguments.results, complete=False)
    if not arguments.quick:
        for shape in shapes.SHAPES:
            for which in TEMPLATES:
                rows += group(shape, which, NATIVE_ONCE, only="native")
        measure.write("streaming", rows, arguments.results, complete=False)
    rows += harmony(QUICK[:1] if arguments.quick else FULL[1:2])
    measure.write("streaming", rows, arguments.results, complete=True)


def group(shape: shapes.Shape, which: str, setting: Setting, only: str = "") -> Iterator[dict[str, Any]]:
    """All engines on one message, with one template."""
    text = KINDS[setting.kind](shape, setting.size)
    pieces = shapes.chunks(text, setting.chunk)
    row = {
        "shape": shape.name,
        "template": which,
        "kind": setting.kind,
        "size": setting.size,
        "chunk": setting.chunk,
        "calls": len(pieces),
    }
    template = shape.template(which)
    ours = engines.ours(template)
    contenders = [engines.floor(), ours]
    native = engines.native(template) if setting.with_native else None
    if native is not None:
        problem = disagreement(ours, native, shape, setting.chunk)
        if problem:
            yield {**row, "engine": "native", "note": problem}
        else:
            contenders.append(native)
    cases: dict[str, Case] = {engine.name: stream(engine, pieces) for engine in contenders if only in ("", engine.name)}
    repeats = max(1, ENOUGH // setting.size)
    cases = {name: measure.repeated(case, repeats) for name, case in cases.items()}
    for name, timing in measure.interleaved(cases, setting.rounds).items() if cases else ():
        yield {**row, "engine": name, **timing.per(len(pieces) * repeats)}


def stream(engine: Engine, pieces: list[Any]) -> Case:
    """A run: a parser is made, fed and finalized."""

    def run() -> None:
        parser = engine.start()
        engines.feed_all(parser.feed, pieces)
        if engine.name in ("ours", "native"):
            parser.finalize()

    return run


def disagreement(ours: Engine, native: Engine, shape: shapes.Shape, chunk: int) -> str:
    """Why native is not timed here: it fails on a small message, or says something else. "" if it is."""
    text = shape.message(2_000)
    messages = []
    for engine in (ours, native):
        parser = engine.start()
        try:
            engines.feed_all(parser.feed, shapes.chunks(text, chunk))
            messages.append(parser.finalize()[0])
        except Exception as error:
            return f"{engine.name} fails on this message in chunks: {type(error).__name__}: {error}"
    return "" if messages[0] == messages[1] else "the engines disagree on this message in chunks"


def harmony(settings: tuple[Setting, ...]) -> Iterator[dict[str, Any]]:
    """openai-harmony on the tokens of the gpt-oss message, ours and native on the text of the same tokens."""
    if engines.harmony_encoding() is None:
        yield {"shape": "gpt-oss", "engine": "openai-harmony", "note": "not installed, or its vocabulary is not there"}
        return
    shape = next(shape for shape in shapes.SHAPES if shape.name == "gpt-oss")
    for setting in settings:
        text = shape.message(setting.size).replace("ã", "a")  # a token may be half of what is not ASCII
        ids, pieces = engines.harmony_tokens(text)

        def run_harmony(ids: list[int] = ids) -> None:
            engines.feed_all(engines.Harmony().feed, ids)

        cases: dict[str, Case] = {"openai-harmony": run_harmony, "floor": stream(engines.floor(), pieces)}
        for which in TEMPLATES:
            template = shape.template(which)
            cases[f"ours, {which}"] = stream(engines.ours(template), pieces)
            native = engines.native(template) if setting.with_native else None
            if native is not None:
                cases[f"native, {which}"] = stream(native, pieces)
        for name, timing in measure.interleaved(cases, setting.rounds).items():
            engine, _, which = name.partition(", ")
            yield {
                "shape": shape.name,
                "template": which,
                "kind": "tokens",
                "size": setting.size,
                "chunk": "token",
                "calls": len(pieces),
                "engine": engine,
                **timing.per(len(pieces)),
            }


if __name__ == "__main__":
    main()
