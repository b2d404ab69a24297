"""Where to look next: searches that C code makes over the characters that a machine need not see.

Each is a compiled search for the next character that can matter. Built with `re` where all characters are literal
(quicker to start, and the same by any engine), else with `regex`, whose classes patterns are written in.

Bound: a search looks at each character once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import regex

from . import syntax

Find: TypeAlias = "Callable[[str, int], re.Match[str] | regex.Match[str] | None]"


def first_search(patterns: Sequence[syntax.Node]) -> Find | None:
    """A search for the next place where a match can begin; None: that may be anywhere."""
    texts = [syntax.beginnings(pattern, 2) for pattern in patterns]
    if texts and None not in texts:
        return beginning_search(frozenset().union(*(each for each in texts if each)))
    sources: set[str] = set()
    for pattern in patterns:
        first = syntax.first_chars(pattern)
        if first is None:
            return None
        sources |= first
    return difference_search((source, False) for source in sources) if sources else None


def beginning_search(texts: frozenset[str]) -> Find:
    """A search for any of `texts` (of one or two characters), or for the first character of one at the very end."""
    seconds: dict[str, set[str]] = {}
    for text in texts:
        seconds.setdefault(text[0], set()).add(text[1:])
    parts = []
    for first, after in sorted(seconds.items()):
        known = "[" + re.escape("".join(sorted(after))) + "]" if "" not in after else ""
        parts.append(re.escape(first) + (f"(?:{known}|\\Z)" if known else ""))
    find: Find = re.compile("|".join(parts), re.DOTALL).search
    return find


def difference_search(asked: Iterable[tuple[str, bool]]) -> Find | None:
    """A search for the next character on which one of the predicates is not what it is here.

    Args:
        asked: sources of predicates, and what each says here.
    """
    parts = []
    inside = []  # what fits into one bracketed class, which is much faster to search for than alternatives
    for source, holds in sorted(asked):
        if source == syntax.ANY.source:
            if holds:
                continue  # it holds for every character
            return None
        body = _class_body(source, holds)
        if body is not None:
            inside.append(body)
        else:
            parts.append(f"(?!{source})(?s:.)" if holds else source)
    if inside:
        parts.append("[" + "".join(inside) + "]")
    if not parts:
        return _never
    literal = (
        inside
        and len(parts) == 1
        and all(len(body) == 1 or (body[0] == "\\" and not body[1].isalnum()) for body in inside)
    )
    if literal:  # `re` means the same by these, and is quicker to start
        quick: Find = re.compile(parts[0], re.DOTALL).search
        return quick
    find: Find = regex.compile("|".join(f"(?:{part})" for part in parts), regex.DOTALL).search
    return find


def _class_body(source: str, holds: bool) -> str | None:
    """What to write into a bracketed class for the characters on which `source` differs from `holds`; None: can't."""
    if source.startswith("["):
        negated = source.startswith("[^")
        if negated != holds or "[:" in source:
            return None
        body = source[2:-1] if negated else source[1:-1]
        return None if body[:1] in ("]", "^") or body[-1:] == "-" or "&&" in body or "--" in body else body
    if holds:
        return None
    if len(source) == 1 or (len(source) == 2 and source[0] == "\\"):
        return source if source not in ("-", "^", "]", "[", "&", "~", "|") else "\\" + source
    return None


def _never(text: str, begin: int = 0) -> None:
    return None
