"""A region's value while its body is being written: what a snapshot shows, and what a stream of deltas sends.

A live reader (see `content.live`) follows the body; the template's `transform` is filled with what it shows, and
brought to the shape of a call. A view is a plain value, a growing one (see `content.growing`), a dict or a list of
views, or `NOTHING` where the value is not known yet.

Invariant: what is shown is how the region's value begins, if the region is accepted (and writes no key twice). Items of
a list that are complete are shaped by the same functions as the region's value will be.
Bound: linear in the body; each look costs what came since the last, and the size of the transform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from .content import ContentError
from .content.growing import GROWING, NOTHING, GrowingList, GrowingObject, GrowingText, spine
from .content.json_body import JSON
from .content.live import LiveReader, NewReader, live_content
from .content.live_values import LiveNested, LiveText
from .plan import FieldPlan, plan_for
from .shaping import CALLS_FIELD, STANDS_FOR, expects_a_call
from .template import Json, Placeholder, ResponseTemplate, group_names, placeholder_of, thaw
from .tools import ToolTypes

View: TypeAlias = Any
Fill: TypeAlias = "Callable[[Mapping[str, View]], View]"

_ID_KEYS = ("id", "tool_call_id")
_ABSENT: Any = object()  # it is certain that there is no such value


# --- what depends on the template alone ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LiveField:
    """How the regions of one field are shown while they are open."""

    plan: FieldPlan
    new_reader: NewReader | None  # None: nothing is known before the region closes
    fill: Fill | None
    by_item: bool  # is a list in the body a value (a call) each?
    plain_text: bool  # the region's text is its value


@lru_cache(maxsize=512)
def live_fields(template: ResponseTemplate) -> Mapping[str, LiveField]:
    """The live fields of `template`, by name."""
    return {name: _live_field(plan) for name, plan in plan_for(template).fields.items()}


def _live_field(plan: FieldPlan) -> LiveField:
    field = plan.field
    transform = thaw(field.transform)
    plain_text = field.content == "text" and transform is None and plan.name != CALLS_FIELD
    late = field.close_pattern is not None and bool(group_names(field.close_pattern))  # a group that only the close has
    hidden = late or (field.join is not None and not plain_text)
    is_call = plan.name == CALLS_FIELD
    return LiveField(
        plan=plan,
        new_reader=None if hidden else live_content(field.content, thaw(field.content_args)),
        fill=None if transform is None else _filler(transform, is_call),
        by_item=field.transform_each or (plan.makes_calls and _takes_lists(transform)),
        plain_text=plain_text,
    )


def _takes_lists(transform: Json) -> bool:
    """Is a list in the body a call each, where one call is expected?"""
    return transform is None or transform == "{content}" or expects_a_call(transform)


def _filler(transform: Json, lenient: bool) -> Fill:
    """As `shaping`'s, for views."""
    if isinstance(transform, str):
        placeholder = placeholder_of(transform)
        if placeholder is not None:
            return _lookup(placeholder, lenient)
    elif isinstance(transform, dict):
        items = [(key, _filler(value, lenient)) for key, value in transform.items()]
        return lambda names: _known({key: fill(names) for key, fill in items})
    elif isinstance(transform, list):
        fills = [_filler(value, lenient) for value in transform]
        return lambda names: [value for value in (fill(names) for fill in fills) if value is not _ABSENT]
    return lambda names: transform


def _known(views: dict[str, View]) -> dict[str, View]:
    return {key: view for key, view in views.items() if view is not _ABSENT}


def _lookup(placeholder: Placeholder, lenient: bool) -> Fill:
    path = (placeholder.name, *placeholder.path)

    def fill(names: Mapping[str, View]) -> View:
        view: View = names
        for key in path:
            view = _member(view, key, lenient)
            if view is NOTHING or view is _ABSENT:
                break
        return view

    return fill


def _member(view: View, key: str, lenient: bool) -> View:
    """What is under `key`: `NOTHING` if it may still come, `_ABSENT` if it can't."""
    found = _get(view, key)
    other = STANDS_FOR.get(key) if lenient else None
    if found is NOTHING and other is not None:
        found = _get(view, other)
    if found is NOTHING and not isinstance(view, (GrowingObject, _Names)):
        return _ABSENT
    return found


