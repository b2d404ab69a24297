"""Decoding id by id gives, joined, what decoding all at once gives: for every kind of tokenizer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from plugin_helpers import LetterTokenizer, byte_fallback, byte_level, letter_level
from real_tokenizers import TOKENIZERS, decoded, ids_of, real_tokenizer
from response_templates import InputTypeError
from response_templates.decoding import ByteVocabulary, PieceVocabulary, WindowVocabulary, vocabulary_of

TEXT = "Ein Bär 🐻‍❄️ sagt: 你好, <|im_end|>  zwei  Leerzeichen\n\n\tund\u00a0𐐷 Schluß. "


def by_steps(stream: Any, ids: list[int]) -> list[str]:
    return [stream.step(each) for each in ids] + [stream.flush()]


def check(tokenizer: Any, ids: list[int]) -> None:
    wanted = decoded(tokenizer, ids)
    vocabulary = vocabulary_of(tokenizer)
    assert "".join(by_steps(vocabulary.stream(), ids)) == wanted
    aligned = vocabulary.aligned_stream()
    assert "".join(by_steps(aligned, ids)) == wanted
    assert aligned.total == len(wanted)
    assert len(aligned.starts) == len(aligned.reaches) == len(ids)
    assert aligned.starts == sorted(aligned.starts)
    assert aligned.reaches == sorted(aligned.reaches)
    covered = {place for span in zip(aligned.starts, aligned.reaches, strict=True) for place in range(*span)}
    assert covered == set(range(len(wanted)))


# --- the families' tokenizers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOKENIZERS)
def test_the_kind_is_known(name: str) -> None:
    kind = PieceVocabulary if name == "gemma3" else ByteVocabulary
    assert isinstance(vocabulary_of(real_tokenizer(name)), kind)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_text(name: str) -> None:
    tokenizer = real_tokenizer(name)
    check(tokenizer, ids_of(tokenizer, TEXT))


@pytest.mark.parametrize("name", TOKENIZERS)
def test_random_ids(name: str) -> None:
    tokenizer = real_tokenizer(name)
    draw = random.Random(name)
    size = len(tokenizer)
    for _ in range(1_000):
        low = draw.choice((size, size, 1_000))  # single bytes, and in some the special tokens, are among the first
        check(tokenizer, [draw.randrange(low) for _ in range(draw.randrange(30))])


@pytest.mark.parametrize("name", TOKENIZERS)
def test_random_bytes(name: str) -> None:
    """Characters split over tokens, complete and not, and what is no UTF-8."""
    tokenizer = real_tokenizer(name)
    draw = random.Random(name)
    parts = [each for char in "é汉🚀𐐷\u07ff\uffff" for each in ids_of(tokenizer, char)]
    vocabulary = vocabulary_of(tokenizer)
    if isinstance(vocabulary, PieceVocabulary):
        parts += [tokenizer.convert_tokens_to_ids(f"<0x{byte:02X}>") for byte in (0x20, 0x41, 0x80, 0xC3, 0xE2, 0xF0)]
    else:
        assert isinstance(vocabulary, ByteVocabulary)
        parts += [each for each in range(1_000) if not vocabulary.bytes_of(each).isascii()]
    parts += ids_of(tokenizer, "a b")
    for _ in range(1_000):
        check(tokenizer, draw.choices(parts, k=draw.randrange(12)))


def test_a_long_run_of_incomplete_characters_costs_no_more_each() -> None:
    """Each id looks its own bytes up and nothing else: what is pending never grows."""
    tokenizer = real_tokenizer("qwen3")
    stream = vocabulary_of(tokenizer).stream()
    continuation = next(each for each in range(256) if vocabulary_of(tokenizer).bytes_of(each) == b"\x80")  # type: ignore[attr-defined]
    for _ in range(10_000):
        assert stream.step(continuation) == "\ufffd"
        assert not stream.busy


# --- other kinds -----------------------------------------------------------------------------------------------------

WORDS = [
    "<unk>",
    "▁",
    "▁a",
    "b",
    "▁▁",
    ".",
    "##b",
    "a</w>",
    "<s>",
    "</s>",
    "'",
    "▁not",
    *(f"<0x{byte:02X}>" for byte in range(256)),
]
LLAMA = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
DECODERS: dict[str, Any] = {
    "llama": lambda: decoders.Sequence(LLAMA),
    "two stripped": lambda: decoders.Sequence([*LLAMA[:3], decoders.Strip(" ", 2, 0)]),
    "each stripped": lambda: decoders.Sequence([LLAMA[0], decoders.Strip(" ", 1, 0), decoders.Fuse()]),
    "metaspace": lambda: decoders.Metaspace(),
    "metaspace, never": lambda: decoders.Metaspace(prepend_scheme="never"),
    "metaspace, first": lambda: decoders.Metaspace(prepend_scheme="first"),
    "wordpiece": lambda: decoders.WordPiece(cleanup=False),
    "suffix": lambda: decoders.BPEDecoder(),
    "byte fallback alone": lambda: decoders.ByteFallback(),
    "a pattern": lambda: decoders.Sequence(
        [decoders.Replace(__import__("tokenizers").Regex("[▁.]"), " "), decoders.Fuse()]
    ),
    "a pattern behind all": lambda: decoders.Sequence(
        [decoders.Fuse(), decoders.Replace(__import__("tokenizers").Regex("[▁.]"), " ")]
    ),
    "wordpiece, cleaned up": lambda: decoders.WordPiece(cleanup=True),
    "none": lambda: None,
}


def words(decoder: Callable[[], Any]) -> Any:
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    made = decoder()
    if made is not None:
        tokenizer.decoder = made
    tokenizer.add_special_tokens(["<s>", "</s>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


@pytest.mark.parametrize("kind", DECODERS)
def test_random_words(kind: str) -> None:
    tokenizer = words(DECODERS[kind])
    draw = random.Random(kind)
    vocabulary = vocabulary_of(tokenizer)
    window = isinstance(vocabulary, WindowVocabulary)
    assert window == (kind in ("suffix", "none", "a pattern behind all"))
    for _ in range(1_000):
        ids = [draw.randrange(12 if draw.random() < 0.6 else len(WORDS)) for _ in range(draw.randrange(20))]
        if window:
            ids = [each for each in ids if each < 12]
        check(tokenizer, ids)


MADE: dict[str, Callable[[Path], Any]] = {
    "byte level": lambda folder: byte_level(),
    "byte fallback": lambda folder: byte_fallback(),
    "slow letters": letter_level,
    "slow letters, markers not special": lambda folder: letter_level(folder, special=False),
}


@pytest.mark.parametrize("kind", MADE)
def test_made_tokenizers(kind: str, tmp_path: Path) -> None:
    tokenizer = MADE[kind](tmp_path)
    draw = random.Random(kind)
    for _ in range(300):
        check(tokenizer, [draw.randrange(len(tokenizer)) for _ in range(draw.randrange(30))])


class SentencePieceLike(LetterTokenizer):
    """Slow, and it strips the whole, as transformers' slow sentencepiece tokenizers do."""

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return "".join(tokens).replace("_", " ").strip()


