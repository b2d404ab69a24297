"""What a response template is: its keys, their types, and the rules that make one valid.

A template is JSON (the format that transformers reads natively since 5.13). `ResponseTemplate` is that JSON once it is
known to be valid: every rule of the format is checked here, when the template is loaded, so that nothing later has to
ask again. Invariant: a `ResponseTemplate` never changes; `to_dict` gives the very JSON that came in.
Bound: validation is linear in the template's size, which the limits below cap.
"""

from __future__ import annotations

import copy
import difflib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import regex

from .errors import TemplateError

VERSION = 1

# A template may come from an untrusted checkpoint: sizes are capped, far above any template in use.
MAX_FIELDS = 200
MAX_LITERALS = 100
MAX_LITERAL_LENGTH = 2_000
MAX_PATTERN_LENGTH = 5_000
MAX_EXPANDED = 50_000
MAX_DEPTH = 50

TEMPLATE_KEYS = ("version", "defaults", "start_anchor", "start_anchor_pattern", "fields")
FIELD_KEYS = (
    "open",
    "open_pattern",
    "close",
    "close_pattern",
    "content",
    "content_args",
    "repeats",
    "join",
    "optional",
    "transform",
    "transform_each",
)

# The arguments of each content parser and the check that each must pass (see `_ARGUMENT_CHECKS`).
CONTENT_ARGS: Mapping[str, Mapping[str, str]] = {
    "text": {"strip": "bool"},
    "int": {},
    "float": {},
    "bool": {},
    "json": {"unquoted_keys": "bool", "string_delims": "pairs", "allow_non_json": "bool"},
    "xml-inline": {"tag_pattern": "tag_pattern", "value_parser": "parser", "merge_duplicates": "bool"},
    "kv-lines": {"line_sep": "literal", "kv_sep": "literal", "strip": "bool", "value_parser": "parser"},
    "python-call-list": {},
}

Json: TypeAlias = Any

_PLACEHOLDER = regex.compile(r"\{([A-Za-z_]\w*(?:\.\w+)*)\}")


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A place in a `transform` for a value: `name` is `content`, a group or an item's key; `path` goes inside."""

    name: str
    path: tuple[str, ...]

    def __str__(self) -> str:
        return "{" + ".".join((self.name, *self.path)) + "}"


@dataclass(frozen=True, slots=True)
class Field:
    """One key of the parsed message: what opens and closes its regions, and how a region's body becomes a value."""

    name: str
    open: tuple[str, ...] = ()
    open_pattern: str | None = None
    close: tuple[str, ...] = ()
    close_pattern: str | None = None
    content: str = "text"
    content_args: Mapping[str, Any] = dataclass_field(default_factory=lambda: MappingProxyType({}))
    repeats: bool = False
    join: str | None = None
    optional: bool = True
    transform: Json = None
    transform_each: bool = False

    @property
    def implicit(self) -> bool:
        """True for the field that takes all text outside explicit regions."""
        return not self.open and self.open_pattern is None

    @property
    def closable(self) -> bool:
        """True if the template says what closes this field's regions."""
        return bool(self.close) or self.close_pattern is not None


