"""Text, JSON and calls in Python's notation, read while they are being written.

A live reader is fed with a body piece by piece and shows, as a growing value (see `growing`), what can be said of it.
It is no second parser that has to agree to the letter: the value of a region that has closed is always that of its
content parser. What it promises is less:

Invariant: what is shown is how the content parser's value begins, if the body parses at all; numbers, words and escapes
are shown only once they are complete. `failed` is true only if the body doesn't parse, whatever follows.
Bound: linear in the body, whatever the pieces; what is kept besides the value is one token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from .base import ContentError, error_at
from .growing import NOTHING, GrowingList, GrowingObject, GrowingText
from .json_body import JSON
from .python_calls import CALL_NAME, CALLS_NOTATION
from .reader import Notation, read_value, skip_space
from .strings import closing_quote

_CLOSING = {"{": "}", "[": "]"}
_SCALAR = re.compile(r"[\w+.-]*")  # a number or a word
_BARE_KEY = re.compile(r"[\w$.-]*")
_NAME = re.compile(r"[\w.-]*")
_ESCAPE_AT_END = re.compile(  # an escape that may go on, a surrogate pair among them
    r"\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?)?\Z"
)
_LONGEST_ESCAPE = 11  # characters of one that is not complete


class LiveReader(Protocol):
    """Follows one body as it is written."""

    @property
    def root(self) -> Any:
        """The value so far: a growing one, a plain one that is complete, or `NOTHING`."""

    @property
    def failed(self) -> bool:
        """Is it certain that the body doesn't parse?"""

    def feed(self, text: str) -> None:
        """Read on."""


# --- text ------------------------------------------------------------------------------------------------------------


class LiveText:
    """Text; with `strip` the white space around it is not shown. It is added to what stands `before`."""

    __slots__ = ("_begun", "_held", "failed", "root")

    def __init__(self, strip: bool, before: str = "") -> None:
        self._begun = not strip
        self._held: list[str] | None = [] if strip else None  # white space that may be the end
        self.failed = False
        self.root = GrowingText(before)

    def feed(self, text: str) -> None:
        if not self._begun:
            text = text.lstrip()
            self._begun = bool(text)
        if self._held is None:
            self.root.add(text)
            return
        kept = text.rstrip()
        if kept:
            self.root.add("".join(self._held))
            self.root.add(kept)
            self._held.clear()
        if len(kept) < len(text):
            self._held.append(text[len(kept) :])


# --- nested values ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Open:
    """A container that is being read."""

    node: GrowingObject | GrowingList
    closing: str
    next_item: _State  # what a comma leads to
    key: str = ""

    def put(self, value: Any) -> None:
        if isinstance(self.node, GrowingObject):
            self.node.put(self.key, value)
        else:
            self.node.values.append(value)


# A state reads on in a text from an offset. It returns where it stopped, and whether it needs more text to go on.
_State: TypeAlias = "Callable[[str, int], tuple[int, bool]]"


