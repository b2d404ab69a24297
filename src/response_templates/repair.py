"""Repairing JSON that a model wrote slightly wrong, by the library json-repair (extra `[repair]`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .content import ContentError, compile_content


def repaired_json(body: str, arguments: Mapping[str, Any]) -> Any:
    """The value of `body` once it is repaired.

    Args:
        arguments: the `content_args` of the field's json parser.

    Raises:
        ContentError: nothing that makes sense comes out.
        ImportError: json-repair is not installed.
    """
    repair_json = _library()
    try:
        fixed = repair_json(body, ensure_ascii=False)
    except (ValueError, RecursionError, TypeError, IndexError, KeyError) as error:
        raise ContentError(f"the JSON can't be repaired: {error}") from error
    if not fixed or fixed in ('""', "{}", "[]"):
        raise ContentError("the JSON can't be repaired: nothing is left of it")
    strict = {key: value for key, value in arguments.items() if key != "allow_non_json"}
    return compile_content("json", strict).parse(fixed)


def _library() -> Any:
    try:
        from json_repair import repair_json
    except ImportError as error:
        raise ImportError('errors="repair" needs json-repair: pip install "response-templates[repair]"') from error
    return repair_json
