"""A template made ready to parse with: what depends on the template alone, computed once.

Invariant: a plan never changes; all streams of a template share it. Bound: compiled once for equal templates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .content import ContentParser, StringDialect, compile_content
from .content.xml_inline import has_elements
from .control import ControlTokens
from .delimiters import WatchList, delimiters_of, last_match
from .shaping import CALLS_FIELD, Shape, compile_shape, shapes_calls
from .template import Field, ResponseTemplate, field_groups, thaw
from .tools import ToolTypes


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """One field, compiled."""

    field: Field
    name: str
    parser: ContentParser
    shape: Shape
    closes: WatchList  # what is watched for inside an explicit region of this field
    has_groups: bool
    dirty: bool  # chunks are raw body, not yet part of the value
    skips_lead: bool  # leading white space is never emitted
    strings: StringDialect | None  # where closes inside strings are text
    exact: bool  # a body that parses is one whole value (and not, say, text that isn't JSON)
    makes_calls: bool  # its values are tool calls, or lists of them
    cast: Callable[[ToolTypes, Any], Any]  # gives the arguments of its calls their types

    def is_whole(self, body: str) -> bool:
        """Does the body of a call say by itself that it is whole, though no close delimiter came?"""
        if self.parser.is_whole(body):
            return True
        if self.field.closable or self.field.content in ("json", "python-call-list"):
            return False
        has_open_tag: Callable[[str], bool] | None = getattr(self.parser, "has_open_tag", None)
        return has_open_tag is None or not has_open_tag(body)


@dataclass(frozen=True, slots=True)
class Plan:
    """A template, compiled."""

    template: ResponseTemplate
    fields: Mapping[str, FieldPlan]
    implicit: FieldPlan | None
    outside: WatchList  # what is watched for outside explicit regions
    last_anchor: Callable[[str], tuple[int, int] | None]
    opened: tuple[FieldPlan | None, ...]  # for each delimiter of `outside` the field that it opens; None: it closes
    required: tuple[str, ...]  # fields that a message must have
    whole_texts: bool  # can a whole text be searched otherwise than as a stream?
    width: int  # characters before a search that some delimiter's lookbehinds ask for


@lru_cache(maxsize=512)
def plan_for(template: ResponseTemplate, controls: ControlTokens | None = None) -> Plan:
    """The plan of `template`; with `controls` for text in which control tokens are marked."""
    fields = {name: _field_plan(field, controls) for name, field in template.fields.items()}
    implicit = template.implicit_field
    delimiters = [each for field in template.fields.values() for each in delimiters_of(field, "open")]
    if implicit is not None:
        delimiters += delimiters_of(implicit, "close")
    outside = WatchList(delimiters, controls)
    last_anchor = anchor = last_match(template.start_anchor_pattern, template.start_anchor)
    if controls is not None:
        last_anchor = lambda prefix: anchor(controls.unmark(prefix))  # noqa: E731
    return Plan(
        template=template,
        fields=fields,
        implicit=fields[implicit.name] if implicit is not None else None,
        outside=outside,
        last_anchor=last_anchor,
        opened=tuple(fields[each.field] if each.role == "open" else None for each in outside.delimiters),
        required=tuple(
            name for name, field in template.fields.items() if not field.optional and name not in template.defaults
        ),
        whole_texts=all(watch.find is not None for watch in (outside, *(plan.closes for plan in fields.values()))),
        width=max(outside.width, *(plan.closes.width for plan in fields.values())),
    )


def _field_plan(field: Field, controls: ControlTokens | None) -> FieldPlan:
    arguments = thaw(field.content_args)
    parser = compile_content(field.content, arguments)
    return FieldPlan(
        field=field,
        name=field.name,
        parser=parser,
        shape=compile_shape(field),
        closes=WatchList(delimiters_of(field, "close"), controls),
        has_groups=bool(field_groups(field)),
        dirty=not parser.is_text,
        skips_lead=parser.is_text and arguments.get("strip", True),
        strings=parser.strings,
        exact=not arguments.get("allow_non_json", False),
        makes_calls=field.name == CALLS_FIELD and shapes_calls(field),
        cast=ToolTypes.cast_elements if has_elements(arguments.get("tag_pattern", "")) else ToolTypes.cast,
    )
