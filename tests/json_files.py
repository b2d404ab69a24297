"""JSON files in any formatting, as data for hypothesis: white space, escapes and numbers drawn anew at every place.

Hypothesis draws a seed and a file is made from it: to have each white space drawn by itself takes minutes.
"""

from __future__ import annotations

import random

from hypothesis import strategies as st

KEY = "response_template"
SPACES = ("", "", "", " ", "\n", "\r\n", "\t", "\n    ", " \n\r\t ")
NUMBERS = ("0", "-0", "1E400", "-1.50", "1e-7", "12345678901234567890123", "0.1000", "9" * 5_000, "1.0E+05")
SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
MUST = set('"\\') | {chr(code) for code in range(32)}
CHARACTERS = 'aZ _/"\\\b\f\n\r\té｜😀\u2028\x7f{}[],:'
NAMES = ("model_max_length", "chat_template", "a", "z", "")


class Maker:
    """Writes random JSON in a formatting drawn anew at every place."""

    def __init__(self, seed: int) -> None:
        self.draws = random.Random(seed)

    def object(self, *, with_key: bool = False) -> bytes:
        """A file; `with_key`: it has the member already, perhaps twice."""
        keys = [self.key() for _ in range(self.draws.randint(0, 5))]
        for _ in range(self.draws.randint(1, 2) if with_key else 0):
            keys.insert(self.draws.randint(0, len(keys)), KEY)
        text = self.space() + self.group("{", [self.member(key, 2) for key in keys], "}") + self.space()
        return (self.draws.choice(["", "\ufeff"]) + text).encode("utf-8")

    def key(self) -> str:
        return self.draws.choice(NAMES) if self.draws.random() < 0.5 else self.text()

    def text(self) -> str:
        return "".join(self.draws.choices(CHARACTERS, k=self.draws.randint(0, 8)))

    def space(self) -> str:
        return self.draws.choice(SPACES)

    def string(self, text: str) -> str:
        return '"' + "".join(map(self.character, text)) + '"'

    def character(self, char: str) -> str:
        units = char.encode("utf-16-be")
        escapes = "".join(f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2))
        forms = [escapes, SHORT.get(char, escapes), *([char, char] if char not in MUST else [])]
        return self.draws.choice(forms)

    def value(self, depth: int) -> str:
        kind = self.draws.choice(["word", "number", "string", "array", "object"][: 5 if depth else 3])
        items = range(self.draws.randint(0, 3))
        if kind == "array":
            return self.group("[", [self.value(depth - 1) for _ in items], "]")
        if kind == "object":
            return self.group("{", [self.member(self.key(), depth - 1) for _ in items], "}")
        if kind == "string":
            return self.string(self.text())
        return self.draws.choice(NUMBERS if kind == "number" else ("null", "true", "false"))

    def member(self, key: str, depth: int) -> str:
        return f"{self.string(key)}{self.space()}:{self.space()}{self.value(depth)}"

    def group(self, opening: str, parts: list[str], closing: str) -> str:
        inside = ",".join(f"{self.space()}{part}{self.space()}" for part in parts)
        return opening + (inside or self.space()) + closing


SEEDS = st.integers(0, 2**63)
FILES = SEEDS.map(lambda seed: Maker(seed).object())
FILES_WITH_KEY = SEEDS.map(lambda seed: Maker(seed).object(with_key=True))
