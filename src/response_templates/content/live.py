"""Which live reader goes with which content parser (see `live_values` for what they promise).

A library for incomplete JSON (jiter) reads what it is given from the start, so that looking after every chunk is
quadratic; it shows a number before its last digit is there, and it knows JSON only. So it is what the tests compare
with, not what reads here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from . import compile_content
from .json_body import BARE_KEY, json_notation
from .live_tags import LineArgs, LiveLines, LiveTags, tag_pattern
from .live_values import LiveCallList, LiveJsonOrText, LiveNested, LiveReader, LiveText
from .xml_inline import has_elements

NewReader: TypeAlias = "Callable[[], LiveReader]"

__all__ = ["LiveReader", "NewReader", "live_content"]


def live_content(name: str, args: Mapping[str, Any]) -> NewReader | None:
    """Makes live readers for the content parser `name`; None where nothing can be said before a body is complete.

    Args:
        args: the template's `content_args`, valid ones.
    """
    make = _LIVE.get(name)
    return make(args) if make is not None else None


def _text(args: Mapping[str, Any]) -> NewReader:
    strip = args.get("strip", True)
    return lambda: LiveText(strip)


def _json(args: Mapping[str, Any]) -> NewReader:
    pairs = [(opening, closing) for opening, closing in args.get("string_delims") or ()]
    notation = json_notation(pairs, BARE_KEY if args.get("unquoted_keys") else None)
    if args.get("allow_non_json"):
        return lambda: LiveJsonOrText(LiveNested(notation, pairs))
    return lambda: LiveNested(notation, pairs)


def _tags(args: Mapping[str, Any]) -> NewReader | None:
    if has_elements(args["tag_pattern"]):  # what an element is shows at its end
        return None
    pattern = tag_pattern(args["tag_pattern"])
    if pattern is None or args.get("merge_duplicates"):  # a later tag makes a list of what was no list
        return None
    read_tag = compile_content("xml-inline", args).read_tag  # type: ignore[attr-defined]
    new_value = _value(args, strip=False)
    return lambda: LiveTags(pattern, new_value, read_tag)


def _lines(args: Mapping[str, Any]) -> NewReader:
    strip = args.get("strip", True)
    spec = args.get("value_parser") or {"name": "text", "args": {"strip": False}}
    arguments = LineArgs(
        line_sep=args.get("line_sep", "\n"),
        kv_sep=args.get("kv_sep", ":"),
        strip=strip,
        read_value=compile_content(spec["name"], spec.get("args") or {}).parse,
        new_value=_value(args, strip=strip),
    )
    return lambda: LiveLines(arguments)


def _value(args: Mapping[str, Any], *, strip: bool) -> NewReader | None:
    """Makes readers for the values of tags or lines, whose text may be stripped first."""
    spec = args.get("value_parser")
    if spec is None:
        return lambda: LiveText(strip)
    arguments = spec.get("args") or {}
    if spec["name"] == "text":
        return lambda: LiveText(strip or arguments.get("strip", True))
    return live_content(spec["name"], arguments)


_LIVE: Mapping[str, Callable[[Mapping[str, Any]], NewReader | None]] = {
    "text": _text,
    "json": _json,
    "xml-inline": _tags,
    "kv-lines": _lines,
    "python-call-list": lambda args: LiveCallList,
}
