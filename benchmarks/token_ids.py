"""What an id costs, from id to events: beside decoding alone, parsing alone, TextIteratorStreamer, and native.

Run: python -m benchmarks.token_ids

- `decode`: the tokenizer's own streaming decode, an id at a time: tokenizers' `DecodeStream`; a slow tokenizer, written
  in Python, has none, and there it is what transformers streams it with, `TextIteratorStreamer`;
- `parse`: our text parser, fed with the text of each id;
- `ours`: ids in, events out (`get_response_parser`), and with `token_delimiters`, and with `offsets`;
- `native`: transformers' engine, fed with what `DecodeStream` gives;
- `TextIteratorStreamer`: transformers' own streamer, which decodes and doesn't parse.

`over_both` is the time of a row over that of `decode` and `parse` together. The tokenizers are the demo model's, those
of the fetched material (`scripts/fetch_materials.py`) that are there, and two that are decoded in the slowest of our
three ways (`decoding.WindowStream`): one with a decoder that no chat model known to us has, and ByT5's, written in
Python.
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
STREAMER = "TextIteratorStreamer"


def from_file(path: Path) -> Any:
    """A fast tokenizer. (Called only where transformers is installed, as are the others.)"""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_file=str(path))


def material(name: str) -> Path:
    """The file of a tokenizer of the fetched material."""
    named = os.environ.get("RESPONSE_TEMPLATES_CACHE")
    cache = Path(named).expanduser() if named else Path.home() / ".cache" / "response-templates"
    return cache / f"tokenizer-{name}-3.7.2" / "package" / "models" / "tokenizer.json"


def with_pattern() -> Any:
    """BPE over the benchmark's prose, with a decoder that looks at the whole text, so that tokenizers does it."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.decoder = decoders.Sequence([decoders.Fuse(), decoders.Replace(Regex("▁"), " ")])
    markers = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(vocab_size=2_000, special_tokens=markers, show_progress=False)
    tokenizer.train_from_iterator([shapes.SHAPES[0].message(20_000)], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def byt5() -> Any:
    """Written in Python; a token a byte, and no vocabulary file."""
    from transformers import ByT5Tokenizer

    return ByT5Tokenizer()


@dataclass(frozen=True)
class Pair:
    """A family's format, and a tokenizer. `path`: the file that `make` needs, if any."""

    shape: str
    tokenizer: str
    make: Callable[..., Any] = from_file
    path: Path | None = None

    def made(self) -> Any:
        return self.make(self.path) if self.path is not None else self.make()


PAIRS = (
    Pair("Qwen3", "demo", path=DEMO),
    Pair("Qwen3", "Qwen3", path=material("qwen3")),
    Pair("gpt-oss", "gpt-oss", path=material("gptoss")),
    Pair("Cohere", "Command R+", path=material("command_r_plus")),
    Pair("Qwen3", "Gemma 3", path=material("gemma3")),
    Pair("Qwen3", "BPE, another decoder", with_pattern),
    Pair("Qwen3", "ByT5 (slow)", byt5),
)
QUICK = (PAIRS[0], PAIRS[-2], PAIRS[-1])


def main() -> None:
    arguments = measure.options(__doc__ or "")
    sizes, rounds = ((400,), 2) if arguments.quick else (SIZES, 5)
    rows: list[dict[str, Any]] = []
    for pair in QUICK if arguments.quick else PAIRS:
        for size in sizes:
            rows += group(pair, size, rounds)
    measure.write("token_ids", rows, arguments.results)


def group(pair: Pair, size: int, rounds: int) -> Iterator[dict[str, Any]]:
    """All contenders on one message."""
    shape = next(each for each in shapes.SHAPES if each.name == pair.shape)
    row = {"shape": shape.name, "tokenizer": pair.tokenizer, "size": size}
    try:
        from response_templates import install
    except ImportError as error:
        yield {**row, "engine": "ours", "note": f"no tokenizers to time: {error}"}
        return
    if pair.path is not None and not pair.path.is_file():
        yield {**row, "engine": "ours", "note": "the tokenizer isn't there"}
        return
    install()
    tokenizer = pair.made()
    ids = tokenizer(shape.message(size), add_special_tokens=False)["input_ids"]
    cases = contenders(tokenizer, shape.template("registry"), ids)
    repeats = max(1, 10_000 // size)
    timings = measure.interleaved({name: measure.repeated(case, repeats) for name, case in cases.items()}, rounds)
    own = timings.get("decode") or timings.get(STREAMER)
    for name, timing in timings.items():
        cost = {"ids": len(ids), "engine": name, **timing.per(len(ids) * repeats)}
        if own is not None:
            cost["over_both"] = round(timing.median / (own.median + timings["parse"].median), 3)
        yield {**row, **cost}


def contenders(tokenizer: Any, template: dict[str, Any], ids: list[int]) -> dict[str, Case]:
    """A run each: a parser or stream is made, fed id by id, and finalized."""
    ours = engines.ours(template)
    native = engines.native(template)
    pieces = [piece for piece in texts(tokenizer, ids) if piece]

    def parse(start: Callable[[], Any], chunks: list[Any]) -> Callable[[], None]:
        def run() -> None:
            parser = start()
            engines.feed_all(parser.feed, chunks)
            parser.finalize()

        return run

    def from_ids(**options: Any) -> Callable[[], None]:
        return parse(lambda: tokenizer.get_response_parser(template, prefix="", **options), ids)

    cases: dict[str, Case] = {
        "parse": parse(ours.start, pieces),
        "ours": from_ids(),
        "ours, token_delimiters": from_ids(token_delimiters=True),
        "ours, offsets": from_ids(offsets=True),
        **iterator_streamer(tokenizer, ids),
    }
    if tokenizer.is_fast:
        cases["decode"] = lambda: list(decode_stream(tokenizer, ids))
    if tokenizer.is_fast and native is not None:
        cases["native"] = lambda: native_of_ids(native, tokenizer, ids)
    return cases


def native_of_ids(native: engines.Engine, tokenizer: Any, ids: list[int]) -> None:
    """The native engine, fed with decoded text."""
    parser = native.start()
    for piece in decode_stream(tokenizer, ids):
        if piece:
            parser.feed(piece)
    parser.finalize()


def decode_stream(tokenizer: Any, ids: list[int]) -> Iterator[str | None]:
    """tokenizers' own streaming decode."""
    from tokenizers.decoders import DecodeStream

    stream, backend = DecodeStream(skip_special_tokens=False), tokenizer.backend_tokenizer
    step = stream.step
    return (step(backend, each) for each in ids)


def texts(tokenizer: Any, ids: list[int]) -> Iterator[str | None]:
    """The text of each id; of a slow tokenizer what our own stream makes of it, because there is no other."""
    if tokenizer.is_fast:
        return decode_stream(tokenizer, ids)
    from response_templates.decoding import vocabulary_of

    return map(vocabulary_of(tokenizer).stream().step, ids)


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

    return {STREAMER: run}


if __name__ == "__main__":
    main()
