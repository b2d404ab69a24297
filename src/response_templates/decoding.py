"""Decoding as the ids come: the text that each id completes, in pieces that joined are what decoding all gives.

How a tokenizer decodes is looked up once, in the description of its decoder, and one of three kinds of stream does it:

- `ByteStream`, where tokens are bytes (byte-level BPE): each id has its bytes, and UTF-8 is decoded incrementally;
- `PieceStream`, where tokens are pieces of text, and bytes that no piece has are tokens of their own (sentencepiece,
  WordPiece): a run of byte tokens is text if all of it is UTF-8, and else a U+FFFD for each byte, so it is held until
  it ends;
- `WindowStream` for anything else (a decoder written in Python, slow tokenizers): the last few ids are decoded
  together, and what that adds to the ids before is the text.

tokenizers' own `DecodeStream` is a window, too. It is not used, because it isn't exact: it raises where a run of byte
tokens turns out not to be UTF-8, it decodes all again and again while the text ends in U+FFFD, and it has no way to
give what is left at the end. A table look-up is several times faster besides.

Invariant: for the first two kinds the pieces joined, `flush` included, are `decode` of all ids with special tokens kept
and spaces as they are. So they are for the third if a token's text depends on no more than the few tokens before it.
Bound: an id costs the same however many came before.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from codecs import utf_8_decode
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary, ref

from .errors import InputTypeError

REPLACEMENT = "\ufffd"
CONTEXT = 3  # ids that a window keeps before the new ones
ROOM = 4 * CONTEXT  # ids whose text is out that a window keeps at most
PATIENCE = 8  # ids that a window tries one by one before it waits for as many again

NO_TEXTS: dict[int, str] = {}  # stays empty: of streams whose texts depend on the ids before


class Stream(Protocol):
    """The ids of one generation, decoded.

    Attributes:
        whole: texts of ids that need no state; only to be used while `busy` is false.
        busy: is something pending that the next id's text depends on?
    """

    whole: dict[int, str]

    @property
    def busy(self) -> bool: ...

    def step(self, token_id: int) -> str:
        """The text that this id completes ("" if none).

        Raises:
            InputTypeError: there is no such token.
        """

    def settle(self) -> str:
        """What is still pending after a token that is whole by itself, such as an added one."""

    def flush(self) -> str:
        """What is pending, as if the ids ended here."""


class Vocabulary(Protocol):
    """How a tokenizer decodes, and what is known of its ids. Shared by all streams."""

    def stream(self) -> Stream: ...

    def aligned_stream(self) -> AlignedStream: ...

    def knows(self, token_id: int) -> bool:
        """Is there such a token?"""


# --- which kind ------------------------------------------------------------------------------------------------------

_known: WeakKeyDictionary[Any, tuple[Any, str, Vocabulary]] = WeakKeyDictionary()


def vocabulary_of(tokenizer: Any) -> Vocabulary:
    """How `tokenizer` decodes; looked up again if it got another decoder."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = _decoder_of(tokenizer, backend)
    found = _known.get(tokenizer)
    if found is None or found[0] is not backend or found[1] != decoder:
        found = _known[tokenizer] = (backend, decoder, _vocabulary(tokenizer, backend, decoder))
    return found[2]


def in_vocabulary(tokenizer: Any, token_id: int) -> bool:
    """Has `tokenizer` a token of this id? (Its `len` would say nearly the same, but some count all tokens for that.)"""
    if 0 <= token_id < tokenizer.vocab_size:
        return True
    if getattr(tokenizer, "is_fast", False):
        return _has_token(tokenizer.convert_ids_to_tokens, token_id)
    if token_id in tokenizer.added_tokens_decoder:
        return True
    # ByT5's bytes come behind its special tokens, so its last ones are beyond what it says is its size
    return 0 <= token_id < len(tokenizer) and _has_token(tokenizer.convert_ids_to_tokens, token_id)


def _decoder_of(tokenizer: Any, backend: Any) -> str:
    """The description of its decoder in JSON; empty if `tokenizer` decodes in a way of its own."""
    if not _decodes_plainly(tokenizer) or backend.decoder is None:
        return ""
    try:
        state = backend.decoder.__getstate__()
    except Exception:  # a decoder written in Python has none
        return ""
    return state.decode() if isinstance(state, bytes) else str(state)