class LiveNested:
    """A value in some notation: as `reader.read_value`, turned inside out so that it can stop anywhere.

    Attributes:
        steps: characters read so far, those read again among them: what a complexity test counts.
    """

    __slots__ = (
        "_begins",
        "_closings",
        "_mark",
        "_notation",
        "_opened",
        "_pending",
        "_state",
        "_string",
        "_then",
        "_token",
        "failed",
        "root",
        "steps",
    )

    def __init__(self, notation: Notation, pairs: Sequence[tuple[str, str]] = ()) -> None:
        self._notation = notation
        self._closings = dict(pairs)
        self._begins = frozenset(mark[:size] for mark in notation.strings for size in range(1, len(mark)))
        self._opened: list[_Open] = []
        self._pending = ""
        self._state: _State = self._value
        self._mark = ""  # of the string that is being read
        self._string = GrowingText()
        self._then: Callable[[str], None] = self._put  # what a complete string or token is for
        self._token: list[str] = []
        self.root: Any = NOTHING
        self.failed = False
        self.steps = 0

    def feed(self, text: str) -> None:
        if self.failed:
            return
        text = self._pending + text
        self._pending = ""
        self.steps += len(text)
        at, waits = 0, False
        try:
            while at < len(text) and not waits:
                at, waits = self._state(text, at)
        except ContentError:
            self.failed = True
        self._pending = text[at:] if waits else ""

    # -- values ------------------------------------------------------------------------------------------------------

    def _value(self, text: str, at: int) -> tuple[int, bool]:
        at = skip_space(text, at)
        if at == len(text):
            return at, False
        mark = self._marker(text, at)
        if mark is None:
            return at, True
        if mark:
            self._add(GrowingText())
            return self._begin_string(at, mark, self._put)
        closing = _CLOSING.get(text[at])
        if closing is None:
            return self._begin_token(at, self._scalar, self._put)
        if len(self._opened) >= self._notation.max_depth:
            raise error_at("nested too deep", text, at)
        if closing == "}":
            self._open(GrowingObject(), closing, self._key)
            self._state = self._first(self._key)
        else:
            self._open(GrowingList(), closing, self._value)
            self._state = self._first(self._value)
        return at + 1, False

    def _open(self, node: GrowingObject | GrowingList, closing: str, next_item: _State) -> None:
        self._add(node)
        self._opened.append(_Open(node, closing, next_item))

    def _add(self, node: Any) -> None:
        """A value begins."""
        if self._opened:
            self._opened[-1].put(node)
        else:
            self.root = node
        if isinstance(node, GrowingText):
            self._string = node

    def _first(self, item: _State) -> _State:
        """Behind an opening bracket: an item, or the end."""

        def state(text: str, at: int) -> tuple[int, bool]:
            at = skip_space(text, at)
            if at == len(text):
                return at, False
            if text.startswith(self._opened[-1].closing, at):
                return self._close(at)
            self._state = item
            return at, False

        return state

    def _after(self, text: str, at: int) -> tuple[int, bool]:
        """Behind an item: a comma, or the end."""
        at = skip_space(text, at)
        if at == len(text):
            return at, False
        if text[at] == ",":
            self._state = self._opened[-1].next_item
            return at + 1, False
        if not text.startswith(self._opened[-1].closing, at):
            raise error_at("expected ',' or a closing bracket", text, at)
        return self._close(at)

    def _close(self, at: int) -> tuple[int, bool]:
        node = self._opened.pop().node
        node.complete = True
        self._is(node.plain())
        return at + 1, False

    def _is(self, value: Any) -> None:
        """The value that was added last is complete."""
        if self._opened:
            self._opened[-1].node.values[-1] = value
            self._state = self._after
        else:
            self.root = value
            self._state = self._end

    def _end(self, text: str, at: int) -> tuple[int, bool]:
        at = skip_space(text, at)
        if at < len(text):
            raise error_at("unexpected text after the value", text, at)
        return at, False

    def _put(self, token: str) -> None:
        """A string, a number or a word is complete."""
        if self._mark:
            self._string.complete = True
            self._is(self._string.text())
            return
        value, end = read_value(token, 0, self._notation)
        if end < len(token):
            raise error_at("expected a value", token, end)
        self._add(value)
        self._is(value)

    # -- strings -----------------------------------------------------------------------------------------------------

    def _marker(self, text: str, at: int) -> str | None:
        """The marker that opens a string here; "": there is none; None: only more text can tell."""
        if text[at:] in self._begins:
            return None
        match = self._notation.opening.match(text, at)
        return match[0] if match is not None else ""

    def _begin_string(self, at: int, mark: str, then: Callable[[str], None]) -> tuple[int, bool]:
        self._mark = mark
        self._then = then
        self._state = self._quoted if mark not in self._closings else self._raw
        return at + len(mark), False

    def _quoted(self, text: str, at: int) -> tuple[int, bool]:
        end = closing_quote(text, at, self._mark)[0]
        stop = end if end >= 0 else _unfinished_escape(text, at)
        if stop > at:
            self._string.add(self._notation.strings[self._mark](text[at:stop] + self._mark, 0)[0])
        if end < 0:
            return stop, True
        self._then(self._string.text())
        return end + len(self._mark), False

    def _raw(self, text: str, at: int) -> tuple[int, bool]:
        mark = self._closings[self._mark]
        end = text.find(mark, at)
        stop = end if end >= 0 else held_beginning(text, at, mark)
        self._string.add(text[at:stop])
        if end < 0:
            return stop, True
        self._then(self._string.text())
        return end + len(mark), False

    # -- keys and tokens ---------------------------------------------------------------------------------------------

    def _key(self, text: str, at: int) -> tuple[int, bool]:
        at = skip_space(text, at)
        if at == len(text):
            return at, False
        mark = self._marker(text, at)
        if mark is None:
            return at, True
        if mark:
            self._string = GrowingText()
            return self._begin_string(at, mark, self._has_key)
        if self._notation.bare_key is None:
            raise error_at("expected a key in quotes", text, at)
        return self._begin_token(at, self._bare_key, self._has_key)

    def _has_key(self, key: str) -> None:
        node = self._opened[-1].node
        if self._notation.unique_keys and isinstance(node, GrowingObject) and key in node.index:
            raise ContentError(f"the key {key[:60]!r} comes twice")
        self._opened[-1].key = key
        self._state = self._colon

    def _colon(self, text: str, at: int) -> tuple[int, bool]:
        return self._expect(":", self._value, text, at)

    def _expect(self, char: str, following: _State, text: str, at: int) -> tuple[int, bool]:
        at = skip_space(text, at)
        if at == len(text):
            return at, False
        if text[at] != char:
            raise error_at(f"expected {char!r}", text, at)
        self._state = following
        return at + 1, False

    def _begin_token(self, at: int, state: _State, then: Callable[[str], None]) -> tuple[int, bool]:
        self._mark = ""
        self._token = []
        self._then = then
        self._state = state
        return at, False

    def _scalar(self, text: str, at: int) -> tuple[int, bool]:
        return self._read_token(_SCALAR, None, text, at)

    def _bare_key(self, text: str, at: int) -> tuple[int, bool]:
        return self._read_token(_BARE_KEY, self._notation.bare_key, text, at)

    def _read_token(
        self, characters: re.Pattern[str], allowed: re.Pattern[str] | None, text: str, at: int
    ) -> tuple[int, bool]:
        match = characters.match(text, at)
        end = match.end() if match is not None else at
        self._token.append(text[at:end])
        if end < len(text):
            token = "".join(self._token)
            if not token or (allowed is not None and not allowed.fullmatch(token)):
                raise error_at("expected a value or a key", text, at)
            self._then(token)
        return end, False


