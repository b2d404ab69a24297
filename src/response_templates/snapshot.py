"""The message so far, at any moment of a stream.

A snapshot is taken without copying anything: it notes how far each value had come (`mark_of`). It is read when somebody
asks for its message. As growing values only grow, that gives the message of the moment when it was taken, however much
has come since.

Invariant: what a snapshot shows stays. In a later one each string begins with the earlier one's, and keys and items are
in their places, with three exceptions, which the message itself has: a region that turns out malformed is no longer
shown; where a field without `repeats` comes again, and where an object has a key twice, the later value replaces the
earlier one.
Bound: taking one costs what came since the last, and the depth of what is open. Reading one costs the number of items
on the way to what is open, and the copying of the string that is being written (see `GrowingText` for when not).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .content.growing import GROWING, NOTHING, Growing, GrowingList, GrowingObject, GrowingText, spine
from .errors import InputTypeError
from .live import LiveCall, LiveRegion, View
from .message import assemble, is_empty
from .plan import FieldPlan, Plan

Path: TypeAlias = "tuple[str | int, ...]"


# --- how far a value has come ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Spine:
    """A growing value: each container on the way to what is open, with the number of its items (characters)."""

    frames: tuple[tuple[Growing, int], ...]

    def value(self) -> Any:
        """The value as it was."""
        inner: Any = NOTHING
        for node, count in reversed(self.frames):
            if isinstance(node, GrowingText):
                inner = node.text()[:count]
            elif isinstance(node, GrowingList):
                items = node.values[:count]
                inner = items if inner is NOTHING else [*items[:-1], inner]
            else:
                items = node.values[:count]
                if inner is not NOTHING:
                    items[-1] = inner
                inner = dict(zip(node.keys, items, strict=False))
        return inner

    def paths(self, path: Path) -> Iterator[Path]:
        for node, count in self.frames[:-1]:
            path = (*path, node.keys[count - 1] if isinstance(node, GrowingObject) else count - 1)
            yield path


@dataclass(frozen=True, slots=True)
class _Built:
    """What a transform made: an object or a list of further marks."""

    items: dict[Any, Any]
    is_list: bool

    def value(self) -> Any:
        values = {key: _value(mark) for key, mark in self.items.items()}
        return list(values.values()) if self.is_list else values

    def paths(self, path: Path) -> Iterator[Path]:
        for key, mark in self.items.items():
            if isinstance(mark, (_Spine, _Built)):
                yield (*path, key)
                yield from mark.paths((*path, key))


Mark: TypeAlias = Any  # a `_Spine`, a `_Built`, or a plain value that is complete


def mark_of(view: View) -> Mark:
    """How far `view` has come."""
    if isinstance(view, GROWING):
        return _Spine(
            tuple((node, node.size if isinstance(node, GrowingText) else len(node.values)) for node in spine(view))
        )
    if isinstance(view, dict):
        return _Built({key: mark_of(item) for key, item in view.items() if item is not NOTHING}, False)
    if isinstance(view, list):
        known = [item for item in view if item is not NOTHING]
        return _Built(dict(enumerate(map(mark_of, known))), True)
    return view


def _value(mark: Mark) -> Any:
    return mark.value() if isinstance(mark, (_Spine, _Built)) else mark


def _paths(mark: Mark, path: Path) -> Iterator[Path]:
    if isinstance(mark, (_Spine, _Built)):
        yield from mark.paths(path)


# --- snapshots -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OpenRegion:
    """The open region as it was: its complete items, and the mark of the one that was being written."""

    plan: FieldPlan
    values: list[Any]
    count: int
    is_list: bool
    mark: Mark  # or NOTHING

    def items(self) -> list[Any]:
        items = self.values[: self.count]
        return items if self.mark is NOTHING else [*items, _value(self.mark)]


class Snapshot:
    """The message so far.

    A value is partial while the region that it belongs to is open and it may grow. A call (an item of `tool_calls`) is
    partial until its region is accepted, so one that isn't can be run. (A later region may still add to a list, or to a
    string of joined regions.)
    """

    __slots__ = ("_malformed", "_malformed_count", "_message", "_open", "_plan", "_values")

    def __init__(
        self, plan: Plan, values: Mapping[str, Any], malformed: Sequence[dict[str, Any]], opened: _OpenRegion | None
    ) -> None:
        self._plan = plan
        self._values = [
            (name, value, len(value) if plan.fields[name].field.repeats else None) for name, value in values.items()
        ]
        self._malformed, self._malformed_count = malformed, len(malformed)
        self._open = opened
        self._message: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"Snapshot(message={self.message!r}, partial={self.partial!r})"

    @property
    def message(self) -> dict[str, Any]:
        """The message as `finalize` would return it, as far as it is known, with what is being written. Not to be
        changed: complete values in it are the parser's own."""
        if self._message is None:
            values = {name: value if count is None else value[:count] for name, value, count in self._values}
            if self._open is not None:
                _add_open(values, self._open)
            self._message = assemble(self._plan, values, self._malformed[: self._malformed_count])
        return self._message

    @property
    def partial(self) -> tuple[Path, ...]:
        """The paths in the message (keys and indices) to all values that are being written, the outermost first."""
        if self._open is None:
            return ()
        return tuple(path for path in self._open_paths(self._open) if _is_in(self.message, path))

    def is_complete(self, *path: str | int) -> bool:
        """Is there a value at `path` in the message that is not being written?

        Args:
            path: keys and indices, one argument each: `is_complete("tool_calls", 0)`.

        Raises:
            InputTypeError: one of them is neither.
        """
        for key in path:
            if not isinstance(key, (str, int)):
                raise InputTypeError(f"a path is keys and indices, one argument each, not {key!r:.60}")
        return _is_in(self.message, path) and path not in self.partial

    def _open_paths(self, opened: _OpenRegion) -> Iterator[Path]:
        name, field = opened.plan.name, opened.plan.field
        path: Path = (name,)
        yield path
        listed = field.repeats and field.join is None
        if not listed and not opened.is_list:
            yield from _paths(opened.mark, path)
            return
        first = self._items_before(name) if listed else 0
        if listed and opened.is_list and not opened.plan.makes_calls:  # the region's list is one item of the field's
            path, first = (name, first), 0
            yield path
        for number in range(first, first + opened.count):
            yield (*path, number)
        if opened.mark is not NOTHING:
            path = (*path, first + opened.count)
            yield path
            yield from _paths(opened.mark, path)

    def _items_before(self, name: str) -> int:
        """How many items the list of a field has from the template's defaults and from the regions that are over."""
        default = self._plan.template.defaults.get(name)
        earlier = sum(count or 0 for each, _, count in self._values if each == name)
        return earlier + (len(default) if isinstance(default, list) else 0)