def _decodes_plainly(tokenizer: Any) -> bool:
    """Does it decode as its backend does, with nothing of its own?"""
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

    kind = type(tokenizer)
    if not isinstance(tokenizer, PreTrainedTokenizerFast) or kind._decode is not PreTrainedTokenizerFast._decode:
        return False
    return kind.decode is PreTrainedTokenizerBase.decode and getattr(tokenizer, "backend_tokenizer", None) is not None


def _vocabulary(tokenizer: Any, backend: Any, decoder: str) -> Vocabulary:
    steps = _steps(json.loads(decoder)) if decoder else []
    if [step["type"] for step in steps] == ["ByteLevel"]:
        return ByteVocabulary(backend)
    rules = _rules(steps) if steps else None
    return PieceVocabulary(backend, rules) if rules is not None else WindowVocabulary(tokenizer)


def _steps(decoder: dict[str, Any]) -> list[dict[str, Any]]:
    if decoder["type"] == "Sequence":
        return [step for each in decoder["decoders"] for step in _steps(each)]
    return [decoder]


# --- tokens that are bytes -------------------------------------------------------------------------------------------


def _byte_letters() -> dict[str, int]:
    """The letters that byte-level vocabularies write bytes with: printable ones stand for themselves (as in GPT-2)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + place): byte for place, byte in enumerate(others)}


_BYTES = _byte_letters()


class ByteVocabulary:
    """Byte-level tokens. `whole` has the text of each that was met and is whole characters."""

    def __init__(self, backend: Any) -> None:
        self.token = backend.id_to_token
        self.whole: dict[int, str] = {}
        self.parts: dict[int, bytes] = {}

    def stream(self) -> ByteStream:
        return ByteStream(self)

    def aligned_stream(self) -> AlignedStream:
        return AlignedBytes(self)

    def knows(self, token_id: int) -> bool:
        return token_id in self.whole or token_id in self.parts or _has_token(self.token, token_id)

    def bytes_of(self, token_id: int) -> bytes:
        data = self.parts.get(token_id)
        if data is None:
            text = self.whole.get(token_id)
            data = text.encode() if text is not None else self._look_up(token_id)
        return data

    def _look_up(self, token_id: int) -> bytes:
        token = _token(self.token, token_id)
        try:
            data = bytes(map(_BYTES.__getitem__, token))
        except KeyError:  # an added token that isn't written in these letters is its own text
            data = token.encode()
        try:
            self.whole[token_id] = data.decode()
        except UnicodeDecodeError:
            self.parts[token_id] = data
        return data


class ByteStream:
    """See `Stream`. `pending` is the beginning of a character."""

    __slots__ = ("_vocabulary", "busy", "pending", "whole")

    def __init__(self, vocabulary: ByteVocabulary) -> None:
        self._vocabulary = vocabulary
        self.whole = vocabulary.whole
        self.pending = b""
        self.busy = False

    def step(self, token_id: int) -> str:
        data = self.pending + self._vocabulary.bytes_of(token_id)
        text, used = utf_8_decode(data, "replace", False)
        self.pending = data[used:]
        self.busy = bool(self.pending)
        return text

    def settle(self) -> str:
        return ""  # its bytes have ended what was pending

    def flush(self) -> str:
        text = self.pending.decode("utf-8", "replace")
        self.pending = b""
        self.busy = False
        return text


# --- tokens that are pieces of text ----------------------------------------------------------------------------------


class _Rules:
    """What a decoder does to each token, and to the front of the whole."""

    def __init__(self) -> None:
        self.each: list[Callable[[str], str]] = []
        self.bytes = False
        self.first: Callable[[str], str] | None = None  # what is done to the first token in place of `each`
        self.stripped = ""  # what is stripped from the front of the text …
        self.strips = 0  # … as often as this, at most

    def piece(self, token: str) -> str:
        for change in self.each:
            token = change(token)
        return token


def _rules(steps: list[dict[str, Any]]) -> _Rules | None:
    """None: it does something else."""
    if len(steps) == 1 and steps[0]["type"] in ("Metaspace", "WordPiece"):
        return _rules_apart_from_first(steps[0])
    rules = _Rules()
    fused = False
    for step in steps:
        kind = step["type"]
        if kind in ("Replace", "Strip") and not (fused or rules.bytes):
            rules.each.append(_change(step))
        elif kind == "ByteFallback" and not fused:
            rules.bytes = True
        elif kind == "Fuse":
            fused = True
        elif kind == "Strip" and fused and step["stop"] == 0 and not rules.strips:
            rules.stripped, rules.strips = step["content"], step["start"]
        else:
            return None
    return rules


def _change(step: dict[str, Any]) -> Callable[[str], str]:
    """What a step does to a token; tokenizers does it, unless it is as simple as `str.replace`."""
    from tokenizers import Regex, decoders

    if step["type"] == "Strip":
        decoder: Any = decoders.Strip(step["content"], step["start"], step["stop"])
    elif "String" in step["pattern"]:
        old, new = step["pattern"]["String"], step["content"]
        return lambda token: token.replace(old, new)
    else:
        decoder = decoders.Replace(Regex(step["pattern"]["Regex"]), step["content"])
    return lambda token: decoder.decode([token])


def _rules_apart_from_first(step: dict[str, Any]) -> _Rules:
    """Of a decoder that joins words, and so does something else to the first token than to the others."""
    from tokenizers import decoders

    rules = _Rules()
    if step["type"] == "Metaspace":
        mark, scheme = step["replacement"], step.get("prepend_scheme", "always")
        rules.each.append(lambda token: token.replace(mark, " "))
        rules.first = None if scheme == "never" else lambda token: token.replace(mark, "")
        return rules
    decoder = decoders.WordPiece(step["prefix"], step["cleanup"])
    rules.each.append(lambda token: decoder.decode(["a", token])[1:])
    rules.first = lambda token: decoder.decode([token])
    return rules


class PieceVocabulary:
    """Pieces of text, and perhaps byte tokens. `whole` has the text of each piece that was met."""

    def __init__(self, backend: Any, rules: _Rules) -> None:
        self.token = backend.id_to_token
        self.rules = rules
        self.whole: dict[int, str] = {}
        self.bytes: dict[int, int] = {}

    def stream(self) -> PieceStream:
        return PieceStream(self)

    def aligned_stream(self) -> AlignedStream:
        return AlignedPieces(self)

    def knows(self, token_id: int) -> bool:
        return token_id in self.whole or token_id in self.bytes or _has_token(self.token, token_id)

    def piece_of(self, token_id: int) -> str | int:
        """A piece, or a byte."""
        piece: str | int | None = self.whole.get(token_id, self.bytes.get(token_id))
        if piece is not None:
            return piece
        token = _token(self.token, token_id)
        text = self.rules.piece(token)
        byte = _byte_of(text) if self.rules.bytes else None
        if byte is not None:
            self.bytes[token_id] = byte
            return byte
        self.whole[token_id] = text
        return text

    def first_piece_of(self, token_id: int) -> str | int:
        """As `piece_of`, for the first id."""
        first = self.rules.first
        return self.piece_of(token_id) if first is None else first(_token(self.token, token_id))


def _byte_of(text: str) -> int | None:
    """The byte that a token such as `<0x0A>` stands for."""
    if len(text) != 6 or not text.startswith("<0x") or text[5] != ">":
        return None
    try:
        return int(text[3:5], 16) if text[3:5].isalnum() and text.isascii() else None
    except ValueError:
        return None


class PieceStream:
    """See `Stream`. `run` are byte tokens whose run has not ended."""

    __slots__ = ("_begun", "_strips", "_vocabulary", "busy", "run", "whole")

    def __init__(self, vocabulary: PieceVocabulary) -> None:
        self._vocabulary = vocabulary
        self._strips = vocabulary.rules.strips
        self._begun = vocabulary.rules.first is None
        self.whole = vocabulary.whole
        self.run = bytearray()
        self.busy = bool(self._strips) or not self._begun

    def step(self, token_id: int) -> str:
        vocabulary = self._vocabulary
        piece = vocabulary.piece_of(token_id) if self._begun else vocabulary.first_piece_of(token_id)
        self._begun = True
        if isinstance(piece, int):
            self.run.append(piece)
            self.busy = True
            return ""
        text = self._stripped(self._end_run() + piece)
        self.busy = bool(self._strips)
        return text

    def settle(self) -> str:
        return ""  # it has ended the run

    def flush(self) -> str:
        text = self._stripped(self._end_run())
        self.busy = bool(self._strips) or not self._begun
        return text

    def _end_run(self) -> str:
        if not self.run:
            return ""
        try:
            text = self.run.decode()
        except UnicodeDecodeError:
            text = REPLACEMENT * len(self.run)
        self.run = bytearray()
        return text

    def _stripped(self, text: str) -> str:
        """`text` without what is stripped from the front of the whole."""
        content = self._vocabulary.rules.stripped
        while self._strips and text.startswith(content):
            text = text[len(content) :]
            self._strips -= 1
        if text:
            self._strips = 0
        return text


# --- everything else -------------------------------------------------------------------------------------------------


class WindowVocabulary:
    """A tokenizer that decodes in a way of its own."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = ref(tokenizer)  # weak, for the tokenizer is the key that this is kept under
        self._met: set[int] = set()
        self._options: dict[str, Any] = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
        if not getattr(tokenizer, "is_fast", True):
            self._options["spaces_between_special_tokens"] = False

    def stream(self) -> WindowStream:
        return WindowStream(self, self._decode())

    def aligned_stream(self) -> AlignedStream:
        return AlignedWindow(self, self._decode())

    def _decode(self) -> Callable[[list[int]], str]:
        """A strong hold on the tokenizer, for as long as a stream lasts."""
        tokenizer: Any = self._tokenizer()
        if _decodes_plainly(tokenizer):  # what is between costs five times as much as decoding a few ids
            return partial(tokenizer.backend_tokenizer.decode, skip_special_tokens=False)
        return partial(tokenizer.decode, **self._options)

    def knows(self, token_id: int) -> bool:
        if token_id in self._met:
            return True
        known = in_vocabulary(self._tokenizer(), token_id)
        if known:
            self._met.add(token_id)
        return known


