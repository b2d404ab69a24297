"""From a parsed body to the value of a region: `transform`, and the rules for tool calls.

A `transform` is compiled once into a function of the names that a region offers (`content` and the delimiters' groups).
Invariant: in the field `tool_calls` what comes out is a well-formed call, or a list of them, or a `ContentError`.
Bound: linear in the size of the transform and of the body's value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from .calls import well_formed
from .content import ContentError
from .template import Field, Json, Placeholder, placeholder_of, thaw

CALLS_FIELD = "tool_calls"

Names: TypeAlias = Mapping[str, Any]
Shape: TypeAlias = "Callable[[Any, Mapping[str, str]], Any]"  # (parsed body, groups) → value

_MISSING: Any = object()
STANDS_FOR = {"arguments": "parameters", "parameters": "arguments"}


def compile_shape(field: Field) -> Shape:
    """The function that gives a region of `field` its value.

    Raises (the function):
        ContentError: a placeholder can't be filled, or in `tool_calls` the result is no call.
    """
    transform = thaw(field.transform)
    shape = _each(field, transform) if field.transform_each else _whole(field, transform)
    if field.name != CALLS_FIELD or not shapes_calls(field):
        return shape
    return lambda content, groups: well_formed(shape(content, groups))


def shapes_calls(field: Field) -> bool:
    """Does the template want calls here, rather than a shape of its own?"""
    transform = thaw(field.transform)
    if transform is None:
        return field.content in ("json", "python-call-list")
    return transform == "{content}" or (isinstance(transform, dict) and "function" in transform)


def _whole(field: Field, transform: Json) -> Shape:
    if transform is None:
        return lambda content, groups: content
    lenient = field.name == CALLS_FIELD
    fill = _filler(transform, lenient)
    if lenient and expects_a_call(transform):
        return lambda content, groups: _one_or_each(fill, content, groups)
    return lambda content, groups: fill({**groups, "content": content})


def _one_or_each(fill: Callable[[Names], Any], content: Any, groups: Mapping[str, str]) -> Any:
    """The template expects one call; a model may write a list of them, which is a call each."""
    if isinstance(content, list):
        return [fill({**groups, "content": item}) for item in content]
    return fill({**groups, "content": content})


def expects_a_call(transform: Json) -> bool:
    """Does the content hold the call itself (and not only its arguments)?"""
    if not isinstance(transform, dict):
        return False
    function = transform.get("function")
    if isinstance(function, str):
        return function.startswith("{content")
    name = function.get("name") if isinstance(function, dict) else None
    return isinstance(name, str) and name.startswith("{content.")


def _each(field: Field, transform: Json) -> Shape:
    fill = _filler(transform, field.name == CALLS_FIELD)

    def shape(content: Any, groups: Mapping[str, str]) -> Any:
        if isinstance(content, dict) and field.name == CALLS_FIELD:
            content = [content]
        if not isinstance(content, list):
            raise ContentError(f"'transform_each' needs a list of objects, but the body is {_kind(content)}")
        for number, item in enumerate(content):
            if not isinstance(item, dict):
                raise ContentError(f"'transform_each' needs objects, but item {number} of the list is {_kind(item)}")
        return [fill({"content": item, **groups, **item}) for item in content]

    return shape


def _kind(value: Any) -> str:
    return f"{type(value).__name__} ({str(value)[:60]!r})"


def _filler(transform: Json, lenient: bool) -> Callable[[Names], Any]:
    """`transform` as a function. Lenient: a placeholder that can't be filled leaves its key out."""
    if isinstance(transform, str):
        placeholder = placeholder_of(transform)
        return _constant(transform) if placeholder is None else _lookup(placeholder, lenient)
    if isinstance(transform, dict):
        items = [(key, _filler(value, lenient)) for key, value in transform.items()]
        return lambda names: _present({key: fill(names) for key, fill in items})
    if isinstance(transform, list):
        fills = [_filler(value, lenient) for value in transform]
        return lambda names: [value for value in (fill(names) for fill in fills) if value is not _MISSING]
    return _constant(transform)


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not _MISSING}


def _constant(value: Json) -> Callable[[Names], Any]:
    return lambda names: value  # a string, a number, true, false or null: nothing that could be changed


def _lookup(placeholder: Placeholder, lenient: bool) -> Callable[[Names], Any]:
    path = (placeholder.name, *placeholder.path)

    def fill(names: Names) -> Any:
        value: Any = names
        for key in path:
            found = _get(value, key, lenient)
            if found is _MISSING:
                if lenient:
                    return _MISSING
                known = f" (there are: {', '.join(map(str, value))})" if isinstance(value, Mapping) else ""
                raise ContentError(f"'transform' needs {str(placeholder)!r}, but there is no {key!r}{known}")
            value = found
        return value

    return fill


def _get(value: Any, key: str, lenient: bool) -> Any:
    if not isinstance(value, Mapping):
        return _MISSING
    if key in value:
        return value[key]
    other = STANDS_FOR.get(key) if lenient else None
    return value[other] if other is not None and other in value else _MISSING
