"""The string tracker: against a reference that reads the text a character at a time, however it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from response_templates.content import StringDialect, StringTracker, compile_content

JSON = StringDialect(('"',))
PYTHON = StringDialect(("'", '"'))
GEMMA = StringDialect(('"',), (('<|"|>', '<|"|>'),))
NESTED = StringDialect(('"',), (('"""', '"""'), ("a", "aab"), ('ab"c', "<"), ("<", ">")))
DIALECTS = [JSON, PYTHON, GEMMA, NESTED, StringDialect((), (("<e>", "<e>"),)), StringDialect(('"',), (('"', "x"),))]


def reference(dialect: StringDialect, text: str) -> tuple[bool, int, str]:
    """Inside a string at the end of `text`? How many were opened? What ends the last?"""
    marks = {**{quote: (quote, True) for quote in dialect.quotes}, **{one: (two, False) for one, two in dialect.pairs}}
    at, opened, closing = 0, 0, ""
    while at < len(text):
        here = [mark for mark in marks if text.startswith(mark, at)]
        if not here:
            at += 1
            continue
        mark = max(here, key=len)
        closing, escapes = marks[mark]
        at, opened = at + len(mark), opened + 1
        while not text.startswith(closing, at):
            at += 2 if escapes and text[at : at + 1] == "\\" else 1
            if at >= len(text):
                return True, opened, closing
        at += len(closing)
    return False, opened, closing


def state(tracker: StringTracker) -> tuple[bool, int, str]:
    return tracker.inside, tracker.serial, tracker.closing


@pytest.mark.parametrize(
    ("dialect", "text", "inside", "serial"),
    [
        (JSON, "", False, 0),
        (JSON, '{"a', True, 1),
        (JSON, '{"a\\"', True, 1),
        (JSON, '{"a\\\\"', False, 1),
        (JSON, '{"a": "b', True, 2),
        (JSON, "'a", False, 0),
        (PYTHON, "'a\"b\n", True, 1),
        (PYTHON, "'a' \"", True, 2),
        (GEMMA, '<|"|>a"\\<|"', True, 1),
        (GEMMA, '<|"|>a"\\<|"|>', False, 1),
        (GEMMA, '<|"', True, 1),
        (NESTED, '""', False, 1),
        (NESTED, '"""', True, 1),
        (NESTED, '""""', True, 1),
        (NESTED, 'ab"', True, 1),
    ],
)
def test_state(dialect: StringDialect, text: str, inside: bool, serial: int) -> None:
    tracker = StringTracker(dialect)
    tracker.advance(text)
    assert (tracker.inside, tracker.serial) == (inside, serial)


TEXTS = st.lists(
    st.sampled_from(['"', "'", "\\", "<", "|", '<|"|>', "<e>", '"""', "a", "b", "ab", ">", "c", "x"]), max_size=20
)


@given(st.sampled_from(DIALECTS), TEXTS.map("".join), st.data())
def test_the_state_does_not_depend_on_the_cuts(dialect: StringDialect, text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=len(text))))
    tracker = StringTracker(dialect)
    for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        tracker.advance(text[begin:end])
        assert state(tracker) == reference(dialect, text[:end])


@pytest.mark.parametrize("unit", ["x", "\\", '\\"', '"', '"\\\\"', '<|"', "<|"])
def test_long_text(unit: str) -> None:
    text = '"' + unit * (200_000 // len(unit))
    whole, pieces = StringTracker(GEMMA), StringTracker(GEMMA)
    whole.advance(text)
    for begin in range(0, len(text), 7):
        pieces.advance(text[begin : begin + 7])
    assert state(whole) == state(pieces)


def test_the_parsers_say_how_their_strings_are_written() -> None:
    assert compile_content("json", {}).strings == JSON
    assert compile_content("json", {"string_delims": [['<|"|>', '<|"|>']], "allow_non_json": True}).strings == GEMMA
    assert compile_content("python-call-list", {}).strings == PYTHON
