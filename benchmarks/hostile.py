"""Hostile texts: what they cost at doubling lengths, on every template of the registry, and the content parsers alone.

Run: python -m benchmarks.hostile

Ours is timed on every generator (see `hostile_texts`), whole, in chunks of 4 and by single characters, at three lengths
that double; `growth` is the cost of the longest over that of half of it: 2 is linear, 4 quadratic. The native engine
runs in a process of its own that is ended after some seconds, on shorter texts, because it may take minutes.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from response_templates import ResponseParser, ResponseTemplate, get_template, list_templates
from response_templates.content import ContentError, compile_content

from . import measure, shapes
from .hostile_texts import CONTENT_BODIES, GENERATORS, markers_of

CHUNKS = {"whole": 0, "in fours": 4, "single characters": 1}
NATIVE_SECONDS = 2.0  # after which a native run is ended
NATIVE_SIZE = 4_000
SHOWN = 5  # of each template and way of cutting: the slowest, and those that grow fastest


@dataclass(frozen=True)
class Cost:
    """Seconds at three lengths that double."""

    generator: str
    seconds: tuple[float, ...]

    @property
    def growth(self) -> float:
        return self.seconds[-1] / max(self.seconds[-2], 1e-9)


def main() -> None:
    arguments = measure.options(__doc__ or "")
    size = 200 if arguments.quick else 8_000
    templates = list_templates()[:2] if arguments.quick else list_templates()
    rows: list[dict[str, Any]] = []
    for name in templates:
        for cut in CHUNKS:
            rows += ours(name, cut, size)
            measure.write("hostile", rows[-1:], arguments.results)
    rows += contents(size, templates)
    rows += list(native(200 if arguments.quick else NATIVE_SIZE, 2 if arguments.quick else len(GENERATORS)))
    measure.write("hostile", rows, arguments.results, size=size)


# --- ours --------------------------------------------------------------------------------------------------------


def ours(name: str, cut: str, size: int) -> Iterator[dict[str, Any]]:
    """All generators on one template, cut one way: a row for the whole, with the worst named."""
    template = get_template(name).template
    markers = markers_of(template)
    costs = []
    for generator, make in GENERATORS.items():
        texts = [make(markers, size * factor) for factor in (1, 2, 4)]
        parse(template, texts[0], CHUNKS[cut])
        costs.append(Cost(generator, tuple(timed(partial(parse, template, text, CHUNKS[cut])) for text in texts)))
    yield {"engine": "ours", "template": name, "cut": cut, **worst(costs, size)}


def timed(run: Callable[[], object]) -> float:
    """Seconds of the faster of two runs; one only where that takes long."""
    first = measure.once(run)
    return first if first > 0.5 else min(first, measure.once(run))


def worst(costs: list[Cost], size: int) -> dict[str, Any]:
    """The slowest generators (ns a character at the longest text) and those that grow fastest."""
    slowest = sorted(costs, key=lambda cost: -cost.seconds[-1])[:SHOWN]
    steepest = sorted(costs, key=lambda cost: -cost.growth)[:SHOWN]
    nanoseconds = 1e9 / (4 * size)
    return {
        "generators": len(costs),
        "size": 4 * size,
        "seconds_of_the_slowest": [round(each, 6) for each in slowest[0].seconds],
        "slowest_ns_per_character": {cost.generator: round(cost.seconds[-1] * nanoseconds, 1) for cost in slowest},
        "steepest_growth": {cost.generator: round(cost.growth, 2) for cost in steepest},
    }


def parse(template: ResponseTemplate, text: str, chunk: int) -> None:
    """Ours, in recover mode: nothing is raised, so the whole text is read."""
    parser = ResponseParser(template, "", errors="recover")
    for piece in shapes.chunks(text, chunk or len(text)):
        parser.feed(piece)
    parser.finalize()


# --- the content parsers alone -----------------------------------------------------------------------------------


def contents(size: int, templates: list[str]) -> Iterator[dict[str, Any]]:
    """Each content parser, with the arguments that make it work hardest, on bodies made for all of them."""
    for label, (name, args) in content_parsers(templates).items():
        parser = compile_content(name, args)

        def run(body: str, parse: Callable[[str], object] = parser.parse) -> None:
            with suppress(ContentError):
                parse(body)

        costs = []
        for body, make in CONTENT_BODIES.items():
            run(make(size))
            costs.append(Cost(body, tuple(timed(partial(run, make(size * factor))) for factor in (1, 2, 4))))
        yield {"engine": "ours", "content": label, **worst(costs, size)}


def content_parsers(templates: list[str]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Content parsers to try: the registry's own, and each with the arguments that ask most of it."""
    found: dict[str, tuple[str, dict[str, Any]]] = {
        "json": ("json", {}),
        "json, lenient": (
            "json",
            {"unquoted_keys": True, "string_delims": [['<|"|>', '<|"|>'], ["'", "'"]], "allow_non_json": True},
        ),
        "python-call-list": ("python-call-list", {}),
        "kv-lines": ("kv-lines", {}),
        "kv-lines of json": ("kv-lines", {"value_parser": {"name": "json", "args": {"allow_non_json": True}}}),
        "xml-inline, plain": (
            "xml-inline",
            {"tag_pattern": r"<parameter=(?P<key>[^>]+)>\s*(?P<value>.*?)\s*</parameter>"},
        ),
    }
    for name in templates:
        for field in get_template(name).template.to_dict()["fields"].values():
            if field.get("content") == "xml-inline":
                found[f"xml-inline of {name}"] = ("xml-inline", field["content_args"])
    return found