class WindowStream:
    """See `Stream`. The window is some ids whose text is out (`text`), then `held` ones whose text isn't.

    While new ids bring nothing, or an end that may still change, they are held; so that this costs no more the longer
    it lasts, a long window is only looked at when it has doubled. Ids whose text is out are dropped from the front
    when there are `ROOM` of them, so that one decoding an id is enough.
    """

    __slots__ = ("_anchor", "_decode", "_ids", "_next_look", "_text", "_vocabulary", "held", "whole")

    busy = True  # each text depends on the ids before

    def __init__(self, vocabulary: WindowVocabulary, decode: Callable[[list[int]], str]) -> None:
        self._vocabulary = vocabulary
        self._decode = decode
        self._ids: list[int] = []
        self._text = ""
        self._anchor: list[int] = []  # the last id that is surely text, for what comes at the front may be stripped
        self._next_look = 1
        self.held = 0
        self.whole = NO_TEXTS

    def step(self, token_id: int) -> str:
        if not self._vocabulary.knows(token_id):
            raise _unknown(token_id)
        self._ids.append(token_id)
        self.held += 1
        if self.held < self._next_look:
            return ""
        text = self._decode(self._ids)
        if len(text) <= len(self._text) or not text.startswith(self._text) or text.endswith(REPLACEMENT):
            self._next_look = self.held + 1 if self.held < PATIENCE else 2 * self.held
            return ""
        return self._release(text)

    def settle(self) -> str:
        """What is held, where the last id is one whose text can't change."""
        return self._release(self._decode(self._ids)) if self.held else ""

    def flush(self) -> str:
        if not self.held:
            return ""
        text = self._decode(self._ids)
        del self._ids[-self.held :]  # should more ids come, they don't go on what was unfinished
        return self._came(text)

    def _release(self, text: str) -> str:
        """`text` is that of the window: give what is new, and move the window on."""
        new = self._came(text)
        self._text = text
        if len(self._ids) > ROOM:
            recent = self._ids[-CONTEXT:]
            if not self._anchor:
                self._ids = self._ids[-4 * CONTEXT :]
            else:
                self._ids = recent if self._anchor[0] in recent else self._anchor + recent
            self._text = self._decode(self._ids)
        return new

    def _came(self, text: str) -> str:
        """What is new in `text`, that of the window."""
        same = len(self._text)
        while not text.startswith(self._text[:same]):
            same -= 1
        new = text[same:]
        if self.held == 1 and new.strip() and REPLACEMENT not in new:
            self._anchor = self._ids[-1:]
        self._next_look = 1
        self.held = 0
        return new


