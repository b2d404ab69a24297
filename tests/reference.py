"""The reference: SPEC §2 read literally over the whole text, slowly, in plain code; it shares nothing with the engine.

What it decides itself: where regions begin and end, the events, the message, what is malformed, and what each character
was. What it borrows: how a template is checked (`load_template`) and how a body becomes a value (`compile_content`).
Invariant: the spans cover the text once, in order. Bound: none; quadratic and worse is fine here.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import regex

from response_templates.content import ContentError, compile_content
from response_templates.template import Field, ResponseTemplate, load_template, placeholder_of

TEXT_PARSERS = ("text", "int", "float", "bool")
CALL_KEYS = {"name", "arguments", "parameters", "id", "tool_call_id", "type", "function"}

Event = dict[str, Any]
Message = dict[str, Any]


class Malformed(Exception):
    """A region's body gives no value."""


class Rejected(Exception):
    """What `errors="strict"` raises: the first malformed region or missing field."""

    def __init__(self, field: str, text: str, position: int, partial: Message) -> None:
        super().__init__(f"{field}: {text!r}")
        self.field, self.text, self.position, self.partial = field, text, position, partial


@dataclass(frozen=True)
class Span:
    """`S[start:end]` was a `delimiter`, `text` of `field`, or `discarded`."""

    start: int
    end: int
    kind: str
    field: str | None


@dataclass(frozen=True)
class Delimiter:
    """One literal or pattern that opens or closes regions of `field`."""

    field: str
    role: str
    source: str
    is_pattern: bool

    def find(self, text: str, at: int) -> Found | None:
        """Its leftmost match at or after `at`."""
        if not self.is_pattern:
            start = text.find(self.source, at)
            return None if start < 0 else Found(start, start + len(self.source), self, {})
        match = compiled(self.source).search(text, at) if at <= len(text) else None
        return match and Found(match.start(), match.end(), self, taken_part(match))

    def begins_at(self, text: str, at: int) -> bool:
        """True if all of `text` from `at` on could be the beginning of a match that is not complete yet."""
        if not self.is_pattern:
            return self.source.startswith(text[at:])
        match = compiled(self.source).match(text, at, partial=True)
        return match is not None and bool(match.partial)


@dataclass(frozen=True)
class Found:
    start: int
    end: int
    delimiter: Delimiter
    groups: dict[str, str]

    def order(self) -> tuple[int, int, bool, str]:
        """Starts first, longest, opens before closes, field name."""
        return self.start, -(self.end - self.start), self.delimiter.role == "close", self.delimiter.field


def compiled(pattern: str) -> Any:
    return regex.compile(pattern, regex.DOTALL | regex.VERSION0)


def taken_part(match: Any) -> dict[str, str]:
    return {name: value for name, value in match.groupdict().items() if value is not None}


def delimiters(field: Field, role: str) -> list[Delimiter]:
    literals, pattern = (field.open, field.open_pattern) if role == "open" else (field.close, field.close_pattern)
    if pattern is not None:
        return [Delimiter(field.name, role, pattern, True)]
    return [Delimiter(field.name, role, literal, False) for literal in literals]


def as_written(template: ResponseTemplate, field: Field) -> Field:
    """`field` with its JSON values as plain JSON."""
    raw = template.to_dict()["fields"][field.name]
    return dataclasses.replace(field, transform=raw.get("transform"), content_args=raw.get("content_args") or {})


def after_last_anchor(template: ResponseTemplate, prefix: str) -> str:
    """What of the prompt belongs to the message: all after the last anchor (leftmost scanning, longest at a tie)."""
    if template.start_anchor_pattern is not None:
        matches = list(compiled(template.start_anchor_pattern).finditer(prefix))
        return prefix[matches[-1].end() :] if matches else prefix
    at = end = 0
    while at < len(prefix):
        here = [anchor for anchor in template.start_anchor if prefix.startswith(anchor, at)]
        at = at + max(map(len, here)) if here else at + 1
        end = at if here else end
    return prefix[end:]


# --- strings inside structured bodies --------------------------------------------------------------------------------


