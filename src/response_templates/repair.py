"""Repairing JSON that a model wrote slightly wrong, by the library json-repair (extra `[repair]`).

One fault comes first, for json-repair can't tell it: a model that writes an escape that JSON doesn't know (`\\d`)
doesn't escape its backslashes, so in that body `C:\\temp` means a backslash, not a tab. Only what nobody writes by
accident stays an escape there: `\\"`, `\\\\`, `\\/`, `\\n` and `\\uXXXX`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .content import ContentError, compile_content

_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KNOWN = frozenset('"\\/bfnrtu')
_CERTAIN = frozenset('"\\/nu')


def repaired_json(body: str, arguments: Mapping[str, Any]) -> Any:
    """The value of `body` once it is repaired.

    Args:
        arguments: the `content_args` of the field's json parser.

    Raises:
        ContentError: nothing that makes sense comes out.
        ImportError: json-repair is not installed.
    """
    parser = compile_content("json", {key: value for key, value in arguments.items() if key != "allow_non_json"})
    body = _with_backslashes(body)
    try:
        return parser.parse(body)
    except ContentError:
        return parser.parse(_repaired(body))


def _with_backslashes(body: str) -> str:
    """`body` with its backslashes escaped, if it has one that escapes nothing that JSON knows."""
    escapes = _ESCAPE.findall(body)
    if all(_is_escape(escape, _KNOWN) for escape in escapes):
        return body
    return _ESCAPE.sub(lambda match: match[0] if _is_escape(match[0], _CERTAIN) else "\\" + match[0], body)


def _is_escape(escape: str, letters: frozenset[str]) -> bool:
    return escape[1] in letters and (escape[1] != "u" or len(escape) == 6)


def _repaired(body: str) -> str:
    try:
        fixed = load_library()(body, ensure_ascii=False)
    except (ValueError, RecursionError, TypeError, IndexError, KeyError) as error:
        raise ContentError(f"the JSON can't be repaired: {error}") from error
    if not isinstance(fixed, str) or fixed in ("", '""'):
        raise ContentError("the JSON can't be repaired: nothing is left of it")
    return fixed


def load_library() -> Any:
    """json-repair's `repair_json`.

    Raises:
        ImportError: it is not installed; the message says how to.
    """
    try:
        from json_repair import repair_json
    except ImportError as error:
        raise ImportError('errors="repair" needs json-repair: pip install "response-templates[repair]"') from error
    return repair_json
