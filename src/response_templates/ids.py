"""Token ids in, text out: all the kinds in which a caller may have them.

A response or a prefix is text, or the ids of one sequence (a list, a numpy array, a tensor), or a batch of either, or a
`BatchEncoding`. Padding is dropped: behind the end token of a response, before a prefix.

Bound: a prefix is decoded from its end, in windows that double, until its last anchor is surely in the window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .errors import InputTypeError

FIRST_WINDOW = 64  # ids
MARGIN = 16  # characters at the front of a window that may be decoded differently than in the whole

LastAnchor = Callable[[str], "tuple[int, int] | None"]


def texts_of(tokenizer: Any, value: Any, what: str) -> str | list[str]:
    """The text of one response, or the texts of a batch.

    Raises:
        InputTypeError: `value` is of no known kind, or an id is not in the vocabulary.
    """
    value = _unwrapped(value)
    if isinstance(value, str):
        return value
    if _is_batch(value, what):
        return [_text(tokenizer, each, what) for each in value]
    return _decode(tokenizer, _without_end_padding(tokenizer, _ids(tokenizer, value, what)))


def prefixes_of(tokenizer: Any, value: Any, last_anchor: LastAnchor) -> str | list[str]:
    """As `texts_of`, for prefixes; of ids only the text from shortly before the last anchor on.

    Raises:
        InputTypeError: as for `texts_of`.
    """
    value = _unwrapped(value)
    if isinstance(value, str):
        return value
    if _is_batch(value, "prefix"):
        return [each if isinstance(each, str) else _prefix(tokenizer, each, last_anchor) for each in value]
    return _prefix(tokenizer, value, last_anchor)


def _text(tokenizer: Any, value: Any, what: str) -> str:
    if isinstance(value, str):
        return value
    if _is_scalar(value):
        raise InputTypeError(f"{what} mixes single ids with texts or sequences: {str(value)[:60]!r}")
    return _decode(tokenizer, _without_end_padding(tokenizer, _ids(tokenizer, value, what)))


def _prefix(tokenizer: Any, value: Any, last_anchor: LastAnchor) -> str:
    size = len(value) if not _is_scalar(value) else 1
    window = FIRST_WINDOW
    while window < size:
        text = _decode(tokenizer, _ids(tokenizer, value[-window:], "prefix"))
        anchor = last_anchor(text)
        if anchor is not None and anchor[0] >= MARGIN:
            return text
        window *= 2
    return _decode(tokenizer, _without_begin_padding(tokenizer, _ids(tokenizer, value, "prefix")))


# --- kinds -------------------------------------------------------------------------------------------------------


def _unwrapped(value: Any) -> Any:
    """The ids inside a `BatchEncoding` (or another mapping with `input_ids`); the rest as it is."""
    if isinstance(value, Mapping) or hasattr(value, "input_ids"):
        try:
            return value["input_ids"]
        except (KeyError, TypeError, IndexError):
            raise InputTypeError("a mapping must have 'input_ids'") from None
    return value


def _is_scalar(value: Any) -> bool:
    return isinstance(value, int) or getattr(value, "shape", None) == ()


def _is_batch(value: Any, what: str) -> bool:
    """Is it a batch of sequences (and not one)? An empty list is one empty sequence."""
    dimensions = getattr(value, "ndim", None)
    if isinstance(dimensions, int):
        if dimensions > 2:
            raise InputTypeError(f"{what} has {dimensions} dimensions; ids have one, or two for a batch")
        return dimensions == 2
    if isinstance(value, (list, tuple)):
        return bool(value) and not _is_scalar(value[0])
    if _is_scalar(value):
        return False
    raise InputTypeError(
        f"{what} must be a str, token ids (a list, a numpy array, a tensor), or a batch of these,"
        f" not {type(value).__name__}"
    )


def _ids(tokenizer: Any, value: Any, what: str) -> list[int]:
    """The ids of one sequence as a list of int, each of the vocabulary."""
    listed = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(listed, int) and not isinstance(listed, bool):
        listed = [listed]
    if not isinstance(listed, (list, tuple)):
        raise InputTypeError(f"{what} must be a sequence of token ids, not {type(value).__name__}")
    ids = [_scalar(each) for each in listed]
    size = len(tokenizer)
    for place, each in enumerate(ids):
        if isinstance(each, bool) or not isinstance(each, int):
            hint = "; it is nested too deep" if isinstance(each, (list, tuple)) else ""
            raise InputTypeError(f"{what}[{place}] is {str(each)[:60]!r}, which is no token id{hint}")
        if not 0 <= each < size:
            raise InputTypeError(f"{what}[{place}] is {each}, which is not in the vocabulary of {size} tokens")
    return ids


def _scalar(value: Any) -> Any:
    """A numpy or tensor scalar as the Python number that it is."""
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


# --- padding and decoding ----------------------------------------------------------------------------------------


def _without_end_padding(tokenizer: Any, ids: list[int]) -> list[int]:
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


def _decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """The text as the model wrote it: special tokens kept, spaces as they are."""
    if not ids:
        return ""
    options: dict[str, Any] = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
    if not getattr(tokenizer, "is_fast", True):
        options["spaces_between_special_tokens"] = False
    text: str = tokenizer.decode(list(ids), **options)
    return text
