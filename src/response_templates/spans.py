"""Where every character of a generation went: delimiter, a region's text, or discarded.

Invariant (the promise of conservation): the spans cover the text from its first character to its last, in order,
without gap or overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .parser import ResponseParser, TemplateSource

Kind = Literal["delimiter", "text", "discarded"]


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to `end` of the text that was parsed (what the prefix pre-wrote, then the generation)."""

    start: int
    end: int
    kind: Kind
    field: str | None


def explain(
    text: str, response_template: TemplateSource, *, prefix: str = "", tools: Sequence[Any] | None = None
) -> list[Span]:
    """The spans of `text` (after what `prefix` pre-wrote), parsed as under `errors="recover"`."""
    parser = _Witness(response_template, prefix, tools=tools, errors="recover")
    parser.feed(text)
    parser.finalize()
    return parser.spans


class Witness:
    """Mixed into a parser, which has a slot `spans`: it writes down where each character goes."""

    __slots__ = ()

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        self.spans: list[Span] = []
        super().__init__(*args, **kwargs)

    @property
    def origin(self: Any) -> int:
        """How many characters the prefix pre-wrote: the generation begins there."""
        return self._origin  # type: ignore[no-any-return]

    def _note(self: Any, kind: Any, name: str | None, text: str) -> None:
        if not text:
            return
        start = self.spans[-1].end if self.spans else 0
        if self.spans and kind != "delimiter" and (self.spans[-1].kind, self.spans[-1].field) == (kind, name):
            last = self.spans.pop()
            self.spans.append(Span(last.start, last.end + len(text), kind, name))
            return
        self.spans.append(Span(start, start + len(text), kind, name))

    def _note_passed(self: Any, pieces: list[str]) -> None:
        for piece in pieces:
            self._note("text", self._region.plan.name if self._region is not None else None, piece)


class _Witness(Witness, ResponseParser):
    """A parser that writes down where each character goes."""

    __slots__ = ("spans",)
