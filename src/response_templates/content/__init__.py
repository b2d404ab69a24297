"""Content parsers: what turns the body of a region into a value.

The rules are data: a parser is a function (or a file) and one line in `_PARSERS`. Their arguments were checked when the
template was loaded (`template.CONTENT_ARGS`).

Invariant: a parser gives a value or raises `ContentError`, whatever the text. Bound: each is linear in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .base import ContentError, ContentParser
from .json_body import json_parser
from .kv_lines import kv_lines_parser
from .python_calls import python_calls_parser
from .scalars import bool_parser, float_parser, int_parser, text_parser
from .strings import StringDialect, StringTracker
from .xml_inline import xml_inline_parser

__all__ = ["ContentError", "ContentParser", "StringDialect", "StringTracker", "compile_content"]


def compile_content(name: str, args: Mapping[str, Any]) -> ContentParser:
    """The content parser called `name`.

    Args:
        args: the template's `content_args`, valid ones.

    Raises:
        KeyError: there is no parser of that name.
    """
    return _PARSERS[name](args)


def _compile_value(spec: Mapping[str, Any]) -> Callable[[str], Any]:
    """The function that a `value_parser` (`{"name", "args"}`) is."""
    return compile_content(spec["name"], spec.get("args") or {}).parse


_PARSERS: Mapping[str, Callable[[Mapping[str, Any]], ContentParser]] = {
    "text": text_parser,
    "int": int_parser,
    "float": float_parser,
    "bool": bool_parser,
    "json": json_parser,
    "xml-inline": lambda args: xml_inline_parser(args, _compile_value),
    "kv-lines": lambda args: kv_lines_parser(args, _compile_value),
    "python-call-list": python_calls_parser,
}
