"""The text of a stream that is not yet released: the only place that knows how it is kept.

The parser needs three things: append a chunk, take all text up to a position, and read on from a position. Each
character is appended once and taken once; nothing is copied when a chunk arrives, and taking slices only the piece
that holds the position. So the work is linear in the text, however it is cut and however long it is held. A list with
an index does as well as a deque for that, and an empty one (most streams, most of the time) is a tenth of its size.
"""

from __future__ import annotations

from collections.abc import Iterator


class TextBuffer:
    """Text from position `start` to position `end` of a stream."""

    __slots__ = ("_first", "_head", "_pieces", "end", "start")

    def __init__(self, start: int = 0) -> None:
        self._pieces: list[str] = []
        self._first = 0  # pieces that are taken already
        self._head = 0  # characters of the first piece left that are taken already
        self.start = start
        self.end = start

    def append(self, text: str) -> None:
        self._pieces.append(text)
        self.end += len(text)

    def take(self, position: int) -> str:
        """Remove and return the text before `position`."""
        wanted = position - self.start
        if wanted <= 0:
            return ""
        self.start = position
        pieces = self._pieces
        piece, head = pieces[self._first], self._head
        stop = head + wanted
        if stop < len(piece):  # the usual case where the pieces are large
            self._head = stop
            return piece[head:stop]
        taken = []
        while wanted:
            piece = pieces[self._first]
            stop = min(self._head + wanted, len(piece))
            taken.append(piece[self._head : stop])
            wanted -= stop - self._head
            self._head = stop
            if stop == len(piece):
                self._first += 1
                self._head = 0
        if 2 * self._first >= len(pieces):  # each piece is moved to the front once for each that goes
            del pieces[: self._first]
            self._first = 0
        return taken[0] if len(taken) == 1 else "".join(taken)

    def peek(self, position: int) -> str:
        """The text before `position`, which stays."""
        wanted = position - self.start
        pieces = []
        at = self._head
        for number in range(self._first, len(self._pieces)):
            if wanted <= 0:
                break
            pieces.append(self._pieces[number][at : at + wanted])
            wanted -= len(pieces[-1])
            at = 0
        return pieces[0] if len(pieces) == 1 else "".join(pieces)

    def skip(self, count: int) -> None:
        """`count` characters went past the buffer, which is empty."""
        self.start += count
        self.end += count

    def give_back(self, pieces: list[str]) -> None:
        """Put text that was taken last back at the front; `pieces` in their order."""
        if self._head:
            self._pieces[self._first] = self._pieces[self._first][self._head :]
            self._head = 0
        self._pieces[: self._first] = pieces
        self._first = 0
        self.start -= sum(map(len, pieces))

    def read(self, position: int) -> Iterator[tuple[str, int]]:
        """The pieces from `position` on, each with the offset at which to begin."""
        pieces = self._pieces
        at = self.end - len(pieces[-1]) if pieces else self.end
        if len(pieces) > 1 and position >= at:  # the usual case: only the newest piece is unread
            if position < self.end:
                yield pieces[-1], position - at
            return
        at = self.start - self._head
        for number in range(self._first, len(pieces)):
            piece = pieces[number]
            if position < at + len(piece):
                yield piece, max(0, position - at)
            at += len(piece)

    def text(self, position: int) -> str:
        """All text from `position` on."""
        return "".join(piece[offset:] for piece, offset in self.read(position))
