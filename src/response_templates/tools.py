"""Types for the arguments of tool calls: strings are cast by the schemas of the tools that were offered.

Formats such as XML calls write every argument as text; only the tool's schema says that `7` is a number. Casting is
careful: what doesn't fit stays the text that the model wrote.

Invariant: only strings change; the value passed in is not modified; any schema is accepted, also one that refers to
itself. Bound: linear in the value; a schema's alternatives are followed once, `MAX_ALTERNATIVES` of them at most.
"""

from __future__ import annotations

import collections.abc
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .content import ContentError
from .content.json_body import read_json
from .content.python_calls import PYTHON_WORDS
from .content.reader import JSON_ESCAPES, PYTHON_CODES, Notation, bounded_int, finite_float, quoted_string, read_all
from .content.xml_inline import ITEM
from .errors import InputTypeError

MAX_ALTERNATIVES = 1000
MAX_DEPTH = 512

Schema: TypeAlias = "Mapping[str, Any]"

_UNCAST: Any = object()


# --- casting one text ----------------------------------------------------------------------------------------------

_ESCAPES = {**JSON_ESCAPES, "'": "'", "a": "\a", "v": "\v", "0": "\0", "\n": ""}
PYTHON_LITERAL = Notation(
    strings={quote: quoted_string(quote, _ESCAPES, "\ufffd", PYTHON_CODES) for quote in ("'", '"')},
    words=PYTHON_WORDS,
    integer=bounded_int,
    max_depth=MAX_DEPTH,
    trailing_commas=True,
)

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_NULLS = frozenset(("null", "None"))


def _integer(text: str) -> Any:
    try:
        return bounded_int(text)
    except ValueError:
        number = finite_float(text)
        return int(number) if number.is_integer() else _UNCAST


def _number(text: str) -> Any:
    try:
        return bounded_int(text)
    except ValueError:
        number = finite_float(text)
        return int(number) if number.is_integer() and "." not in text else number


def _container(kind: type) -> Callable[[str], Any]:
    def cast(text: str) -> Any:
        try:
            value = read_json(text)
        except ContentError:
            value = read_all(text, PYTHON_LITERAL)
        return value if isinstance(value, kind) else _UNCAST

    return cast


# By the type's name in a schema: the value of a text, or _UNCAST; a ValueError says the same.
_CASTS: Mapping[str, Callable[[str], Any]] = {
    "integer": _integer,
    "number": _number,
    "boolean": lambda text: _BOOLEANS.get(text.lower(), _UNCAST),
    "null": lambda text: None if text in _NULLS else _UNCAST,
    "object": _container(dict),
    "array": _container(list),
}


# By the type's name: what an empty element makes.
_EMPTY: Mapping[str, Callable[[], Any]] = {"array": list, "object": dict, "null": lambda: None}


# By the type's name: can a text that begins so still be cast? (`_` and other digits than 0-9 count: Python reads them.)
_NUMBER_BEGINS = re.compile(r"[+-]?[\d_]*\.?[\d_]*(?:[eE][+-]?[\d_]*)?")
_MAY_BE: Mapping[str, Callable[[str], bool]] = {
    "integer": lambda text: _NUMBER_BEGINS.fullmatch(text) is not None,
    "number": lambda text: _NUMBER_BEGINS.fullmatch(text) is not None,
    "boolean": lambda text: any(word.startswith(text.lower()) for word in _BOOLEANS),
    "null": lambda text: any(word.startswith(text) for word in _NULLS),
    "object": lambda text: text[:1] in ("", "{"),
    "array": lambda text: text[:1] in ("", "["),
}
_ENOUGH_TO_TELL = 64  # characters of a text that are looked at; longer ones wait for their end