class ResponseTemplate:
    """A valid response template: immutable, hashable, equal by value, picklable.

    Make one with `load_template` or `from_dict`.
    """

    __slots__ = ("__dict__", "__weakref__", "_key", "_source", "_values")

    def __init__(self, source: Mapping[str, Any]) -> None:
        _check_json(source, "the template")  # first: what is not JSON, or nested without end, can't even be copied
        self._source: dict[str, Any] = copy.deepcopy(dict(source))
        self._values = _validate(self._source)
        self._key = json.dumps(self._source, sort_keys=True)

    @classmethod
    def from_dict(cls, source: Mapping[str, Any]) -> ResponseTemplate:
        """Validate `source` (the JSON object of a template).

        Raises:
            TemplateError: it breaks a rule of the format; the message names field and key.
        """
        return cls(_as_object(source))

    def to_dict(self) -> dict[str, Any]:
        """The JSON object as it came in (a copy)."""
        return copy.deepcopy(self._source)

    @property
    def version(self) -> int:
        return VERSION

    @property
    def defaults(self) -> dict[str, Any]:
        """Values that are in every parsed message (a copy)."""
        values: dict[str, Any] = copy_json(self._values.defaults)
        return values

    @property
    def start_anchor(self) -> tuple[str, ...]:
        """Literals that end the prompt before the assistant's message; empty if there is a pattern instead."""
        return self._values.start_anchor

    @property
    def start_anchor_pattern(self) -> str | None:
        return self._values.start_anchor_pattern

    @property
    def fields(self) -> Mapping[str, Field]:
        return self._values.fields

    @cached_property
    def implicit_field(self) -> Field | None:
        """The field that takes the text outside explicit regions, if there is one."""
        return next((field for field in self.fields.values() if field.implicit), None)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ResponseTemplate):
            return NotImplemented
        return self is other or self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"<ResponseTemplate {', '.join(self.fields)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return ResponseTemplate.from_dict, (self._source,)

    def __copy__(self) -> ResponseTemplate:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ResponseTemplate:
        return self


def load_template(source: Mapping[str, Any] | str | os.PathLike[str] | ResponseTemplate) -> ResponseTemplate:
    """A valid template from a dict, a JSON string, a path to a JSON file, or a `ResponseTemplate`.

    Equal sources give the same object, so that what is compiled from a template is compiled once.

    Raises:
        TemplateError: it is not valid, not JSON, or there is no such file.
    """
    if isinstance(source, ResponseTemplate):
        return source
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return _from_json(source, "the template")
    if isinstance(source, (str, os.PathLike)):
        return _from_file(Path(source))
    source = _as_object(source)
    try:
        key = json.dumps(source)
    except (TypeError, ValueError, RecursionError):
        return ResponseTemplate(source)  # says what is wrong with it
    return _cached(key)


@lru_cache(maxsize=512)
def _cached(key: str) -> ResponseTemplate:
    return ResponseTemplate(json.loads(key))


def _from_file(path: Path) -> ResponseTemplate:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise TemplateError(f"cannot read a response template from {str(path)!r}: {error}") from error
    return _from_json(text, str(path))


def _from_json(text: str, where: str) -> ResponseTemplate:
    try:
        source = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TemplateError(f"{where} is not valid JSON: {error}") from error
    return load_template(_as_object(source))


def _as_object(source: Any) -> Mapping[str, Any]:
    if not isinstance(source, Mapping):
        raise TemplateError(f"a response template is a JSON object, not {_kind(source)}")
    return source


# --- the rules ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Values:
    defaults: dict[str, Any]
    start_anchor: tuple[str, ...]
    start_anchor_pattern: str | None
    fields: Mapping[str, Field]


def _validate(source: dict[str, Any]) -> _Values:
    _known_keys(source, TEMPLATE_KEYS, "the template")
    version = source.get("version", VERSION)
    if isinstance(version, bool) or version != VERSION or not isinstance(version, int):
        raise TemplateError(
            f"'version' is {version!r}; this release knows only version {VERSION} (a newer response-templates may)"
        )
    defaults = _typed(source, "defaults", dict, {}, "the template")
    anchors, anchor_pattern = _delimiter(source, "start_anchor", "start_anchor_pattern", "the template")
    if not anchors and anchor_pattern is None:
        raise TemplateError("the template needs 'start_anchor' or 'start_anchor_pattern'")
    return _Values(defaults, anchors, anchor_pattern, _fields(source))