def _unfinished_escape(text: str, begin: int) -> int:
    """Where the escape begins that may go on behind `text`, of which a string is the part from `begin` on."""
    at = max(begin, len(text) - _LONGEST_ESCAPE)
    while True:
        match = _ESCAPE_AT_END.search(text, at)
        if match is None:
            return len(text)
        before = text[begin : match.start()]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:  # else this backslash is escaped itself
            return match.start()
        at = match.start() + 1


def held_beginning(text: str, begin: int, mark: str) -> int:
    """Where the end of `text`, from `begin` on, may be the beginning of `mark`; else the end itself."""
    for at in range(max(begin, len(text) - len(mark) + 1), len(text)):
        if mark.startswith(text[at:]):
            return at
    return len(text)


class LiveJsonOrText:
    """JSON, or else the text without the white space around it. Which of them is certain once it can't be JSON."""

    __slots__ = ("_json", "_so_far", "_text")

    failed = False

    def __init__(self, json: LiveNested) -> None:
        self._json = json
        self._so_far: list[str] = []
        self._text: LiveText | None = None

    @property
    def root(self) -> Any:
        return NOTHING if self._text is None else self._text.root

    def feed(self, text: str) -> None:
        if self._text is None:
            self._so_far.append(text)
            self._json.feed(text)
            if not self._json.failed:
                return
            self._text = LiveText(strip=True)
            text = "".join(self._so_far)
            self._so_far.clear()
        self._text.feed(text)


