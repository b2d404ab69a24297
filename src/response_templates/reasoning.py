"""The way back: a chat template sees the reasoning under the key that it reads.

Templates write the reasoning to `reasoning_content`; chat templates read that key, or `thinking`, `reasoning` or
`thought`. Some versions of transformers copy one of them, none all.

Invariant: the caller's messages are not changed. Bound: the source of a chat template is read once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

KEYS = ("reasoning_content", "thinking", "reasoning", "thought")

_NAMED = re.compile(rf"\b(?:{'|'.join(KEYS)})\b")


@lru_cache(maxsize=256)
def keys_named(source: str) -> frozenset[str]:
    """The keys that the source of a chat template names."""
    return frozenset(_NAMED.findall(source))


def with_reasoning(conversation: Any, source: str) -> Any:
    """`conversation` (messages, or a batch of such lists) as the chat template with this `source` should see it."""
    keys = keys_named(source)
    if not keys or not isinstance(conversation, (list, tuple)):
        return conversation
    return [
        with_reasoning(each, source) if isinstance(each, (list, tuple)) else _message(each, keys)
        for each in conversation
    ]


def _message(message: Any, keys: frozenset[str]) -> Any:
    if not isinstance(message, Mapping):
        return message
    reasoning = next((message[key] for key in KEYS if message.get(key)), None)
    missing = [key for key in KEYS if key in keys and key not in message]
    if reasoning is None or not missing:
        return message
    return {**message, **dict.fromkeys(missing, reasoning)}
