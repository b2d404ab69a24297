"""What a whole text costs: `parse_response` on five families, and on 1 MB of prose beside C's string search.

Run: python -m benchmarks.one_shot
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import engines, measure, shapes
from .measure import Case

FULL = ((1_000, 31), (10_000, 15), (1_000_000, 5))
QUICK = ((500, 2),)
ENOUGH = 50_000  # characters parsed in one timed run: shorter texts are parsed several times over


def main() -> None:
    arguments = measure.options(__doc__ or "")
    rows: list[dict[str, Any]] = []
    for size, rounds in QUICK if arguments.quick else FULL:
        for shape in shapes.SHAPES:
            for which in ("registry", "plain"):
                rows += group(shape, which, size, rounds)
        rows += beside_find(size, rounds)
    measure.write("one_shot", rows, arguments.results)


def group(shape: shapes.Shape, which: str, size: int, rounds: int) -> Iterator[dict[str, Any]]:
    """Ours and native on one message, with one template."""
    text = shape.message(size)
    template = shape.template(which)
    row = {"shape": shape.name, "template": which, "kind": "message", "size": size}
    ours = engines.ours(template)
    cases: dict[str, Case] = {"ours": lambda: ours.whole(text)}
    native = engines.native(template)
    if native is not None:
        if native.whole(text) == ours.whole(text):
            cases["native"] = lambda: native.whole(text)
        else:
            yield {**row, "engine": "native", "note": "the engines disagree on this message"}
    repeats = max(1, ENOUGH // size)
    cases = {name: measure.repeated(case, repeats) for name, case in cases.items()}
    for name, timing in measure.interleaved(cases, rounds).items():
        yield {**row, "engine": name, **timing.per(repeats)}


def beside_find(size: int, rounds: int) -> Iterator[dict[str, Any]]:
    """Prose without any markup but its end, and with the odd `<`, beside one `str.find` for the end."""
    shape = shapes.SHAPES[1]
    for kind, text in (
        ("prose with <", shapes.prose(size, 5)),
        ("prose without <", shapes.prose(size, 5).replace("<", "(")),
    ):
        text += "<|im_end|>"
        cases: dict[str, Case] = {"str.find": lambda text=text: text.find("<|im_end|>")}  # type: ignore[misc]
        for which in ("registry", "plain"):
            template = shape.template(which)
            for engine in (engines.ours(template), engines.native(template)):
                if engine is not None:
                    whole = engine.whole
                    cases[f"{engine.name}, {which}"] = lambda whole=whole, text=text: whole(text)  # type: ignore[misc]
        repeats = max(1, ENOUGH // size)
        cases = {name: measure.repeated(case, repeats) for name, case in cases.items()}
        for name, timing in measure.interleaved(cases, rounds).items():
            engine_name, _, which = name.partition(", ")
            row = {"shape": shape.name, "template": which, "kind": kind, "size": size, "engine": engine_name}
            yield {**row, **timing.per(repeats)}


if __name__ == "__main__":
    main()
