"""Token ids in, text out: all the kinds in which a caller may have them.

A response or a prefix is text, or the ids of one sequence (a list, a numpy array, a tensor), or a batch of either, or a
`BatchEncoding`. Padding is dropped: behind the end token of a response, before a prefix.

How a prefix is decoded only as far back as needed
    A window of ids from the end is decoded, and doubled until its last anchor match is surely the last match in the
    whole text. That is so where, for as many characters as a match is long, no match begins just before it: whatever an
    earlier match there may be, in the window or before it, has ended by then, and from there on both searches agree.

Invariant: the parser sees the same anchor, and the same text behind it, as if all had been decoded.
Bound: at most twice the ids that are needed are decoded; where no anchor is found, or its pattern has no longest match,
all are, once more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from . import patterns, syntax
from .decoding import in_vocabulary
from .errors import InputTypeError
from .template import ResponseTemplate

FIRST_WINDOW = 64  # ids
MARGIN = 16  # characters at the front of a window that may be decoded differently there than in the whole

_BYTE_TOKEN = re.compile(r"<0x[0-9A-Fa-f]{2}>")  # a run of them is decoded together, or becomes U+FFFD together


@dataclass(frozen=True, slots=True)
class Marking:
    """Prefixes with control tokens marked: `of_text` of one that is text, `of_ids` of one that is ids."""

    of_text: Callable[[str], str]
    of_ids: Callable[[list[int]], str]


def ids_of(tokenizer: Any, value: Any, what: str) -> list[int] | str | list[Any]:
    """The ids of one response (a list of int), or a list of these for a batch. What is text stays text.

    Raises:
        InputTypeError: as for `texts_of`.
    """

    def ids(each: Any) -> Any:
        return without_end_padding(tokenizer, _ids(tokenizer, each, what))

    rows: list[int] | str | list[Any] = each_of(value, what, ids)
    return rows


def texts_of(tokenizer: Any, value: Any, what: str) -> str | list[str]:
    """The text of one response, or the texts of a batch.

    Raises:
        InputTypeError: `value` is of no known kind, or an id is not in the vocabulary.
    """

    def text(ids: Any) -> str:
        return _decode(tokenizer, without_end_padding(tokenizer, _ids(tokenizer, ids, what)))

    texts: str | list[str] = each_of(value, what, text)
    return texts


def prefixes_of(
    tokenizer: Any, value: Any, template: ResponseTemplate, marking: Marking | None = None
) -> str | list[str]:
    """As `texts_of`, for prefixes; of ids only the text from shortly before the last anchor of `template` on.

    Args:
        marking: what is done to each prefix, so that it comes out marked (see `control`).

    Raises:
        InputTypeError: as for `texts_of`.
    """
    anchor = _anchor_of(template)

    def text(ids: Any) -> str:
        end = _decode_end(tokenizer, ids, anchor) if anchor is not None and not _is_scalar(ids) else None
        if end is not None:
            return end[1] if marking is None else marking.of_ids(end[0])
        own = _without_begin_padding(tokenizer, _ids(tokenizer, ids, "prefix"))
        return _decode(tokenizer, own) if marking is None else marking.of_ids(own)

    texts: str | list[str] = each_of(value, "prefix", text, _as_it_is if marking is None else marking.of_text)
    return texts


# --- only the end of a prefix --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Anchor:
    """The start anchor of a template: `reach` is the most characters that a match and its lookbehind can take."""

    pattern: patterns.Pattern | patterns.GuardedPattern
    reach: int

    def surely_last(self, text: str, begin: int) -> bool:
        """Is the last match in `text` the last one whatever stands in the place of `text[:begin]`?"""
        try:
            starts = [found.start for found in self.pattern.finditer(text[begin:])]
            if not starts or starts[-1] < 2 * self.reach:
                return False
            quiet = begin + starts[-1] - 2 * self.reach
            first = next(iter(self.pattern.finditer(text[quiet:])))
        except TimeoutError:  # the parser will say so
            return False
        return first.start == 2 * self.reach


@lru_cache(maxsize=512)
def _anchor_of(template: ResponseTemplate) -> _Anchor | None:
    """None: a match may be of any length."""
    literals = sorted(template.start_anchor, key=len, reverse=True)
    source = template.start_anchor_pattern or "|".join(map(re.escape, literals))
    try:
        tree = syntax.parse(source)
    except syntax.Unsupported:
        return None
    reach = syntax.longest(tree) + syntax.lookbehind_width(tree)
    return None if reach == float("inf") else _Anchor(patterns.compile_pattern(source), max(1, int(reach)))


def _decode_end(tokenizer: Any, value: Any, anchor: _Anchor) -> tuple[list[int], str] | None:
    """The ids and text of a prefix from before its last anchor on; None if all of it is needed."""
    size = _length(value)
    window = FIRST_WINDOW
    while window < size:
        begin = _boundary(tokenizer, value, size - window)
        ids = _ids(tokenizer, value[begin:], "prefix", begin)
        text = _decode(tokenizer, ids)
        if anchor.surely_last(text, MARGIN):
            return ids, text
        window *= 2
    return None


def _boundary(tokenizer: Any, value: Any, begin: int) -> int:
    """The nearest place at or before `begin` that does not cut a run of byte tokens."""
    while begin:
        [first] = _ids(tokenizer, value[begin : begin + 1], "prefix", begin)
        token = tokenizer.convert_ids_to_tokens(first)
        if not isinstance(token, str) or not _BYTE_TOKEN.fullmatch(token):
            break
        begin -= 1
    return begin


# --- kinds ---------------------------------------------------------------------------------------------------------


def _as_it_is(text: str) -> str:
    return text


def each_of(value: Any, what: str, of_ids: Callable[[Any], Any], of_text: Callable[[str], str] = _as_it_is) -> Any:
    """What `of_ids` (the ids of one sequence) or `of_text` makes of `value`, or of each of a batch."""
    value = _unwrapped(value, what)
    if isinstance(value, str):
        return of_text(value)
    if not _is_batch(value, what):
        return of_ids(value)
    for place, each in enumerate(value):
        if _is_scalar(each):
            raise InputTypeError(f"{what}[{place}] is {_shown(each)}, but others are texts or sequences of ids")
    return [of_text(each) if isinstance(each, str) else of_ids(each) for each in value]


def _unwrapped(value: Any, what: str) -> Any:
    """The ids inside a `BatchEncoding` (or another mapping with `input_ids`); the rest as it is."""
    if not isinstance(value, Mapping) and not hasattr(value, "input_ids"):
        return value
    try:
        return value["input_ids"]
    except (KeyError, TypeError, IndexError):
        raise InputTypeError(f"{what} is a {type(value).__name__} without 'input_ids'") from None


def _is_batch(value: Any, what: str) -> bool:
    """Is it a batch of sequences (and not one)? An empty list is one empty sequence."""
    dimensions = getattr(value, "ndim", None)
    if isinstance(dimensions, int):
        if dimensions > 2:
            raise InputTypeError(f"{what} has {dimensions} dimensions; ids have one, or two for a batch")
        return dimensions == 2
    if isinstance(value, (list, tuple)):
        return bool(value) and not _is_scalar(value[0])
    if isinstance(value, int):
        return False
    hint = " (decode it first)" if isinstance(value, (bytes, bytearray)) else ""
    raise InputTypeError(
        f"{what} must be a str, token ids (a list, a numpy array, a tensor), or a batch of these,"
        f" not {type(value).__name__}{hint}"
    )


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (int, float, bytes)) or value is None or getattr(value, "shape", None) == ()


def _length(value: Any) -> int:
    try:
        return len(value)
    except TypeError:
        return 0


def _shown(value: Any) -> str:
    return repr(value)[:60]


def plain_ids(value: Any, what: str, offset: int = 0) -> list[int]:
    """The ids of one sequence as a list of int; `offset` is where `value` begins in `what`.

    Raises:
        InputTypeError: `value` is of another kind, or one in it is no id. (Of what vocabulary is not asked here.)
    """
    listed = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(listed, int) and not isinstance(listed, bool):
        listed = [listed]
    if not isinstance(listed, (list, tuple)):
        hint = " (decode it first)" if isinstance(value, (bytes, bytearray)) else ""
        raise InputTypeError(f"{what} must be a sequence of token ids, not {_kind_of(value)}{hint}")
    ids = [each.item() if getattr(each, "shape", None) == () else each for each in listed]
    for place, each in enumerate(ids, offset):
        if isinstance(each, bool) or not isinstance(each, int):
            deep = isinstance(each, (list, tuple)) or getattr(each, "shape", None)
            hint = "; it is nested too deep (these are the ids of one sequence)" if deep else ""
            raise InputTypeError(f"{what}[{place}] is {_shown(each)}, which is no token id{hint}")
    return ids


def _kind_of(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ + (f" of {dtype}" if dtype is not None else "")


def _ids(tokenizer: Any, value: Any, what: str, offset: int = 0) -> list[int]:
    """As `plain_ids`, each of the vocabulary."""
    ids = plain_ids(value, what, offset)
    size = tokenizer.vocab_size
    for place, each in enumerate(ids, offset):
        if not 0 <= each < size and not in_vocabulary(tokenizer, each):
            total = len(tokenizer)
            raise InputTypeError(f"{what}[{place}] is {each}, which is not in the vocabulary of {total} tokens")
    return ids


# --- padding and decoding ------------------------------------------------------------------------------------------


def without_end_padding(tokenizer: Any, ids: list[int]) -> list[int]:
    """Without the padding at the end. Where the padding is the end token, one of them is the end token."""
    pad, end = tokenizer.pad_token_id, len(ids)
    while pad is not None and end and ids[end - 1] == pad:
        end -= 1
    return ids[: end + 1] if pad is not None and pad == tokenizer.eos_token_id else ids[:end]


def _without_begin_padding(tokenizer: Any, ids: list[int]) -> list[int]:
    pad, begin = tokenizer.pad_token_id, 0
    while pad is not None and begin < len(ids) and ids[begin] == pad:
        begin += 1
    return ids[begin:]


def _decode(tokenizer: Any, ids: list[int]) -> str:
    """The text as the model wrote it: special tokens kept, spaces as they are."""
    if not ids:
        return ""
    options: dict[str, Any] = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
    if not getattr(tokenizer, "is_fast", True):
        options["spaces_between_special_tokens"] = False
    text: str = tokenizer.decode(ids, **options)
    return text
