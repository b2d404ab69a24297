"""What a tool call looks like in a message, and how what models write is brought to that shape.

Clients and chat templates crash on anything but `{"type": "function", "function": {"name": str, "arguments": object}}`
(with an `id` in front where the model wrote one), so nothing else leaves this module.

Invariant: `well_formed` gives calls of that shape or raises `ContentError`; the value passed in is not changed.
Bound: linear in the value; no recursion, however deep it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from .content import ContentError
from .content.base import kind_of
from .content.json_body import read_json

Call: TypeAlias = "dict[str, Any]"

_ID_KEYS = ("id", "tool_call_id")
_NOT_NAMES = frozenset(("name", "arguments", "parameters", "type", "function", *_ID_KEYS))


def well_formed(value: Any) -> Call | list[Call]:
    """The calls in the value of one region.

    Args:
        value: an item with a `function`, a bare `{"name", "arguments"}`, or a list (of lists) of these.

    Returns:
        A call for an object that holds one; else a flat list of calls.

    Raises:
        ContentError: something in it is no call.
    """
    if _is_plain(value):
        return value  # type: ignore[no-any-return]
    calls = list(_calls(value))
    return calls[0] if isinstance(value, dict) and len(calls) == 1 else calls


def _is_plain(value: Any) -> bool:
    """Is it a call just as it should be, with nothing else? Nearly all are."""
    if not isinstance(value, dict) or len(value) != 2 or value.get("type") != "function":
        return False
    function = value.get("function")
    if not isinstance(function, dict) or len(function) != 2:
        return False
    name = function.get("name")
    return isinstance(name, str) and bool(name.strip()) and isinstance(function.get("arguments"), dict)


def _calls(value: Any) -> Iterator[Call]:
    """Each call in `value`, in order. Wrappers are looked through: lists, and objects that hold a `function`."""
    waiting: list[tuple[Any, str | None]] = [(value, None)]
    while waiting:
        item, outer_id = waiting.pop()
        if isinstance(item, list):
            waiting.extend((each, outer_id) for each in reversed(item))
        elif not isinstance(item, dict):
            raise ContentError(f"a tool call must be an object, but this is {kind_of(item)}")
        elif _wraps_function(item):
            waiting.append((item["function"], outer_id if outer_id is not None else _id_in(item)))
        else:
            yield _call(item, outer_id if outer_id is not None else _id_in(item))


def _wraps_function(item: dict[str, Any]) -> bool:
    return "function" in item and ("name" not in item or isinstance(item["function"], (dict, list)))


def _id_in(item: dict[str, Any]) -> str | None:
    """The id that the model wrote: a string as it is, a number as its digits."""
    for key in _ID_KEYS:
        written = item.get(key)
        if isinstance(written, str):
            return written
        if isinstance(written, int) and not isinstance(written, bool):
            return _digits(written)
    return None


def _digits(number: int) -> str | None:
    try:
        return str(number)
    except ValueError:  # more digits than Python writes
        return None


def _call(function: dict[str, Any], call_id: str | None) -> Call:
    rest = {key: value for key, value in function.items() if key not in _ID_KEYS}
    if rest.get("type") == "function":
        del rest["type"]
    if "name" not in rest:
        rest = _name_is_key(rest)
    name = _checked_name(rest.pop("name", None))
    written = rest.pop("arguments", None)
    if written is None:
        written = rest.pop("parameters", None)
    call = {"type": "function", "function": {"name": name, "arguments": _checked_arguments(written, name), **rest}}
    return call if call_id is None else {"id": call_id, **call}


def _name_is_key(function: dict[str, Any]) -> dict[str, Any]:
    """`{"get_weather": {…}}`: the only key is the name, and holds the arguments."""
    if len(function) == 1:
        name, arguments = next(iter(function.items()))
        if name not in _NOT_NAMES and isinstance(arguments, dict):
            return {"name": name, "arguments": arguments}
    return function


def _checked_name(name: Any) -> str:
    if name is None:
        raise ContentError("the tool call has no name")
    if not isinstance(name, str):
        raise ContentError(f"the name of a tool call must be a string, but this is {kind_of(name)}")
    if not name.strip():
        raise ContentError("the name of the tool call is empty")
    return name


def _checked_arguments(written: Any, name: str) -> dict[str, Any]:
    """The arguments as an object; a model may also write none, or the object as a JSON string."""
    where = f"the arguments of {name[:60]!r}"
    value = written
    if isinstance(value, str):
        try:
            value = read_json(value) if value.strip() else None
        except ContentError as error:
            raise ContentError(f"{where} are a string that is not JSON: {error}") from error
        if value is None and written.strip():
            raise ContentError(f"{where} must be an object, but they are the string {written[:60]!r}")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ContentError(f"{where} must be an object, but they are {kind_of(value)}")
    return value
