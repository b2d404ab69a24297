"""Content parser `kv-lines`: a key and a value on each line make an object.

Invariant: the first separator of a line splits it; lines without one are skipped; of equal keys the last wins.
Bound: linear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .base import ContentError


@dataclass(frozen=True, slots=True)
class _KvLines:
    line_sep: str
    kv_sep: str
    trim: Callable[[str], str]
    read_value: Callable[[str], Any]
    name: str = "kv-lines"
    is_text: bool = False
    strings: None = None

    def parse(self, body: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for number, line in enumerate(body.split(self.line_sep), 1):
            key, separator, text = line.partition(self.kv_sep)
            if not separator:
                continue
            key = self.trim(key)
            try:
                values[key] = self.read_value(self.trim(text))
            except ContentError as error:
                raise ContentError(f"line {number}, the value of {key[:60]!r}: {error}") from error
        return values

    def is_whole(self, body: str) -> bool:
        return False


def _keep(text: str) -> str:
    return text


def kv_lines_parser(
    args: Mapping[str, Any], compile_value: Callable[[Mapping[str, Any]], Callable[[str], Any]]
) -> _KvLines:
    """The parser for `content_args` (`line_sep`, `kv_sep`, `strip`, `value_parser`).

    Args:
        compile_value: gives the function that a `value_parser` is.
    """
    value_parser = args.get("value_parser")
    return _KvLines(
        line_sep=args.get("line_sep", "\n"),
        kv_sep=args.get("kv_sep", ":"),
        trim=str.strip if args.get("strip", True) else _keep,
        read_value=_keep if value_parser is None else compile_value(value_parser),
    )