# --- which characters came from which ids ----------------------------------------------------------------------------


class AlignedStream(Protocol):
    """A stream that also remembers which characters each id has a part in.

    Attributes:
        starts, reaches: for each id the first character that it has a part in, and the one behind the last. Both only
            grow. Ids that share a character (of several bytes) overlap there.
        total: characters that came out so far.
    """

    whole: dict[int, str]
    starts: list[int]
    reaches: list[int]
    total: int

    @property
    def busy(self) -> bool: ...

    def step(self, token_id: int) -> str: ...

    def lone(self, token_id: int) -> str:
        """As `step`, where the id's text is known and nothing is pending; else "", and nothing is taken in."""

    def settle(self) -> str: ...

    def flush(self) -> str: ...

    def pass_text(self, count: int) -> None:
        """`count` characters of text came in between."""

    def range(self, start: int, end: int) -> tuple[int, int]:
        """The ids that have a part in the characters from `start` to `end`; an empty range where there are none."""


class _Alignment:
    """The part that aligned streams share. Their `whole` is empty: no id may go by unnoticed."""

    __slots__ = ()

    def lone(self: Any, token_id: int) -> str:
        text: str = "" if self.busy else self._vocabulary.whole.get(token_id, "")
        if text:
            self.starts.append(self.total)
            self.total += len(text)
            self.reaches.append(self.total)
        return text

    def _align(self: Any, start: int, reach: int) -> None:
        self.starts.append(start)
        self.reaches.append(reach)

    def pass_text(self: Any, count: int) -> None:
        self.total += count

    def range(self: Any, start: int, end: int) -> tuple[int, int]:
        first = bisect_right(self.reaches, max(0, start))
        return first, max(first, bisect_left(self.starts, end)) if end > start else first


