"""Content parsers `text`, `int`, `float` and `bool`: the whole body is one value.

Invariant: the value can be written as JSON (`float` refuses what is not finite). Bound: linear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .base import ContentError
from .reader import bounded_int, finite_float

_TRUE = frozenset(("true", "1"))


@dataclass(frozen=True, slots=True)
class _Scalar:
    name: str
    parse: Callable[[str], Any]
    is_text: bool = True
    strings: None = None

    def is_whole(self, body: str) -> bool:
        return False


def _number(kind: str, read: Callable[[str], Any]) -> Callable[[str], Any]:
    def parse(body: str) -> Any:
        text = body.strip()
        try:
            return read(text)
        except ValueError as error:
            raise ContentError(f"not {kind}: {text[:60]!r}") from error

    return parse


def _keep(body: str) -> str:
    return body


def text_parser(args: Mapping[str, Any]) -> _Scalar:
    """The text itself, without the white space around it unless `strip` is false."""
    return _Scalar("text", str.strip if args.get("strip", True) else _keep)


def int_parser(args: Mapping[str, Any]) -> _Scalar:
    """What Python's `int` reads, of at most 4300 digits."""
    return _Scalar("int", _number("an integer", bounded_int))


def float_parser(args: Mapping[str, Any]) -> _Scalar:
    """What Python's `float` reads, if it is finite."""
    return _Scalar("float", _number("a finite number", finite_float))


def bool_parser(args: Mapping[str, Any]) -> _Scalar:
    """True for `true` and `1` (in any case, white space around it ignored), else false."""
    return _Scalar("bool", lambda body: body.strip().lower() in _TRUE)
