"""The buffer is a string that is appended to and taken from; and it does not copy while it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from response_templates.buffer import TextBuffer


class BufferMachine(RuleBasedStateMachine):
    """The buffer beside a plain string."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = TextBuffer(3)
        self.text = "___"
        self.start = 3
        self.taken: list[str] = []

    @rule(text=st.text("abc", min_size=1, max_size=5))
    def append(self, text: str) -> None:
        self.buffer.append(text)
        self.text += text
        self.taken = []

    @rule(share=st.floats(0, 1))
    def take(self, share: float) -> None:
        position = self.start + round(share * (len(self.text) - self.start))
        got = self.buffer.take(position)
        assert got == self.text[self.start : position]
        self.start = position
        if got:
            self.taken.append(got)

    @rule(share=st.floats(0, 1))
    def peek(self, share: float) -> None:
        position = self.start + round(share * (len(self.text) - self.start))
        assert self.buffer.peek(position) == self.text[self.start : position]

    @rule(share=st.floats(0, 1))
    def read(self, share: float) -> None:
        position = self.start + round(share * (len(self.text) - self.start))
        rest = self.text[position:]
        assert "".join(piece[offset:] for piece, offset in self.buffer.read(position)) == rest
        assert self.buffer.text(position) == rest

    @precondition(lambda self: self.taken)
    @rule(count=st.integers(1, 3))
    def give_back(self, count: int) -> None:
        pieces = self.taken[-count:]
        del self.taken[-count:]
        self.buffer.give_back(pieces)
        self.start -= sum(map(len, pieces))

    @precondition(lambda self: self.start == len(self.text))
    @rule(count=st.integers(0, 4))
    def skip(self, count: int) -> None:
        self.buffer.skip(count)
        self.text += "_" * count
        self.start += count
        self.taken = []

    @invariant()
    def same_place(self) -> None:
        assert (self.buffer.start, self.buffer.end) == (self.start, len(self.text))


TestBuffer = BufferMachine.TestCase


def test_taking_nothing_and_what_is_behind() -> None:
    buffer = TextBuffer()
    assert buffer.take(0) == ""
    buffer.append("abc")
    assert buffer.take(2) == "ab"
    assert buffer.take(1) == ""
    assert buffer.start == 2


def test_a_whole_piece_is_handed_on_as_it_is() -> None:
    piece = "some text that is not copied"
    buffer = TextBuffer()
    buffer.append(piece)
    assert buffer.take(len(piece)) is piece


@given(st.integers(1, 200))
def test_reading_only_the_newest_piece_does_not_walk_over_the_others(count: int) -> None:
    buffer = TextBuffer()
    for _ in range(count):
        buffer.append("abcd")
    newest = 4 * (count - 1)
    pieces = list(buffer.read(newest))
    assert [(piece, offset) for piece, offset in pieces] == [("abcd", 0)]
