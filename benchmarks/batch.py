"""A list of messages at once: 10,000 of them, each different.

Run: python -m benchmarks.batch

Ours takes the list; the native engine takes one text a call. Both have loaded the template beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import engines, measure, shapes
from .measure import Case


def main() -> None:
    arguments = measure.options(__doc__ or "")
    count, size, rounds = (30, 200, 2) if arguments.quick else (10_000, 600, 3)
    rows: list[dict[str, Any]] = []
    for shape in shapes.SHAPES:
        texts = messages(shape, count, size)
        for which in ("registry", "plain"):
            rows += group(shape, which, texts, rounds)
    measure.write("batch", rows, arguments.results)


def messages(shape: shapes.Shape, count: int, size: int) -> list[str]:
    """`count` messages of about `size` characters: reasoning and prose, every other one with a call."""
    source = shapes.prose(100_000, 7)
    texts = []
    for number in range(count):
        at = number * 97 % (len(source) - size)
        calls = [{"city": f"Town {number}", "days": number}] if number % 2 else []
        half = size // 2
        texts.append(shape.write(source[at : at + half].strip(), source[at + half : at + size].strip(), calls))
    return texts


def group(shape: shapes.Shape, which: str, texts: list[str], rounds: int) -> Iterator[dict[str, Any]]:
    """Ours and native on all texts."""
    from response_templates import load_template, parse_response

    template = shape.template(which)
    loaded = load_template(template)
    row = {"shape": shape.name, "template": which, "messages": len(texts)}
    cases: dict[str, Case] = {"ours": lambda: parse_response(texts, loaded, prefix="")}
    native = engines.native(template)
    if native is not None:
        whole = native.whole
        if [whole(text) for text in texts[:20]] == parse_response(texts[:20], loaded, prefix=""):
            cases["native"] = lambda: [whole(text) for text in texts]
        else:
            yield {**row, "engine": "native", "note": "the engines disagree on some of these messages"}
    for name, timing in measure.interleaved(cases, rounds).items():
        yield {**row, "engine": name, **timing.per(len(texts))}


if __name__ == "__main__":
    main()