class BytesLike(LetterTokenizer):
    """Slow, and its tokens are bytes, as GPT-2's slow tokenizer has it."""

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        text = "".join(tokens)
        return bytes(ord(char) + (0x80 if char < "h" else 0) & 0xFF for char in text).decode("utf-8", errors="replace")


@pytest.mark.parametrize("kind", [SentencePieceLike, BytesLike])
def test_slow_tokenizers(kind: type[LetterTokenizer], tmp_path: Path) -> None:
    letter_level(tmp_path)
    tokenizer = kind(str(tmp_path / "letters.json"))
    assert isinstance(vocabulary_of(tokenizer), WindowVocabulary)
    draw = random.Random(5)
    some = [tokenizer.convert_tokens_to_ids(char) for char in "ab_ _<C/z"]
    for _ in range(300):
        pool = some if draw.random() < 0.7 else list(range(2, 97))
        check(tokenizer, draw.choices(pool, k=draw.randrange(25)))


class Counting(LetterTokenizer):
    """Counts the ids that it decodes."""

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        self.work = getattr(self, "work", 0) + len(tokens)
        return "".join(tokens).replace("_", " ").strip()


@pytest.mark.parametrize("text", ["ab", " ", "a ", "_"])
def test_a_window_costs_the_same_for_each_id(text: str, tmp_path: Path) -> None:
    letter_level(tmp_path)
    costs = []
    for size in (2_000, 4_000):
        tokenizer: Any = Counting(str(tmp_path / "letters.json"))
        by_steps(vocabulary_of(tokenizer).stream(), [tokenizer.convert_tokens_to_ids(char) for char in text] * size)
        costs.append(tokenizer.work)
    assert costs[1] < 2.5 * costs[0]


# --- which vocabulary ------------------------------------------------------------------------------------------------


def test_it_is_looked_up_once() -> None:
    tokenizer = byte_level()
    assert vocabulary_of(tokenizer) is vocabulary_of(tokenizer)


def test_another_decoder_is_another_vocabulary() -> None:
    tokenizer = byte_level()
    before = vocabulary_of(tokenizer)
    tokenizer.backend_tokenizer.decoder = decoders.Fuse()
    assert vocabulary_of(tokenizer) is not before
    check(tokenizer, ids_of(tokenizer, "a b"))


def test_tokens_that_are_added_later_are_known() -> None:
    tokenizer = byte_level()
    stream = vocabulary_of(tokenizer).stream()
    with pytest.raises(InputTypeError):
        stream.step(len(tokenizer))
    tokenizer.add_tokens(["<new>"])
    assert stream.step(len(tokenizer) - 1) == "<new>"


def test_a_decoder_written_in_python() -> None:
    class Upper:
        def decode_chain(self, tokens: list[str]) -> list[str]:
            return [token.upper() for token in tokens]

    tokenizer = words(decoders.Fuse)
    tokenizer.backend_tokenizer.decoder = decoders.Decoder.custom(Upper())
    assert isinstance(vocabulary_of(tokenizer), WindowVocabulary)
    check(tokenizer, [2, 3, 5, 2])


def ids_out_of(size: int) -> Iterator[int]:
    yield from (-1, size, 2**31, 2**64)


@pytest.mark.parametrize("kind", MADE)
def test_ids_out_of_the_vocabulary(kind: str, tmp_path: Path) -> None:
    tokenizer = MADE[kind](tmp_path)
    vocabulary = vocabulary_of(tokenizer)
    for each in ids_out_of(len(tokenizer)):
        assert not vocabulary.knows(each)
        with pytest.raises(InputTypeError, match="not in the vocabulary"):
            vocabulary.stream().step(each)
    assert all(map(vocabulary.knows, range(len(tokenizer))))
