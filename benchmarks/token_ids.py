"""What an id costs, from id to events: beside decoding alone, parsing alone, TextIteratorStreamer, and native.

Run: python -m benchmarks.token_ids

- `decode`: tokenizers' own streaming decode (`DecodeStream`), an id at a time;
- `parse`: our text parser, fed with the text of each id;
- `ours`: ids in, events out (`get_response_parser`), and with `token_delimiters`, and with `offsets`;
- `native`: transformers' engine, fed with what `DecodeStream` gives;
- `TextIteratorStreamer`: transformers' own streamer, which decodes and doesn't parse.

`over_both` is the time of a row over that of `decode` and `parse` together. The tokenizers are the demo model's, and those
of the fetched material (`scripts/fetch_materials.py`) that are there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import engines, measure, shapes
from .measure import Case

DEMO = Path(__file__).parents[1] / "demo" / "model" / "tokenizer.json"
SIZES = (1_000, 10_000)


@dataclass(frozen=True)
class Pair:
    """A family, and a tokenizer that knows its delimiters. `folder`: of the material; empty: the demo model's."""

    shape: str
    folder: str = ""

    @property
    def path(self) -> Path:
        named = os.environ.get("RESPONSE_TEMPLATES_CACHE")
        cache = Path(named).expanduser() if named else Path.home() / ".cache" / "response-templates"
        return cache / self.folder / "package" / "models" / "tokenizer.json" if self.folder else DEMO


PAIRS = (
    Pair("Qwen3"),
    Pair("Qwen3", "tokenizer-qwen3-3.7.2"),
    Pair("gpt-oss", "tokenizer-gptoss-3.7.2"),
    Pair("Cohere", "tokenizer-command_r_plus-3.7.2"),
    Pair("Qwen3", "tokenizer-gemma3-3.7.2"),
)


def main() -> None:
    arguments = measure.options(__doc__ or "")
    sizes, rounds = ((400,), 2) if arguments.quick else (SIZES, 9)
    rows: list[dict[str, Any]] = []
    for pair in PAIRS[:1] if arguments.quick else PAIRS:
        for size in sizes:
            rows += group(pair, size, rounds)
    measure.write("token_ids", rows, arguments.results)


def group(pair: Pair, size: int, rounds: int) -> Iterator[dict[str, Any]]:
    """All contenders on one message."""
    shape = next(each for each in shapes.SHAPES if each.name == pair.shape)
    row = {"shape": shape.name, "tokenizer": pair.folder or "demo", "size": size}
    try:
        from response_templates import install
        from transformers import PreTrainedTokenizerFast
    except ImportError as error:
        yield {**row, "engine": "ours", "note": f"no tokenizers to time: {error}"}
        return
    if not pair.path.is_file():
        yield {**row, "engine": "ours", "note": "the tokenizer isn't there"}
        return
    install()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(pair.path))
    ids = tokenizer(shape.message(size), add_special_tokens=False)["input_ids"]
    cases = contenders(tokenizer, shape.template("registry"), ids)
    repeats = max(1, 10_000 // size)
    timings = measure.interleaved({name: measure.repeated(case, repeats) for name, case in cases.items()}, rounds)
    both = timings["decode"].median + timings["parse"].median
    for name, timing in timings.items():
        cost = timing.per(len(ids) * repeats)
        yield {**row, "ids": len(ids), "engine": name, **cost, "over_both": round(timing.median / both, 3)}


def contenders(tokenizer: Any, template: dict[str, Any], ids: list[int]) -> dict[str, Case]:
    """A run each: a parser or stream is made, fed id by id, and finalized."""
    from tokenizers.decoders import DecodeStream

    backend = tokenizer.backend_tokenizer
    ours = engines.ours(template)
    native = engines.native(template)
    pieces = [piece for piece in decode_all(DecodeStream, backend, ids) if piece]

    def parse(start: Callable[[], Any], chunks: list[Any]) -> Callable[[], None]:
        def run() -> None:
            parser = start()
            engines.feed_all(parser.feed, chunks)
            parser.finalize()

        return run

    def from_ids(**options: Any) -> Callable[[], None]:
        return parse(lambda: tokenizer.get_response_parser(template, prefix="", **options), ids)

    def native_of_ids() -> None:
        stream, parser = DecodeStream(skip_special_tokens=False), native.start()  # type: ignore[union-attr]
        for each in ids:
            piece = stream.step(backend, each)
            if piece:
                parser.feed(piece)
        parser.finalize()

    cases: dict[str, Case] = {
        "decode": lambda: decode_all(DecodeStream, backend, ids),
        "parse": parse(ours.start, pieces),
        "ours": from_ids(),
        "ours, token_delimiters": from_ids(token_delimiters=True),
        "ours, offsets": from_ids(offsets=True),
        **iterator_streamer(tokenizer, ids),
    }
    return {**cases, "native": native_of_ids} if native is not None else cases


def decode_all(stream: Any, backend: Any, ids: list[int]) -> list[str | None]:
    """tokenizers' own streaming decode."""
    step = stream(skip_special_tokens=False).step
    return [step(backend, each) for each in ids]


def iterator_streamer(tokenizer: Any, ids: list[int]) -> dict[str, Case]:
    """transformers' own streamer, put an id at a time and read to the end; nothing without torch."""
    try:
        import torch
        from transformers import TextIteratorStreamer
    except ImportError:
        return {}
    steps = [torch.tensor([each]) for each in ids]

    def run() -> None:
        streamer = TextIteratorStreamer(tokenizer)
        for each in steps:
            streamer.put(each)
        streamer.end()
        for _ in streamer:
            pass

    return {"TextIteratorStreamer": run}


if __name__ == "__main__":
    main()