def strings(field: Field, body: str) -> list[tuple[int, int | None]]:
    """The insides of the strings in `body`, as (start, end); the end is None for one that never ends."""
    quotes = {'"': ('"', True)}  # opening mark -> (closing mark, whether a backslash escapes)
    if field.content == "python-call-list":
        quotes["'"] = ("'", True)
    for opening, closing in field.content_args.get("string_delims", ()):
        quotes[opening] = (closing, False)
    found: list[tuple[int, int | None]] = []
    at = 0
    while at < len(body):
        here = [mark for mark in quotes if body.startswith(mark, at)]
        if not here:
            at += 1
            continue
        opening = max(here, key=len)
        closing, escapes = quotes[opening]
        at = start = at + len(opening)
        while at < len(body) and not body.startswith(closing, at):
            at += 2 if escapes and body[at] == "\\" else 1
        if at >= len(body):
            return [*found, (start, None)]
        found.append((start, at))
        at += len(closing)
    return found


def string_around(found: list[tuple[int, int | None]], start: int, end: int) -> tuple[int, int | None] | None:
    """The string that holds both places, if there is one."""
    return next((s for s in found if s[0] <= start and (s[1] is None or end <= s[1])), None)


# --- values ----------------------------------------------------------------------------------------------------------


def value_of(field: Field, body: str, groups: dict[str, str]) -> Any:
    """The value of a region, transformed; calls well-formed. Raises `Malformed`."""
    try:
        content = compile_content(field.content, field.content_args).parse(body)
    except ContentError as error:
        raise Malformed(str(error)) from error
    value = transformed(field, content, groups)
    if field.join is not None and not isinstance(value, str):
        raise Malformed("'join' needs strings")
    return value


def transformed(field: Field, content: Any, groups: dict[str, str]) -> Any:
    calls = field.name == "tool_calls"
    shaped = calls and (field.transform is None or is_call(field.transform))  # else left alone
    if field.transform is None:
        if calls and isinstance(content, list) and any(is_call(item) for item in content):
            return [well_formed(item) for item in content]
        return well_formed(content) if calls and is_call(content) else content
    if field.transform_each:
        items = [content] if shaped and isinstance(content, dict) else content
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise Malformed("'transform_each' needs a list of objects")
        values = [filled(field.transform, {**groups, **item}, calls) for item in items]
        return [well_formed(value) for value in values] if shaped else values
    if shaped and isinstance(content, list):
        values = [filled(field.transform, {**groups, "content": item}, calls) for item in content]
        return [well_formed(value) for value in values]
    value = filled(field.transform, {**groups, "content": content}, calls)
    return well_formed(value) if shaped else value


def is_call(value: Any) -> bool:
    return isinstance(value, dict) and "function" in value


class _Missing:
    """A placeholder that nothing fills."""


def filled(shape: Any, names: dict[str, Any], lenient: bool) -> Any:
    """`shape` with its placeholders replaced; what nothing fills is left out if `lenient`, else `Malformed`."""
    if isinstance(shape, dict):
        pairs = [(key, filled(item, names, lenient)) for key, item in shape.items()]
        return {key: item for key, item in pairs if item is not _Missing}
    if isinstance(shape, list):
        return [item for item in (filled(item, names, lenient) for item in shape) if item is not _Missing]
    placeholder = placeholder_of(shape) if isinstance(shape, str) else None
    if placeholder is None:
        return copy.deepcopy(shape)
    value: Any = names
    for key in (placeholder.name, *placeholder.path):
        if not isinstance(value, dict) or key not in value:
            if lenient:
                return _Missing
            raise Malformed(f"nothing fills {placeholder}")
        value = value[key]
    return copy.deepcopy(value)


def well_formed(item: Any) -> Any:
    """A call as clients can take it (SPEC §2, Well-formed calls). Raises `Malformed`."""
    if not isinstance(item, dict) or not isinstance(item.get("function"), dict):
        raise Malformed("a call needs a function object")
    function = item["function"]
    if "name" not in function and len(function) == 1:
        name, inner = next(iter(function.items()))
        if name not in CALL_KEYS and isinstance(inner, dict):
            function = {"name": name, "arguments": inner}
    if not isinstance(function.get("name"), str):
        raise Malformed("a call needs a name")
    arguments = function.get("arguments", function.get("parameters"))
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise Malformed("the arguments are no JSON") from error
    elif arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise Malformed("the arguments are no object")
    ids = [place[key] for place in (item, function) for key in ("id", "tool_call_id") if key in place]
    call = {"type": "function", "function": {"name": function["name"], "arguments": arguments}}
    return {**call, "id": ids[0]} if ids else call


