"""Values that are still being written: strings, objects and lists that only grow.

Invariant: what is in a growing value stays, in its place; only the last entry of a container may itself be growing, and
a container that is whole is replaced by its plain value in the container around it. So everything that grows lies on
one way from the outermost value inwards.
Bound: adding costs what is added. `GrowingText.text` costs what came since it was asked last: CPython appends in place
to a string that nobody else holds, and copies it where an earlier one is still in use.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, TypeAlias

NOTHING: Any = object()  # there is no value yet
_JOINING = threading.Lock()  # snapshots may be read in other threads than the parser's


class GrowingText:
    """A string. `complete`: nothing will be added."""

    __slots__ = ("_joined", "_new", "complete", "size")

    def __init__(self, text: str = "") -> None:
        self._joined = text
        self._new: list[str] = []
        self.size = len(text)
        self.complete = False

    def add(self, text: str) -> None:
        if text:
            self._new.append(text)
            self.size += len(text)

    def finish(self, value: Any) -> None:
        """It is `value` after all: a text of which it was the beginning, or something else, which takes its place."""
        if isinstance(value, str):
            self.add(value[self.size :])
        self.complete = True

    def text(self) -> str:
        """The string so far."""
        with _JOINING:
            if self._new:
                count = len(self._new)  # more may come meanwhile
                joined, added = self._joined, "".join(self._new[:count])
                self._joined = ""
                joined += added
                self._joined = joined
                del self._new[:count]
            return self._joined


class GrowingObject:
    """An object. A key that is written twice is there twice; the later value counts."""

    __slots__ = ("complete", "index", "keys", "values")

    def __init__(self) -> None:
        self.keys: list[str] = []  # one more than values where the last key's value has not begun
        self.values: list[Any] = []
        self.index: dict[str, int] = {}
        self.complete = False

    def put(self, key: str, value: Any) -> None:
        self.index[key] = len(self.keys)
        self.keys.append(key)
        self.values.append(value)

    def get(self, key: str) -> Any:
        """The value so far, or `NOTHING`."""
        at = self.index.get(key)
        return self.values[at] if at is not None and at < len(self.values) else NOTHING

    def plain(self) -> dict[str, Any]:
        return dict(zip(self.keys, self.values, strict=False))


class GrowingList:
    """A list."""

    __slots__ = ("complete", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.complete = False

    def plain(self) -> list[Any]:
        return list(self.values)


Growing: TypeAlias = GrowingText | GrowingObject | GrowingList
GROWING = (GrowingText, GrowingObject, GrowingList)


def spine(value: Any) -> Iterator[Growing]:
    """All that grows in `value`, the outermost first."""
    while isinstance(value, GROWING):
        yield value
        value = value.values[-1] if not isinstance(value, GrowingText) and value.values else None
