"""The engines that are timed, behind one small face, and what each needs to be there.

All are fed the same text in the same pieces and give event dicts; each `feed` is called from the same loop.
openai-harmony takes token ids instead: it is timed on the ids of the very pieces that the others get.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from response_templates import ResponseParser, parse_response

Feed = Callable[[Any], Any]


class Floor:
    """The least that a parser of this kind can do in Python: a `find`, an `append` and an event dict a chunk."""

    __slots__ = ("find_in", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def feed(self, text: str) -> list[dict[str, Any]]:
        text.find("<")
        self.pieces.append(text)
        return [{"type": "region_chunk", "field": "content", "text": text, "dirty": False}]


@dataclass(frozen=True)
class Engine:
    """An engine with a template: `start` makes a parser for one stream, `whole` parses a text."""

    name: str
    start: Callable[[], Any]
    whole: Callable[[str], dict[str, Any]]


def ours(template: dict[str, Any]) -> Engine:
    """This package; the template is loaded beforehand, as a server does."""
    from response_templates import load_template

    loaded = load_template(template)
    return Engine("ours", lambda: ResponseParser(loaded, ""), lambda text: parse_response(text, loaded, prefix=""))


def native(template: dict[str, Any]) -> Engine | None:
    """transformers' own engine, if it is there and takes the template; loaded beforehand as well."""
    try:
        from transformers.utils.chat_parsing import ResponseParser as NativeParser
        from transformers.utils.chat_parsing import parse_response as native_parse
        from transformers.utils.chat_parsing.response_templates import load_response_template
    except ImportError:
        return None
    loaded = load_response_template(json.loads(json.dumps(template)))
    return Engine("native", lambda: NativeParser(loaded, prefix=""), lambda text: native_parse(text, loaded, prefix=""))


def floor() -> Engine:
    """The floor parses nothing."""
    return Engine("floor", Floor, lambda text: {"find": text.find("\x00")})


def native_version() -> str | None:
    """The version of transformers whose engine is timed."""
    try:
        import transformers
        import transformers.utils.chat_parsing
    except ImportError:
        return None
    return str(transformers.__version__)


class Harmony:
    """One stream through openai-harmony's parser: an event dict for each token that brings text."""

    __slots__ = ("parser",)

    def __init__(self) -> None:
        import openai_harmony

        self.parser = openai_harmony.StreamableParser(harmony_encoding(), role=openai_harmony.Role.ASSISTANT)

    def feed(self, token: int) -> list[dict[str, Any]]:
        parser = self.parser
        parser.process(token)
        delta = parser.last_content_delta
        if not delta:
            return []
        return [{"type": "region_chunk", "field": parser.current_channel, "text": delta, "dirty": False}]


@lru_cache(maxsize=1)
def harmony_encoding() -> Any:
    """openai-harmony's encoding, or None: the package or its vocabulary isn't there (see README.md)."""
    try:
        import openai_harmony

        return openai_harmony.load_harmony_encoding(openai_harmony.HarmonyEncodingName.HARMONY_GPT_OSS)
    except Exception:
        return None


def harmony_tokens(text: str) -> tuple[list[int], list[str]]:
    """The tokens of `text`, and the piece of text that each is. Only where every token is whole characters."""
    encoding = harmony_encoding()
    ids = encoding.encode(text, allowed_special="all")
    pieces = [encoding.decode([token]) for token in ids]
    if "".join(pieces) != text:
        raise ValueError("a token of this text is not whole characters")
    return ids, pieces


def feed_all(feed: Feed, pieces: Sequence[Any]) -> None:
    """The loop that all engines are timed in."""
    for piece in pieces:
        feed(piece)
