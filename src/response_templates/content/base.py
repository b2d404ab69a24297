"""What all content parsers share: their interface, and the one error that they raise.

Invariant: whatever the text, a parser gives a value or raises `ContentError`, nothing else.
Bound: an error message shows a few dozen characters of the text, however long that is.
"""

from __future__ import annotations

from typing import Any, Protocol

from .strings import StringDialect

_AROUND = 20  # characters of the text that a message shows on each side of the place


class ContentError(ValueError):
    """A body does not parse.

    Attributes:
        message: what is wrong, where, and a short excerpt.
        position: the offset in the body in characters; None where no single place is wrong.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.position = position

    def __reduce__(self) -> tuple[Any, ...]:
        return ContentError, (self.message, self.position)


class ContentParser(Protocol):
    """Turns the body of a region into a value. Immutable; shared by all streams."""

    @property
    def name(self) -> str:
        """The name under which templates ask for it."""

    @property
    def is_text(self) -> bool:
        """Are the chunks of a region already part of its value?"""

    @property
    def strings(self) -> StringDialect | None:
        """How strings are written in a body, where a delimiter inside a string is text; None: there are none."""

    def parse(self, body: str) -> Any:
        """The value of `body`.

        Raises:
            ContentError: it does not parse.
        """

    def is_whole(self, body: str) -> bool:
        """Does `body` say by itself that nothing of it is missing?"""


def error_at(what: str, text: str, at: int) -> ContentError:
    """The error that says `what` is wrong at the offset `at` of `text`."""
    if at >= len(text):
        near = f"at the end, after {text[-_AROUND:]!r}" if text else "the text is empty"
        return ContentError(f"{what} ({near})", len(text))
    begin = max(0, at - _AROUND)
    return ContentError(f"{what} at character {at}, near {text[begin : at + _AROUND]!r}", at)


def kind_of(value: Any) -> str:
    """`value` for an error message: its type and its size, or a short value itself. Never recurses into it."""
    if isinstance(value, dict):
        return f"an object with {len(value)} keys"
    if isinstance(value, list):
        return f"a list of {len(value)} items"
    if isinstance(value, str):
        return f"the text {value[:60]!r}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return "a number"