# --- schemas -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Node:
    """What counts of a schema, its alternatives merged.

    Attributes:
        types: names of types in the order that the schema lists them.
        takes_text: is a string one of the types?
        texts: strings that `enum` or `const` allow as they are.
        properties, items, others: the schemas of what is inside; of several for one key the first.
        first_items: the schemas of a list's first items (`prefixItems`), which go before `items`.
    """

    types: tuple[str, ...]
    takes_text: bool
    texts: frozenset[str]
    properties: Mapping[str, Schema]
    items: Schema | None
    others: Schema | None
    first_items: tuple[Schema, ...] = ()

    def cast(self, text: str) -> Any:
        """The value of `text` by the first type that it fits, or the text."""
        if text in self.texts:
            return text
        stripped = text.strip()
        for name in self.types:
            try:
                value = _CASTS[name](stripped)
            except (ValueError, OverflowError):
                continue
            if value is not _UNCAST:
                return value
        return text

    def of_element(self, value: Any) -> Any:
        """The value of an element, whose text is only text: what is empty or has one item doesn't say what it is."""
        if value == "" and not self.takes_text:
            return next((_EMPTY[name]() for name in self.types if name in _EMPTY), value)
        if isinstance(value, str):
            return self.cast(value)
        if isinstance(value, list) and len(value) == 1 and "object" in self.types and "array" not in self.types:
            return {ITEM: value[0]}
        return value.copy() if isinstance(value, (dict, list)) else value

    def stays_text(self, begins: str) -> bool:
        """Can a text that begins so only be cast to itself?"""
        begins = begins[:_ENOUGH_TO_TELL].strip()
        return not any(_MAY_BE[name](begins) for name in self.types)


_TYPE_OF_VALUE = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}


def _types_in(schema: Schema) -> Iterator[str]:
    """The types that one schema names itself, without its alternatives."""
    declared = schema.get("type")
    yield from (name for name in (declared if isinstance(declared, list) else [declared]) if isinstance(name, str))
    if declared is None:
        for value in _constants(schema):
            yield "null" if value is None else _TYPE_OF_VALUE.get(type(value), "string")
    if schema.get("nullable") is True:
        yield "null"


def _constants(schema: Schema) -> list[Any]:
    allowed = schema.get("enum")
    return [*(allowed if isinstance(allowed, list) else []), *([schema["const"]] if "const" in schema else [])]