def _is_in(value: Any, path: Sequence[str | int]) -> bool:
    for key in path:
        inside = range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
        if key not in inside:
            return False
        value = value[key]
    return True


def _add_open(values: dict[str, Any], opened: _OpenRegion) -> None:
    """Add what is open to the values of the fields, as the region's end will."""
    field, name = opened.plan.field, opened.plan.name
    items = opened.items()
    if not items:
        return
    if not field.repeats:
        value = items if opened.is_list else items[0]
        if not (is_empty(value) and name in values):
            values[name] = value
    elif field.join is not None:
        values[name] = items  # the text before is part of it
    elif opened.is_list and not opened.plan.makes_calls:
        values[name] = [*values.get(name, ()), items]
    else:
        values[name] = [*values.get(name, ()), *items]


def take(
    plan: Plan, values: Mapping[str, Any], malformed: Sequence[dict[str, Any]], live: LiveRegion | None
) -> Snapshot:
    """A snapshot of a parser's state.

    Args:
        values, malformed: of the regions that are over.
        live: the open region, if there is one.
    """
    opened = None
    if live is not None:
        view = live.view if live.call is None else _call_view(live.call)
        opened = _OpenRegion(live.plan, live.values, len(live.values), live.is_list, _mark_if_any(view))
    return Snapshot(plan, values, malformed, opened)


def _mark_if_any(view: View) -> Mark:
    return NOTHING if view is NOTHING else mark_of(view)


def _call_view(call: LiveCall) -> View:
    """The call as a message shows it, once its name is known."""
    if call.name is None:
        return NOTHING
    shown = {"type": "function", "function": {"name": call.name, "arguments": call.arguments}}
    return shown if call.id is None else {"id": call.id, **shown}
