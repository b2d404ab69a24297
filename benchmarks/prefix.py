"""What a parser costs to make: with an empty prefix, with a long prompt as text, and with one as token ids.

Run: python -m benchmarks.prefix

Ids go through the tokenizer's `get_response_parser`: ours with the plugin installed, native without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from . import engines, measure, shapes
from .measure import Case

REPEATS = 200  # parsers made in one timed run
LENGTHS = (100, 1_000, 10_000, 100_000)


def main() -> None:
    arguments = measure.options(__doc__ or "")
    lengths, rounds = ((10, 100), 2) if arguments.quick else (LENGTHS, 7)
    rows: list[dict[str, Any]] = []
    for shape in shapes.SHAPES:
        for which in ("registry", "plain"):
            rows += empty(shape, which, rounds)
    rows += of_text(lengths, rounds)
    rows += of_ids(lengths, rounds)
    measure.write("prefix", rows, arguments.results)


def empty(shape: shapes.Shape, which: str, rounds: int) -> Iterator[dict[str, Any]]:
    """A parser for a template that is loaded, `prefix=""`; and one for the template as a dict, as natively saved."""
    from response_templates import ResponseParser

    template = shape.template(which)
    cases: dict[str, Case] = {}
    for engine in (engines.ours(template), engines.native(template)):
        if engine is not None:
            cases[engine.name] = many(engine.start)
    cases["ours, from a dict"] = many(lambda: ResponseParser(template, ""))
    for name, timing in measure.interleaved(cases, rounds).items():
        row = {"kind": "empty prefix", "shape": shape.name, "template": which, "engine": name}
        yield {**row, **timing.per(REPEATS)}


def many(make: Callable[[], object], repeats: int = REPEATS) -> Case:
    """A run that makes `repeats` of what `make` makes."""

    def run() -> None:
        for _ in range(repeats):
            make()

    return run


def prompt(length: int) -> str:
    """A chat of `length` words, up to where the assistant's turn begins."""
    words = shapes.prose(7 * length + 100, 6).split()[:length]
    return f"<|im_start|>user\n{' '.join(words)}<|im_end|>\n<|im_start|>assistant\n"


def of_text(lengths: tuple[int, ...], rounds: int) -> Iterator[dict[str, Any]]:
    """The prompt as a str."""
    from response_templates import ResponseParser, load_template

    template = shapes.SHAPES[1].template("registry")
    loaded = load_template(template)
    for length in lengths:
        text = prompt(length)
        cases: dict[str, Case] = {"ours": many(lambda text=text: ResponseParser(loaded, text), 20)}  # type: ignore[misc]
        start = native_start(template)
        if start is not None:
            cases["native"] = many(lambda text=text, start=start: start(text), 20)  # type: ignore[misc]
        for name, timing in measure.interleaved(cases, rounds).items():
            yield {"kind": "text prefix", "length": length, "engine": name, **timing.per(20)}


def native_start(template: dict[str, Any]) -> Callable[[str], object] | None:
    """The native parser's constructor for a loaded template."""
    try:
        from transformers.utils.chat_parsing import ResponseParser as NativeParser
        from transformers.utils.chat_parsing.response_templates import load_response_template
    except ImportError:
        return None
    loaded = load_response_template(template)
    return lambda text: NativeParser(loaded, prefix=text)


def of_ids(lengths: tuple[int, ...], rounds: int) -> Iterator[dict[str, Any]]:
    """The prompt as token ids, through a tokenizer."""
    try:
        from response_templates import install, uninstall

        tokenizer = word_tokenizer(max(lengths))
    except ImportError as error:
        yield {"kind": "ids prefix", "engine": "ours", "note": f"no plugin to time: {error}"}
        return
    template = shapes.SHAPES[1].template("registry")
    made: dict[str, dict[int, Case]] = {"native": {}, "ours": {}}
    ids = {length: tokenizer(prompt(length))["input_ids"] for length in lengths}
    uninstall()
    for name, switch in (("native", uninstall), ("ours", install)):
        switch()
        if not hasattr(tokenizer, "get_response_parser"):
            continue
        tokenizer.response_template = template
        for length in lengths:
            make = tokenizer.get_response_parser
            made[name][length] = many(lambda make=make, given=ids[length]: make(prefix=given), 5)  # type: ignore[misc]
            once = measure.once(made[name][length])
            if once > 60:
                break
        cases: dict[str, Case] = {str(length): case for length, case in made[name].items()}
        for length, timing in measure.interleaved(cases, rounds).items():
            row = {"kind": "ids prefix", "length": int(length), "ids": len(ids[int(length)]), "engine": name}
            yield {**row, **timing.per(5)}
    uninstall()


def word_tokenizer(length: int) -> Any:
    """A tokenizer of whole words that knows all words of the prompts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<|im_start|>", "<|im_end|>"]
    splitter = pre_tokenizers.Split(" ", "merged_with_previous")
    parts = re.split("|".join(map(re.escape, special)), prompt(length))
    words = sorted({word for part in parts for word, _ in splitter.pre_tokenize_str(part)})
    vocabulary = {word: number for number, word in enumerate(["[UNK]", *special, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.Fuse()  # the words as they are, without a space between
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]")
    fast.add_special_tokens({"additional_special_tokens": special})
    fast.clean_up_tokenization_spaces = False
    if fast.decode(fast(prompt(length))["input_ids"]) != prompt(length):
        raise AssertionError("this tokenizer does not give the prompt back, so no anchor would be found in it")
    return fast


if __name__ == "__main__":
    main()