def _resolve(reference: Any, root: Schema) -> Any:
    """What a local `$ref` points to, or None."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    target: Any = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping):
            target = target.get(key)
        elif isinstance(target, list) and key.isascii() and key.isdigit() and len(key) < 9 and int(key) < len(target):
            target = target[int(key)]
        else:
            return None
    return target


def _alternatives(schema: Schema, root: Schema) -> list[Schema]:
    """`schema` and all that its `$ref`, `anyOf`, `oneOf` and `allOf` lead to, in order, each once."""
    found: list[Schema] = []
    seen: set[int] = set()
    waiting: list[Any] = [schema]
    while waiting and len(found) < MAX_ALTERNATIVES:
        each = waiting.pop()
        if not isinstance(each, Mapping) or id(each) in seen:
            continue
        seen.add(id(each))
        found.append(each)
        following = [_resolve(each["$ref"], root)] if "$ref" in each else []
        for key in ("anyOf", "oneOf", "allOf"):
            branches = each.get(key)
            following.extend(branches if isinstance(branches, list) else [])
        waiting.extend(following[:MAX_ALTERNATIVES][::-1])
    return found


def _node(schema: Schema, root: Schema) -> _Node:
    parts = _alternatives(schema, root)
    properties: dict[str, Schema] = {}
    for part in parts:
        inner = part.get("properties")
        for key, value in inner.items() if isinstance(inner, Mapping) else ():
            if isinstance(value, Mapping):
                properties.setdefault(key, value)
    names = dict.fromkeys(name for part in parts for name in _types_in(part))
    return _Node(
        types=tuple(name for name in names if name in _CASTS),
        takes_text=not names or "string" in names,
        texts=frozenset(value for part in parts for value in _constants(part) if isinstance(value, str)),
        properties=properties,
        items=_first(parts, "items"),
        others=_first(parts, "additionalProperties"),
        first_items=_first_items(parts),
    )


def _first_items(parts: list[Schema]) -> tuple[Schema, ...]:
    listed: list[Any] = next((part["prefixItems"] for part in parts if isinstance(part.get("prefixItems"), list)), [])
    return tuple(each if isinstance(each, Mapping) else {} for each in listed)


def _first(parts: list[Schema], key: str) -> Schema | None:
    return next((part[key] for part in parts if isinstance(part.get(key), Mapping)), None)


class _Types:
    """The schema of one tool's arguments, compiled as far as it is needed."""

    __slots__ = ("_nodes", "_root")

    def __init__(self, root: Schema) -> None:
        self._root = root  # keeps every schema in it alive, so that their ids stay theirs
        self._nodes: dict[int, _Node] = {}

    def cast(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of `arguments` with its strings cast, and so the strings in what became an object or a list."""
        result = dict(arguments)
        fresh = self._cast_strings(result, self._node(self._root))
        while fresh:
            container, node = fresh.pop()
            fresh.extend(self._cast_strings(container, node))
            fresh.extend(self._containers_in(container, node))
        return result

    def cast_elements(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of `arguments` with the strings in it cast, however deep they are."""
        result = dict(arguments)
        waiting: list[tuple[_Container, _Node]] = [(result, self._node(self._root))]
        while waiting:
            container, node = waiting.pop()
            for key, value, schema in list(_entries(container, node)):
                inner = self._node(schema)
                container[key] = cast = inner.of_element(value)
                if isinstance(cast, (dict, list)):
                    waiting.append((cast, inner))
        return result

    def stays_text(self, key: str, begins: str) -> bool:
        """Is a string argument that begins so certainly not cast?"""
        root = self._node(self._root)
        schema = root.properties.get(key, root.others)
        return schema is None or self._node(schema).stays_text(begins)

    def _node(self, schema: Schema) -> _Node:
        node = self._nodes.get(id(schema))
        if node is None:
            node = self._nodes[id(schema)] = _node(schema, self._root)
        return node

    def _cast_strings(self, container: _Container, node: _Node) -> list[tuple[_Container, _Node]]:
        """Cast the strings of `container` in place; returns the containers that they became."""
        fresh: list[tuple[_Container, _Node]] = []
        for key, value, schema in list(_entries(container, node)):
            if isinstance(value, str):
                inner = self._node(schema)
                container[key] = cast = inner.cast(value)
                if isinstance(cast, (dict, list)):
                    fresh.append((cast, inner))
        return fresh

    def _containers_in(self, container: _Container, node: _Node) -> list[tuple[_Container, _Node]]:
        return [
            (value, self._node(schema))
            for _, value, schema in _entries(container, node)
            if isinstance(value, (dict, list))
        ]


_Container: TypeAlias = Any  # a dict or a list
_Cast: TypeAlias = "Callable[[_Types, Mapping[str, Any]], dict[str, Any]]"


def _entries(container: _Container, node: _Node) -> Iterator[tuple[Any, Any, Schema]]:
    """Key (or index), value and schema of each entry that has a schema."""
    if isinstance(container, dict):
        for key, value in container.items():
            schema = node.properties.get(key, node.others)
            if schema is not None:
                yield key, value, schema
    else:
        for index, value in enumerate(container):
            schema = node.first_items[index] if index < len(node.first_items) else node.items
            if schema is not None:
                yield index, value, schema


# --- tools -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolTypes:
    """The tools that were offered to the model, by name."""

    _tools: Mapping[str, _Types]

    @classmethod
    def from_tools(cls, tools: Sequence[Any]) -> ToolTypes:
        """Tools as `apply_chat_template` takes them.

        Args:
            tools: `{"type": "function", "function": {"name", "parameters"}}`, bare `{"name", "parameters"}`, or Python
                functions, whose type hints become the schema.

        Raises:
            InputTypeError: one of them is none of these; the message names its index.
        """
        if not isinstance(tools, collections.abc.Iterable) or isinstance(tools, (str, bytes, Mapping)):
            raise InputTypeError(f"tools must be a list of tools, not {type(tools).__name__}")
        return cls({name: _Types(schema) for name, schema in map(_name_and_schema, range(sys.maxsize), tools)})

    def cast(self, value: Any) -> Any:
        """`value` with the string arguments of calls to known tools cast; a new value, or the same if it holds none."""
        return self._cast_with(_Types.cast, value)

    def cast_elements(self, value: Any) -> Any:
        """As `cast`, for calls whose arguments are elements in elements: the strings in them are cast as well."""
        return self._cast_with(_Types.cast_elements, value)

    def _cast_with(self, cast: _Cast, value: Any) -> Any:
        if isinstance(value, list):
            return [self._cast_call(cast, item) for item in value]
        return self._cast_call(cast, value)

    def cast_argument(self, name: str, key: str, value: Any) -> Any:
        """The value of one argument of a call to the tool `name`."""
        types_of_tool = self._tools.get(name)
        return value if types_of_tool is None else types_of_tool.cast({key: value})[key]

    def stays_text(self, name: str, key: str, begins: str) -> bool:
        """Is the string argument `key` of a call to `name`, which begins so, certainly not cast?"""
        types_of_tool = self._tools.get(name)
        return types_of_tool is None or types_of_tool.stays_text(key, begins)

    def _cast_call(self, cast: _Cast, call: Any) -> Any:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            return call
        types_of_tool = self._tools.get(function["name"])
        arguments = function.get("arguments")
        if types_of_tool is None or not isinstance(arguments, dict):
            return call
        return {**call, "function": {**function, "arguments": cast(types_of_tool, arguments)}}


def _name_and_schema(index: int, tool: Any) -> tuple[str, Schema]:
    if not isinstance(tool, Mapping):
        return _of_callable(index, tool)
    function = tool.get("function", tool)
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise InputTypeError(f"tools[{index}] is not a tool: it needs a 'name', or a 'function' that has one")
    parameters = function.get("parameters")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise InputTypeError(f"tools[{index}] ({function['name']!r}): 'parameters' must be a schema object")
    return function["name"], parameters or {}


# --- Python functions ------------------------------------------------------------------------------------------------


def _of_callable(index: int, tool: Any) -> tuple[str, Schema]:
    name = getattr(tool, "__name__", None)
    if not callable(tool) or not isinstance(name, str):
        raise InputTypeError(f"tools[{index}] must be a schema or a function with a name, not {type(tool).__name__}")
    return name, {"properties": {key: _of_hint(hint, 0) for key, hint in _hints(tool).items()}}


def _hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The type hints of the parameters; those that can't be resolved are left out."""
    try:
        return typing.get_type_hints(function)
    except Exception:  # a hint is code: a name that is not there (any more) can raise anything
        return {
            key: hint for key, hint in getattr(function, "__annotations__", {}).items() if not isinstance(hint, str)
        }


_PLAIN_HINTS: Mapping[Any, str] = {
    int: "integer",
    float: "number",
    bool: "boolean",
    str: "string",
    type(None): "null",
    dict: "object",
    list: "array",
    tuple: "array",
    set: "array",
    frozenset: "array",
    collections.abc.Mapping: "object",
    collections.abc.MutableMapping: "object",
    collections.abc.Sequence: "array",
    collections.abc.Iterable: "array",
    collections.abc.Collection: "array",
}
_MAX_HINT_DEPTH = 32


def _of_hint(hint: Any, depth: int) -> dict[str, Any]:
    """The schema of a type hint; `{}`, which casts nothing, for one that says nothing of JSON."""
    if depth > _MAX_HINT_DEPTH:
        return {}
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _of_hint(inner[0], depth + 1)
    if origin is typing.Union or origin is types.UnionType:
        return {"anyOf": [_of_hint(each, depth + 1) for each in inner]}
    if origin is typing.Literal:
        return {"enum": list(inner)}
    kind = _plain_kind(origin if origin is not None else hint)
    if kind == "object" and len(inner) == 2:
        return {"type": kind, "additionalProperties": _of_hint(inner[1], depth + 1)}
    if kind == "array" and inner and (len(inner) == 1 or inner[1:] == (...,)):
        return {"type": kind, "items": _of_hint(inner[0], depth + 1)}
    return {"type": kind} if kind is not None else {}


def _plain_kind(hint: Any) -> str | None:
    try:
        return _PLAIN_HINTS.get(hint)
    except TypeError:  # not hashable
        return None