def _fields(source: dict[str, Any]) -> Mapping[str, Field]:
    raw = source.get("fields")
    if not isinstance(raw, dict) or not raw:
        raise TemplateError("'fields' must be an object with at least one field")
    if len(raw) > MAX_FIELDS:
        raise TemplateError(f"'fields' has {len(raw)} fields; at most {MAX_FIELDS} are allowed")
    fields = {name: _field(name, value) for name, value in raw.items()}
    implicit = [name for name, field in fields.items() if field.implicit]
    if len(implicit) > 1:
        names = ", ".join(repr(name) for name in implicit)
        raise TemplateError(f"only one field may go without 'open' and 'open_pattern', but {names} do")
    return MappingProxyType(fields)


def _field(name: str, raw: Any) -> Field:
    where = f"field {name!r}"
    if not isinstance(raw, dict):
        raise TemplateError(f"{where} must be an object, not {_kind(raw)}")
    _known_keys(raw, FIELD_KEYS, where)
    opens, open_pattern = _delimiter(raw, "open", "open_pattern", where)
    closes, close_pattern = _delimiter(raw, "close", "close_pattern", where)
    content = _typed(raw, "content", str, "text", where)
    field = Field(
        name=name,
        open=opens,
        open_pattern=open_pattern,
        close=closes,
        close_pattern=close_pattern,
        content=content,
        content_args=_content_args(content, raw.get("content_args"), where),
        repeats=_typed(raw, "repeats", bool, False, where),
        join=_typed(raw, "join", str, None, where),
        optional=_typed(raw, "optional", bool, True, where),
        transform=freeze(raw.get("transform")),
        transform_each=_typed(raw, "transform_each", bool, False, where),
    )
    if field.join is not None and not field.repeats:
        raise TemplateError(f"{where}: 'join' needs 'repeats': true")
    if field.transform_each and field.transform is None:
        raise TemplateError(f"{where}: 'transform_each' needs a 'transform'")
    _check_transform(field, where)
    return field


def _delimiter(raw: dict[str, Any], key: str, pattern_key: str, where: str) -> tuple[tuple[str, ...], str | None]:
    literals, pattern = raw.get(key), raw.get(pattern_key)
    if literals is not None and pattern is not None:
        raise TemplateError(f"{where} has both {key!r} and {pattern_key!r}; give one of them")
    if pattern is not None:
        _check_pattern(pattern, f"{where}: {pattern_key!r}")
        return (), pattern
    return _literals(literals, f"{where}: {key!r}"), None