# --- native ------------------------------------------------------------------------------------------------------


def native(size: int, count: int) -> Iterator[dict[str, Any]]:
    """The native engine, with the time limit, on the registry's template and the plain one of each family."""
    try:
        import transformers.utils.chat_parsing  # noqa: F401
    except ImportError:
        return
    for shape in shapes.SHAPES[1:4]:
        for which in ("registry", "plain"):
            for cut in ("whole", "in fours"):
                row = {"engine": "native", "shape": shape.name, "template": which, "cut": cut, "size": size}
                yield {**row, **_native_costs(shape, which, CHUNKS[cut], size, count)}


def _native_costs(shape: shapes.Shape, which: str, chunk: int, size: int, count: int) -> dict[str, Any]:
    """Seconds of each generator, native and ours on the same text; what is over the limit is named."""
    template = shape.template(which)
    markers = markers_of(get_template(shape.registered).template)
    ended: list[str] = []
    ratios: dict[str, float] = {}
    for generator in list(GENERATORS)[:count]:
        text = GENERATORS[generator](markers, size)
        seconds = in_a_process(template, text, chunk)
        loaded = get_template(shape.registered).template if which == "registry" else _load(template)
        own = timed(lambda text=text, loaded=loaded: parse(loaded, text, chunk))  # type: ignore[misc]
        if seconds is None:
            ended.append(generator)
        else:
            ratios[generator] = round(seconds / own, 2)
    ordered = sorted(ratios.values())
    slowest = sorted(ratios, key=lambda name: -ratios[name])[:SHOWN]
    return {
        "over_the_limit": ended,
        "limit_s": NATIVE_SECONDS,
        "native_over_ours": {
            "median": ordered[len(ordered) // 2] if ordered else None,
            "least": {name: ratios[name] for name in sorted(ratios, key=lambda name: ratios[name])[:SHOWN]},
            "most": {name: ratios[name] for name in slowest},
        },
    }


def _load(template: dict[str, Any]) -> ResponseTemplate:
    from response_templates import load_template

    return load_template(template)


def in_a_process(template: dict[str, Any], text: str, chunk: int) -> float | None:
    """Seconds that the native engine takes; None: it was ended. An error it raises ends its work early, and counts."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_run_native, args=(template, text, chunk, sending))
    process.start()
    seconds = receiving.recv() if receiving.poll(NATIVE_SECONDS) else None
    process.kill()
    process.join()
    return seconds


def _run_native(template: dict[str, Any], text: str, chunk: int, sending: Any) -> None:
    from .engines import feed_all, native

    engine = native(template)
    assert engine is not None
    parser = engine.start()
    begin = time.process_time()
    with suppress(Exception):
        feed_all(parser.feed, shapes.chunks(text, chunk or len(text)))
        parser.finalize()
    sending.send(time.process_time() - begin)


if __name__ == "__main__":
    main()