def is_cut_off(field: Field, body: str, closed: bool) -> bool:
    """True if a `tool_calls` region without its close delimiter may be a call that the model never finished."""
    if field.name != "tool_calls" or closed:
        return False
    parser = compile_content(field.content, field.content_args)
    if field.closable or field.content in ("json", "python-call-list"):
        return not parser.is_whole(body)
    return field.content == "xml-inline" and bool(parser.has_open_tag(body))  # type: ignore[attr-defined]


def is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, (str, list, dict)) and not value)


def assemble(template: ResponseTemplate, values: list[tuple[str, Any]]) -> Message:
    """The message from the regions' values, in their order."""
    defaults = template.defaults
    message = copy.deepcopy(defaults)
    for name, field in template.fields.items():
        mine = [copy.deepcopy(value) for owner, value in values if owner == name]
        if not mine:
            continue
        if field.join is not None:
            message[name] = field.join.join(([message[name]] if message.get(name) else []) + mine)
        elif field.repeats:
            if name == "tool_calls":
                mine = [one for value in mine for one in (value if isinstance(value, list) else [value])]
            message[name] = [*(message.get(name) or []), *mine]
        else:
            for value in mine:
                if not is_empty(value) or is_empty(message.get(name)):
                    message[name] = value
    return {key: value for key, value in message.items() if key in defaults or not is_empty(value)}


# --- segmentation ----------------------------------------------------------------------------------------------------


@dataclass
class Region:
    """A region being read: `start` is where its open delimiter begins, `body` where its text does."""

    field: Field
    start: int
    body: int
    groups: dict[str, str]