def _literals(value: Any, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    literals = [value] if isinstance(value, str) else value
    if not isinstance(literals, list) or not all(isinstance(item, str) for item in literals):
        raise TemplateError(f"{where} must be a string or a list of strings, not {_kind(value)}")
    if not literals:
        raise TemplateError(f"{where} is an empty list; leave the key out instead")
    if len(literals) > MAX_LITERALS:
        raise TemplateError(f"{where} has {len(literals)} strings; at most {MAX_LITERALS} are allowed")
    for literal in literals:
        if not literal:
            raise TemplateError(f"{where} has an empty string, which would match everywhere")
        if len(literal) > MAX_LITERAL_LENGTH:
            raise TemplateError(f"{where} has a string of {len(literal)} characters; the limit is {MAX_LITERAL_LENGTH}")
    return tuple(dict.fromkeys(literals))


def _check_pattern(pattern: Any, where: str) -> frozenset[str]:
    """The names of the pattern's groups; an error if it is not a usable regex."""
    if not isinstance(pattern, str):
        raise TemplateError(f"{where} must be a string, not {_kind(pattern)}")
    if not pattern:
        raise TemplateError(f"{where} is empty, which would match everywhere")
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise TemplateError(f"{where} has {len(pattern)} characters; the limit is {MAX_PATTERN_LENGTH}")
    return group_names(pattern, where)


_PIECE = regex.compile(r"\\.|\[\^?\]?(?:[^\]\\]|\\.)*+\]|.", regex.DOTALL)
_COUNT = regex.compile(r"\{(\d*)(?:,(\d*))?\}")


def expanded_size(pattern: str) -> int:
    """About how many pieces `pattern` has once its counted repeats are written out.

    `regex` writes some of them out when it compiles, which for `(a{1000}){1000}` takes all memory: so this comes first.
    """
    sizes = [0]  # of the groups that are open, the whole pattern first
    last = at = 0
    while at < len(pattern):
        count = _COUNT.match(pattern, at)
        if count is not None and (count[1] or count[2]):
            digits = max(count[1], count[2] or "", key=lambda each: (len(each.lstrip("0")), each))
            sizes[-1] += last * (int(digits[-9:]) if len(digits) < 10 else 10**9)
            last, at = 0, count.end()
            continue
        piece = _PIECE.match(pattern, at)
        assert piece is not None
        at = piece.end()
        if piece[0] == "(":
            sizes.append(0)
            last = 0
        elif piece[0] == ")" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
        else:
            last = 1
            sizes[-1] += 1
    return sum(sizes)


@lru_cache(maxsize=1024)
def group_names(pattern: str, where: str = "the pattern") -> frozenset[str]:
    """Names of the groups of `pattern` (a regex of the `regex` module).

    Raises:
        TemplateError: it does not compile; `where` is named in the message.
    """
    if expanded_size(pattern) > MAX_EXPANDED:
        raise TemplateError(f"{where} has counted repeats that make it too large (in {pattern[:200]!r})")
    try:
        compiled = regex.compile(pattern, regex.DOTALL | regex.VERSION0)
    except (regex.error, RecursionError, OverflowError, MemoryError, ValueError) as error:
        raise TemplateError(f"{where} is not a valid regex: {error} (in {pattern[:200]!r})") from error
    return frozenset(compiled.groupindex)


def _content_args(content: str, args: Any, where: str) -> Mapping[str, Any]:
    known = CONTENT_ARGS.get(content)
    if known is None:
        raise TemplateError(f"{where}: unknown content parser {content!r}{_hint(content, CONTENT_ARGS)}")
    if args is None:
        args = {}
    where = f"{where}: 'content_args'"
    if not isinstance(args, dict):
        raise TemplateError(f"{where} must be an object, not {_kind(args)}")
    _known_keys(args, known, where)
    for key, value in args.items():
        _ARGUMENT_CHECKS[known[key]](value, f"{where}: {key!r}")
    if content == "xml-inline" and "tag_pattern" not in args:
        raise TemplateError(f"{where}: 'xml-inline' needs a 'tag_pattern' with a group named 'key'")
    frozen: Mapping[str, Any] = freeze(args)
    return frozen


def _check_bool(value: Any, where: str) -> None:
    if not isinstance(value, bool):
        raise TemplateError(f"{where} must be true or false, not {_kind(value)}")


def _check_literal(value: Any, where: str) -> None:
    if not isinstance(value, str) or not value:
        raise TemplateError(f"{where} must be a string that is not empty")


def _check_pairs(value: Any, where: str) -> None:
    pairs = value if isinstance(value, list) else [None]
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(mark, str) and mark for mark in pair):
            raise TemplateError(f"{where} must be a list of [open, close] pairs of strings that are not empty")


def _check_tag_pattern(value: Any, where: str) -> None:
    if "key" not in _check_pattern(value, where):
        raise TemplateError(f"{where} needs a group named 'key': (?P<key>…)")


def _check_value_parser(value: Any, where: str) -> None:
    if not isinstance(value, dict):
        raise TemplateError(f"{where} must be an object with 'name' and, if need be, 'args', not {_kind(value)}")
    _known_keys(value, ("name", "args"), where)
    if not isinstance(value.get("name"), str):
        raise TemplateError(f"{where}: 'name' must be the name of a content parser")
    _content_args(value["name"], value.get("args"), where)


_ARGUMENT_CHECKS = {
    "bool": _check_bool,
    "literal": _check_literal,
    "pairs": _check_pairs,
    "tag_pattern": _check_tag_pattern,
    "parser": _check_value_parser,
}


# --- transforms --------------------------------------------------------------------------------------------------