class AlignedBytes(_Alignment, ByteStream):
    """See `AlignedStream`."""

    __slots__ = ("reaches", "starts", "total")

    def __init__(self, vocabulary: ByteVocabulary) -> None:
        super().__init__(vocabulary)
        self.starts: list[int] = []
        self.reaches: list[int] = []
        self.total = 0
        self.whole = NO_TEXTS

    def step(self, token_id: int) -> str:
        text = super().step(token_id)
        start = self.total
        self.total += len(text)
        self._align(start, self.total + (len(self.pending.decode("utf-8", "replace")) if self.pending else 0))
        return text

    def flush(self) -> str:
        text = super().flush()
        self.total += len(text)
        return text


class AlignedPieces(_Alignment, PieceStream):
    """See `AlignedStream`."""

    __slots__ = ("_removed", "reaches", "starts", "total")

    def __init__(self, vocabulary: PieceVocabulary) -> None:
        super().__init__(vocabulary)
        self.starts: list[int] = []
        self.reaches: list[int] = []
        self.total = 0
        self._removed = 0
        self.whole = NO_TEXTS

    def step(self, token_id: int) -> str:
        run = bytes(self.run)
        text = super().step(token_id)
        if not self.run:
            begin = self._come(run, text)
            self._align(max(self.total - len(text), begin), self.total)
        return text

    def flush(self) -> str:
        run = bytes(self.run)
        text = super().flush()
        self._come(run, text)
        return text

    def _come(self, run: bytes, text: str) -> int:
        """`text` came out, the byte tokens of `run` first; returns where these end."""
        start = self.total
        self.total += len(text)
        begin = start - self._removed
        ends = _ends(run)
        for end in ends:
            self._align(max(start, begin + end - 1), max(start, begin + end))
        return begin + (ends[-1] if ends else 0)

    def _stripped(self, text: str) -> str:
        rest = super()._stripped(text)
        self._removed = len(text) - len(rest)
        return rest


def _ends(run: bytes) -> list[int]:
    """For each byte of a run the number of characters up to the end of its own."""
    try:
        run.decode()
    except UnicodeDecodeError:
        return list(range(1, len(run) + 1))
    ends: list[int] = []
    for byte in run:
        ends.append((ends[-1] if ends else 0) + (byte & 0xC0 != 0x80))
    return ends


class AlignedWindow(_Alignment, WindowStream):
    """See `AlignedStream`. Ids that were held together share all the text that came of them."""

    __slots__ = ("reaches", "starts", "total")

    def __init__(self, vocabulary: WindowVocabulary, decode: Callable[[list[int]], str]) -> None:
        super().__init__(vocabulary, decode)
        self.starts: list[int] = []
        self.reaches: list[int] = []
        self.total = 0

    def _came(self, text: str) -> str:
        count = self.held
        new = super()._came(text)
        for _ in range(count):
            self._align(self.total, self.total + len(new))
        self.total += len(new)
        return new


# --- tokens ----------------------------------------------------------------------------------------------------------


def _has_token(token_of: Callable[[int], str | None], token_id: int) -> bool:
    return 0 <= token_id < 2**31 and token_of(token_id) is not None


def _token(token_of: Callable[[int], str | None], token_id: int) -> str:
    token = token_of(token_id) if 0 <= token_id < 2**31 else None
    if token is None:
        raise _unknown(token_id)
    return token


def _unknown(token_id: int) -> InputTypeError:
    return InputTypeError(f"the id {token_id} is not in the vocabulary")