def _get(view: View, key: str) -> View:
    if isinstance(view, GrowingObject):
        return view.get(key)
    return view.get(key, NOTHING) if isinstance(view, dict) else NOTHING


class _Names(dict[str, View]):
    """The names that a transform may use, while more may come: those of an item that is being written."""


# --- calls -----------------------------------------------------------------------------------------------------------


class LiveCall:
    """A call that is being written.

    Attributes:
        name, id: as soon as they are known; else None.
        waits_for_id: the template says that there is an id, and it has not come yet.
        arguments: those that are settled, and the one that grows. A string is in it once no type of the tool's schema
            could make it something else.
        begun: have the arguments begun?
    """

    __slots__ = ("_nested", "_settled", "_text_at", "_tools", "arguments", "begun", "id", "name", "waits_for_id")

    def __init__(self, tools: ToolTypes | None) -> None:
        self._tools = tools
        self._nested: tuple[LiveNested, int] | None = None  # reads arguments that are a string of JSON
        self._settled = 0  # arguments that are complete
        self._text_at = -1  # the argument that is certainly a text
        self.name: str | None = None
        self.id: str | None = None
        self.waits_for_id = False
        self.arguments = GrowingObject()
        self.begun = False

    def update(self, view: View) -> None:
        """Take over what is known by now."""
        self.waits_for_id = isinstance(view, dict) and view.get("id") is NOTHING
        call_id: Any = None
        while True:
            call_id = call_id if call_id is not None else _id_in(view)
            function = _get(view, "function")
            if not isinstance(function, (GrowingObject, dict)):
                break
            view = function
        name = _get(view, "name")
        if self.name is None and isinstance(name, str) and name.strip():
            self.name = name
        if self.id is None and isinstance(call_id, str):
            self.id = call_id
        arguments = _get(view, "arguments")
        if arguments is NOTHING or arguments is None:
            arguments = _get(view, "parameters")
        if self.name is not None:
            self._follow(arguments, self.name)

    def _follow(self, view: View, name: str) -> None:
        if isinstance(view, (GrowingText, str)):
            view = self._inside(view)
        if isinstance(view, GrowingObject):
            self._take(view.keys, view.values, name)
        elif isinstance(view, dict):
            self._take(list(view), list(view.values()), name)

    def _inside(self, view: GrowingText | str) -> View:
        """Arguments may be written as a string of JSON."""
        text = view if isinstance(view, str) else view.text()
        reader, read = self._nested if self._nested is not None else (LiveNested(JSON), 0)
        reader.feed(text[read:])
        self._nested = (reader, len(text))
        return reader.root

    def _take(self, keys: list[str], values: list[View], name: str) -> None:
        self.begun = True
        shown = self.arguments
        while self._settled < len(values):
            at = self._settled
            key, value = keys[at], values[at]
            grows = isinstance(value, GROWING)
            if value is NOTHING or (isinstance(value, GrowingText) and not self._is_text(at, name, key, value)):
                return
            if not grows and self._tools is not None:
                value = self._tools.cast_argument(name, key, value)
            if len(shown.values) == at:
                shown.put(key, value)
            elif shown.keys[at] == key:
                shown.values[at] = value
            else:
                return  # what looked like an argument was none; the region's end puts it right
            if grows:
                return
            self._settled += 1

    def _is_text(self, at: int, name: str, key: str, value: GrowingText) -> bool:
        if self._tools is not None and self._text_at != at:
            if not self._tools.stays_text(name, key, value.text()):
                return False
            self._text_at = at
        return True


def _id_in(view: View) -> Any:
    return next((value for value in (_get(view, key) for key in _ID_KEYS) if isinstance(value, str)), None)


def _open_text(view: View) -> GrowingText | None:
    """The text that is being written in `view`, if that is what is."""
    *_, last = spine(view) if isinstance(view, GROWING) else (None,)
    return last if isinstance(last, GrowingText) else None