def placeholder_of(text: str) -> Placeholder | None:
    """The placeholder that `text` wholly is, or None if it is a plain string."""
    match = _PLACEHOLDER.fullmatch(text)
    if match is None:
        return None
    name, *path = match[1].split(".")
    return Placeholder(name, tuple(path))


def field_groups(field: Field) -> frozenset[str]:
    """Names of the groups that the field's delimiters can capture."""
    names: frozenset[str] = frozenset()
    for pattern in (field.open_pattern, field.close_pattern):
        if pattern is not None:
            names |= group_names(pattern)
    return names


def _check_transform(field: Field, where: str) -> None:
    groups = field_groups(field)
    if field.transform is None:
        if groups:
            names = ", ".join(repr(name) for name in sorted(groups))
            raise TemplateError(f"{where}: the named groups {names} would be lost without a 'transform'")
        return
    scalar = field.content in ("text", "int", "float", "bool")
    for text in _strings(field.transform):
        placeholder = placeholder_of(text)
        if placeholder is None:
            mixed = _PLACEHOLDER.search(text)
            if mixed is not None:
                raise TemplateError(
                    f"{where}: 'transform' mixes the placeholder {mixed[0]!r} with other text in {text!r};"
                    " a placeholder must be the whole string"
                )
        elif not field.transform_each:
            _check_resolvable(placeholder, groups, scalar, where)


def _check_resolvable(placeholder: Placeholder, groups: frozenset[str], scalar: bool, where: str) -> None:
    names = {"content", *groups}
    if placeholder.name not in names:
        raise TemplateError(
            f"{where}: 'transform' has {str(placeholder)!r}, which nothing can fill{_hint(placeholder.name, names)}"
            f" (known: {', '.join(sorted(names))})"
        )
    if placeholder.path and (placeholder.name in groups or scalar):
        raise TemplateError(f"{where}: 'transform' has {str(placeholder)!r}, but {placeholder.name!r} has no keys")


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from _strings(item)


def copy_json(value: Json) -> Json:
    """A copy of a JSON value; several times faster than `copy.deepcopy`, which must expect anything."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    return value


def freeze(value: Json) -> Json:
    """A copy of a JSON value that can't be changed: objects become mapping proxies, lists tuples."""
    if isinstance(value, dict):
        return MappingProxyType({key: freeze(item) for key, item in value.items()})
    if isinstance(value, list):
        return tuple(freeze(item) for item in value)
    return value


def thaw(value: Json) -> Json:
    """The JSON value that was frozen."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
    return value


# --- helpers -----------------------------------------------------------------------------------------------------


def _known_keys(raw: Mapping[str, Any], known: Any, where: str) -> None:
    for key in raw:
        if key not in known:
            raise TemplateError(f"{where} has the unknown key {key!r}{_hint(key, known)}")


def _hint(word: str, known: Any) -> str:
    near = difflib.get_close_matches(word[:100], list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def _typed(raw: dict[str, Any], key: str, kind: type, default: Any, where: str) -> Any:
    value = raw.get(key)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise TemplateError(f"{where}: {key!r} must be {_KINDS[kind]}, not {_kind(value)}")
    return value


_KINDS: dict[type, str] = {
    bool: "true or false",
    str: "a string",
    dict: "an object",
    list: "a list",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def _kind(value: Any) -> str:
    return f"{_KINDS.get(type(value), type(value).__name__)} ({str(value)[:60]!r})" if value is not None else "null"


def _check_json(value: Any, where: str, depth: int = 0) -> None:
    """Nothing but JSON types, and not nested without end: what is checked here can be stored and hashed safely."""
    if depth > MAX_DEPTH:
        raise TemplateError(f"{where} is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TemplateError(f"{where} has the key {key!r}, which is not a string")
            _check_json(item, where, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check_json(item, where, depth + 1)
    elif value is not None and not isinstance(value, (str, bool, int, float)):
        raise TemplateError(f"{where} holds {_kind(value)}, which is not JSON")