@dataclass
class Reference:
    """The whole of one parse; `run` fills it."""

    template: ResponseTemplate
    text: str
    offset: int  # length of the prefix's part
    strict: bool = False
    events: list[Event] = dataclasses.field(default_factory=list)
    spans: list[Span] = dataclasses.field(default_factory=list)
    values: list[tuple[str, Any]] = dataclasses.field(default_factory=list)
    fields: dict[str, Field] = dataclasses.field(init=False)
    malformed: list[dict[str, str]] = dataclasses.field(default_factory=list)
    seen: set[str] = dataclasses.field(default_factory=set)  # fields that had a region, malformed or not
    resumed: int = 0  # where the search for a close went on after the last one that a string held
    empty_at: dict[Delimiter, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fields = {name: as_written(self.template, field) for name, field in self.template.fields.items()}

    def next_delimiter(self, watched: list[Delimiter], at: int, position: int) -> Found | None:
        """The delimiter that comes first at or after `at`; none that was empty at `position` is taken there again."""
        found = [d.find(self.text, at + (at == position == self.empty_at.get(d))) for d in watched]
        return min((f for f in found if f is not None), key=Found.order, default=None)

    def took(self, found: Found) -> None:
        self.span(found.start, found.end, "delimiter", found.delimiter.field)
        if found.start == found.end:
            self.empty_at[found.delimiter] = found.start

    def span(self, start: int, end: int, kind: str, field: str | None) -> None:
        if start < end:
            self.spans.append(Span(start, end, kind, field))

    def run(self) -> None:
        fields = self.fields.values()
        implicit = next((field for field in fields if field.implicit), None)
        watched = [d for field in fields for d in delimiters(field, "open")]
        watched += delimiters(implicit, "close") if implicit else []
        at: int | None = 0
        while at is not None:
            found = self.unquoted(implicit, watched, at) if implicit else self.next_delimiter(watched, at, at)
            own = found if found and found.delimiter.role == "close" else None
            if implicit is None:
                self.span(at, found.start if found else len(self.text), "discarded", None)
            else:
                self.implicit(Region(implicit, at, at, {}), found, own)
            if found is None:
                break
            self.took(found)
            at = self.explicit(found) if found.delimiter.role == "open" else found.end
        for field in fields:
            there = field.name in self.template.defaults or field.name in self.seen
            if not field.optional and not there:
                self.reject(field.name, "", len(self.text), "missing")

    def implicit(self, region: Region, found: Found | None, own: Found | None) -> None:
        """The implicit field's region, if it has text: any delimiter ends it, and so does the end of the text."""
        end = found.start if found else self.body_end(region)
        name = region.field.name
        if region.body < end:
            self.events.append({"type": "region_open", "field": name})
            self.span(region.body, end, "text", name)
            self.close(region, end, own, own.end if own else found.start if found else len(self.text))
        if found is None:
            self.span(end, len(self.text), "delimiter", name)

    def explicit(self, opened: Found) -> int | None:
        """Read the region that `opened` opens; where its close ends it, or None if it has none."""
        field = self.fields[opened.delimiter.field]
        region = Region(field, opened.start, opened.end, opened.groups)
        self.events.append({"type": "region_open", "field": field.name})
        found = self.unquoted(field, delimiters(field, "close"), region.body)
        end = found.start if found else self.body_end(region)
        self.span(region.body, end, "text", field.name)
        self.close(region, end, found, found.end if found else len(self.text))
        if found is None:
            self.span(end, len(self.text), "delimiter", field.name)
            return None
        self.took(found)
        return found.end

    def unquoted(self, field: Field, watched: list[Delimiter], body: int) -> Found | None:
        """The first of `watched` from `body` on; a close of `field` inside a string of its body that ends is none."""
        quoted: list[tuple[int, int | None]] = []
        if field.content in ("json", "python-call-list"):
            quoted = strings(field, self.text[body:])
        at = self.resumed = body
        skipped: Found | None = None  # the first close inside a string, and where that ends
        until = 0
        while (found := self.next_delimiter(watched, at, body)) is not None:
            if found.delimiter.role == "open":  # the implicit field's body ends here; a string that goes on never ended
                return skipped if skipped is not None and found.start <= until else found
            string = string_around(quoted, found.start - body, found.end - body)
            if string is None or string[1] is None:
                return found
            if skipped is None or body + string[1] != until:
                skipped, until = found, body + string[1]
            at = self.resumed = max(found.end, found.start + 1)
        return None

    def body_end(self, region: Region) -> int:
        """Where the body of a region ends that nothing closes: before the held beginning of a close."""
        if region.field.content not in TEXT_PARSERS:
            for at in range(max(region.body, self.resumed), len(self.text)):
                if any(d.begins_at(self.text, at) for d in delimiters(region.field, "close")):
                    return at
        return len(self.text)

    def close(self, region: Region, end: int, close: Found | None, written: int) -> None:
        """The region's body ends at `end`; with what closed it, it was written up to `written`."""
        field, body = region.field, self.text[region.body : end]
        self.seen.add(field.name)
        shown = body
        if field.content in TEXT_PARSERS and field.content_args.get("strip", True):
            shown = body.lstrip()
        if shown:
            dirty = field.content not in TEXT_PARSERS
            self.events.append({"type": "region_chunk", "field": field.name, "text": shown, "dirty": dirty})
        try:
            value = value_of(field, body, {**region.groups, **(close.groups if close else {})})
            if is_cut_off(field, body, close is not None):
                raise Malformed("cut off")
        except Malformed as error:
            text = self.text[region.start : written]
            self.reject(field.name, text, region.start, str(error))
            self.events.append({"type": "region_malformed", "field": field.name, "text": text, "error": str(error)})
            return
        self.values.append((field.name, value))
        self.events.append({"type": "region_close", "field": field.name, "value": value})

    def reject(self, field: str, text: str, position: int, error: str) -> None:
        if self.strict:
            raise Rejected(field, text, position - self.offset, assemble(self.template, self.values))
        self.malformed.append({"field": field, "text": text, "error": error})


def reference_parse(
    template: dict[str, Any], text: str, prefix: str = "", errors: str = "recover"
) -> tuple[Message, list[Event], list[Span]]:
    """The message, the merged events (the prefix's first), and what each character was.

    Raises:
        Rejected: with `errors="strict"`, at the first malformed region or missing field.
    """
    loaded = load_template(template)
    rest = after_last_anchor(loaded, prefix)
    parse = Reference(loaded, rest + text, len(rest), errors == "strict")
    parse.run()
    message = assemble(loaded, parse.values)
    if parse.malformed:
        message["malformed"] = parse.malformed
    return message, parse.events, parse.spans