# --- Python calls ----------------------------------------------------------------------------------------------------


class LiveCalls(LiveNested):
    """Calls in Python's notation: a list of `{"name", "arguments"}`."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(CALLS_NOTATION)
        self._state = self._begin

    def _begin(self, text: str, at: int) -> tuple[int, bool]:
        at = skip_space(text, at)
        if at == len(text):
            return at, False
        if text[at] == "[":
            self._open(GrowingList(), "]", self._call)
            self._state = self._first(self._call)
            return at + 1, False
        self._open(GrowingList(), "", self._call)
        self._state = self._call
        return at, False

    def _call(self, text: str, at: int) -> tuple[int, bool]:
        at = skip_space(text, at)
        if at == len(text):
            return at, False
        return self._begin_token(at, self._name, self._has_name)

    def _name(self, text: str, at: int) -> tuple[int, bool]:
        return self._read_token(_NAME, CALL_NAME, text, at)

    def _has_name(self, name: str) -> None:
        self._token = [name]
        self._state = self._parenthesis

    def _parenthesis(self, text: str, at: int) -> tuple[int, bool]:
        at, waits = self._expect("(", self._first(self._argument), text, at)
        if self._state != self._parenthesis:
            self._open(GrowingObject(), "", self._call)
            self._opened[-1].node.put("name", self._token[0])  # type: ignore[union-attr]
            self._opened[-1].key = "arguments"
            self._open(GrowingObject(), ")", self._argument)
        return at, waits

    def _argument(self, text: str, at: int) -> tuple[int, bool]:
        at = skip_space(text, at)
        if at == len(text):
            return at, False
        return self._begin_token(at, self._name, self._has_key)

    def _colon(self, text: str, at: int) -> tuple[int, bool]:
        return self._expect("=" if self._opened[-1].closing == ")" else ":", self._value, text, at)

    def _close(self, at: int) -> tuple[int, bool]:
        """A closing parenthesis ends the arguments and the call."""
        ends_call = self._opened[-1].closing == ")"
        after = super()._close(at)
        if ends_call:
            super()._close(at)
            self._state = self._after_call
        return after

    def _after_call(self, text: str, at: int) -> tuple[int, bool]:
        """Without brackets, calls are separated by line breaks, commas or semicolons."""
        if self._opened[-1].closing:
            self._state = self._after
            return at, False
        at = skip_space(text, at)
        while at < len(text) and text[at] in ",;":
            at = skip_space(text, at + 1)
        if at < len(text):
            self._state = self._call
        return at, False


class LiveCallList:
    """Calls in Python's notation, or JSON if the list begins with an object."""

    __slots__ = ("_begun", "_reader")

    def __init__(self) -> None:
        self._begun = ""  # the bracket, until what follows it tells
        self._reader: LiveNested | None = None

    @property
    def root(self) -> Any:
        return NOTHING if self._reader is None else self._reader.root

    @property
    def failed(self) -> bool:
        return self._reader is not None and self._reader.failed

    @property
    def steps(self) -> int:
        """As `LiveNested.steps`."""
        return 0 if self._reader is None else self._reader.steps

    def feed(self, text: str) -> None:
        if self._reader is None:
            text = self._begun + text
            text = text[skip_space(text, 0) :]
            first = skip_space(text, 1) if text.startswith("[") else 0
            if first == len(text):
                self._begun = text[:1]
                return
            self._reader = LiveNested(JSON) if first and text[first] == "{" else LiveCalls()
        self._reader.feed(text)