# --- regions ---------------------------------------------------------------------------------------------------------


class LiveRegion:
    """An open region.

    Args:
        field: the region's field.
        groups: what the named groups of its open delimiter hold; None: that is not known.
        tools: the types of the tools' arguments.
        before: text that the region's text is added to (where regions are joined).

    Attributes:
        read: characters of the body so far.
        values: the items (calls) of the body that are complete; of a body that is no list at most one.
        is_list: is the region's value a list of these?
        view: the value that is being written, if the field holds no calls.
        call: the call that is being written.
        first: the first call of the region, also when it is complete.
    """

    __slots__ = (
        "_done",
        "_failed",
        "_field",
        "_groups",
        "_grows",
        "_reader",
        "_tools",
        "call",
        "first",
        "is_list",
        "read",
        "values",
        "view",
    )

    def __init__(
        self, field: LiveField, groups: Mapping[str, str] | None, tools: ToolTypes | None, before: str = ""
    ) -> None:
        self._field = field
        self._groups = groups or {}
        self._tools = tools
        self._reader: LiveReader | None = None
        if field.plain_text:
            self._reader = LiveText(field.plan.skips_lead, before)
        elif field.new_reader is not None and (groups is not None or not field.plan.has_groups):
            self._reader = field.new_reader()
        self._done = 0
        self._grows: GrowingText | None = None  # the text that is shown and being written
        self._failed = False
        self.read = 0
        self.values: list[Any] = []
        self.is_list = field.plan.field.transform_each
        self.view: View = NOTHING
        self.call: LiveCall | None = None
        self.first: LiveCall | None = None

    @property
    def plan(self) -> FieldPlan:
        """The field's plan."""
        return self._field.plan

    def feed(self, text: str) -> None:
        """Read on in the body."""
        self.read += len(text)
        if self._reader is None or self._failed or not text:
            return
        self._reader.feed(text)
        if self._grows is not None and not self._grows.complete:
            return  # nothing else can have changed
        root = self._reader.root
        if self._field.plain_text:
            self.view = root
        elif root is not NOTHING:
            try:
                self._look(root)
            except ContentError:  # the region won't be accepted
                self._failed = True
        shown = _open_text(self.view if self.call is None else self.call.arguments)
        self._grows = shown if shown is _open_text(root) else None

    def _look(self, root: View) -> None:
        """Take over what the reader shows."""
        items = self._items(root)
        while self._done < len(items):
            item = items[self._done]
            self._show(item)
            if isinstance(item, GROWING):
                return
            self._finish(item)

    def _items(self, root: View) -> list[View]:
        if self._field.by_item and isinstance(root, (GrowingList, list)):
            self.is_list = True
            return root if isinstance(root, list) else root.values
        return [root]

    def _show(self, item: View) -> None:
        view = self._filled(item)
        if not self._field.plan.makes_calls:
            # Any value that looks like a call gets its strings cast.
            self.view = NOTHING if self._tools is not None and _get(view, "function") is not NOTHING else view
            return
        if self.call is None:
            self.call = LiveCall(self._tools)
            self.first = self.first or self.call
        self.call.update(view)

    def _filled(self, item: View) -> View:
        fill = self._field.fill
        if fill is None:
            return item
        if not self._field.plan.field.transform_each:
            return fill({**self._groups, "content": item})
        if isinstance(item, GrowingObject):
            return fill(_Names({"content": item, **self._groups, **item.plain()}))
        return fill({"content": item, **self._groups, **(item if isinstance(item, dict) else {})})

    def _finish(self, item: Any) -> None:
        """An item is complete: its value is made as the region's will be."""
        plan = self._field.plan
        value = plan.shape([item] if self.is_list else item, self._groups)
        if self._tools is not None:
            value = plan.cast(self._tools, value)
        if isinstance(value, list) and (plan.makes_calls or plan.field.transform_each):
            self.values.extend(value)
        else:
            self.values.append(value)
        self._done += 1
        self.call = None
        self.view = NOTHING
