"""Hypothesis strategies: valid templates, and texts made of the pieces that their delimiters are made of.

The alphabet is small on purpose, so that delimiters overlap, begin inside each other and nearly match all the time.
Invariant: every template drawn here is valid. Bound: templates of up to four fields, texts of some hundred characters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

Json = Any

# Pieces of patterns, each with texts that it matches (a lookahead's text is what should follow).
ATOMS: list[tuple[str, list[str]]] = [
    ("<a>", ["<a>"]),
    ("</a>", ["</a>"]),
    ("<b>", ["<b>"]),
    ("a", ["a"]),
    ("ab", ["ab"]),
    ("<", ["<"]),
    (r"\|", ["|"]),
    ("[ab]", ["a", "b"]),
    ("[ab]+", ["a", "ab", "bb"]),
    ("[ab]*", ["", "a", "ba"]),
    ("[ab]+?", ["a", "ab"]),
    ("[^>]*>", [">", "a>", "x|>"]),
    ("(?:a|ab)", ["a", "ab"]),
    ("(?:ab|a)", ["ab", "a"]),
    ("(?:a|b|<a>)", ["a", "b", "<a>"]),
    ("(?:aab|a)", ["aab", "a", "aa"]),
    ("(?:a|ab)(?:<|b<)", ["a<", "ab<", "abb<"]),
    ("(?:</a>)?", ["", "</a>"]),
    (r"(?:\s*</b>)?", ["", "</b>", " </b>", "\n"]),
    (r"(?:\s*</b>)??", ["", " </b>"]),
    ("(?:a(?:b(?:<a>)?)?)?", ["", "a", "ab", "ab<a>"]),
    ("a{2,3}", ["aa", "aaa"]),
    ("(?:a|b){0,2}", ["", "a", "ba"]),
    ("<{1,2}", ["<", "<<"]),
    (".*?<a>", ["<a>", "x<a>", "</a><a>"]),
    (".*?b", ["b", "x|b"]),
    (".*<b>", ["<b>", "a<b><b>"]),
    (".", ["a", "x", "\n"]),
    (r"\w+", ["a", "xb"]),
    (r"\s+", [" ", "\n "]),
    ("(?i:AB)", ["aB", "ab"]),
]
LEADS = [
    (r"\s*", ["", " ", "\n\n"]),
    (r"\s*", ["", " "]),
    (r"\s+", [" "]),
    ("^", [""]),
    (r"\b", ["", " "]),
    ("(?<=a)", ["a"]),
    ("(?<!a)", ["", "a"]),
]
# No word boundary at the end of a pattern: the reference asks `regex` what text may begin a match, and its partial
# matches don't wait for the character behind a boundary.
TAILS = [
    ("(?=X)", ["", "X"]),
    ("(?!X)", ["", "X"]),
    (r"(?=\s*<b>)", [" <b>", "<b>", " "]),
    ("(?![ab])", ["", "a"]),
    (r"\Z", [""]),
    ("$", ["", "\n"]),
    (r"(?:<b>|\Z)", ["<b>", ""]),
    (r"(?=<|\Z)", ["<", ""]),
    (r"(?=[ab]+X)", ["abX", "ab"]),
    (r"\s*", ["", " ", "\n"]),
]
NAMED = [("(?P<n>[ab]+)", ["a", "ab"]), ("(?P<n>a)?", ["", "a"]), ("(?P<n>.*?)", ["", "x"])]
LITERALS = [
    "<a>",
    "</a>",
    "<b>",
    "</b>",
    "<a",
    "<ab>",
    "<a><b>",
    "a",
    "ab",
    "aab",
    "|",
    "||",
    "<",
    "\n",
    "\n\n",
    "X",
    " <a>",
]
FIELDS = ["content", "reasoning_content", "tool_calls", "x", "y"]
TAG_PATTERN = r"<p=(?P<key>\w+)>(?P<value>.*?)</p>"
BODIES: dict[str, list[str]] = {
    "text": ["", " ", "q", " q\n", "a b", "\u3000é", "xyz " * 6],
    "int": ["7", " 12\n", "0", "x", "1.5"],
    "float": ["7", " 1.5 ", "x", "1e3"],
    "bool": ["true", " 1", "False", "0", "maybe"],
    "json": ['{"k": [1, "v"]}', "1", "{}", '"q"', " null ", "[]", "[{}]", "0", "true", "", '{"k": ', '"', '"\\"'],
    "xml-inline": ["<p=k>1</p>", "<p=k>1</p> <p=j>a\n</p>", "<p=k>", "<p=k>1", "", "x"],
    "kv-lines": ["k: 1", "k: 1\nj:a b\n", "k", "\n", ""],
    "python-call-list": ["[f(k=1)]", "[f(k='q'), g.h()]", "[f(", '[f(k="', "['", "", "f()", "[]"],
}
CALLS: dict[str, list[str]] = {
    "json": [
        '{"name": "f", "arguments": {"k": 1}}',
        '\n{"name": "f", "arguments": "{\\"k\\": 1}"}\n',
        '{"name": "f", "arguments": null}',
        '{"name": "f"}',
        '{"name": 1, "arguments": {}}',
        '{"name": "f", "arguments": [1]}',
        '{"arguments": {}}',
        '[{"name": "f", "arguments": {}}, {"name": "g", "arguments": {"k": "v"}}]',
        '{"name": "f", "arguments": {"k": "</a>|ab"}}',
        '{"name": "f", "arguments": {"k": "',
        '{"name": "f", ',
    ],
    "python-call-list": ["[f(k=1)]", "[f(k='a</a>|'), g()]", "[f(k=1"],
}
CALL_SHAPE = {"type": "function", "function": "{content}"}
EACH_SHAPE = {"type": "function", "function": {"name": "{name}", "arguments": "{arguments}"}}


@dataclass(frozen=True)
class Piece:
    """A delimiter: what a field's keys say of it, and texts that (may) match it."""

    keys: dict[str, Json]
    samples: list[str]
    named: bool = False


@dataclass(frozen=True)
class Case:
    """A template, the prompt, and a generation."""

    template: dict[str, Json]
    prefix: str
    text: str


def _concatenated(parts: list[tuple[str, list[str]]]) -> tuple[str, list[str]]:
    samples = [""]
    for _, texts in parts:
        samples = [sample + text for sample in samples for text in texts][:12]
    return "".join(source for source, _ in parts), samples


@st.composite
def _patterns(draw: st.DrawFn) -> tuple[str, list[str]]:
    alternatives = []
    for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
        parts = draw(st.lists(st.sampled_from(ATOMS), min_size=1, max_size=2))
        if draw(st.integers(0, 2)) == 0:
            parts = [draw(st.sampled_from(LEADS)), *parts]
        if draw(st.integers(0, 1)) == 0:
            parts = [*parts, draw(st.sampled_from(TAILS))]
        alternatives.append(_concatenated(parts))
    source = "|".join(source for source, _ in alternatives)
    return source, [sample for _, samples in alternatives for sample in samples]


@st.composite
def delimiters(draw: st.DrawFn, role: str) -> Piece:
    """The keys for `role` ("open" or "close") and samples."""
    kind = draw(st.sampled_from(["literal", "literal", "list", "pattern", "pattern", "lookahead", "named"]))
    if kind == "literal":
        literal = draw(st.sampled_from(LITERALS))
        return Piece({role: literal}, [literal])
    if kind == "list":
        literals = draw(st.lists(st.sampled_from(LITERALS), min_size=1, max_size=3, unique=True))
        return Piece({role: literals}, literals)
    if kind == "lookahead":
        literal = draw(st.sampled_from(["X", "<b>", "<", "a"]))
        return Piece({f"{role}_pattern": f"(?={literal})"}, [literal])
    source, samples = draw(_patterns())
    if kind == "named":
        assume("^" not in source)  # behind a "<" it can never match, which the reference's partial matches don't see
        source, samples = _concatenated([("<", ["<"]), draw(st.sampled_from(NAMED)), (f"(?:{source})", samples)])
        return Piece({f"{role}_pattern": source}, samples, named=True)
    return Piece({f"{role}_pattern": source}, samples)


@st.composite
def _fields(draw: st.DrawFn, name: str, implicit: bool) -> tuple[dict[str, Json], list[str], list[str], list[str]]:
    """A field, and samples of its opens, bodies and closes."""
    nothing = Piece({}, [""])
    opened = nothing if implicit else draw(delimiters("open"))
    closed = draw(st.one_of(st.just(nothing), delimiters("close"), delimiters("close")))
    content = draw(
        st.sampled_from(["text", "text", "text", "json", *BODIES] if name != "tool_calls" else ["json", *BODIES])
    )
    field: dict[str, Json] = {**opened.keys, **closed.keys, "content": content}
    bodies = BODIES[content]
    if content == "text" and draw(st.booleans()):
        field["content_args"] = {"strip": draw(st.booleans())}
    if content == "xml-inline":
        field["content_args"] = {"tag_pattern": TAG_PATTERN}
    if content == "json" and draw(st.integers(0, 3)) == 0:
        field["content_args"] = {"string_delims": [["<|", "|>"]]}
        bodies = [*bodies, '{"k": <|v|>}', "<|", "|>", '<|a</a>"|>', "<|a</a>"]
    elif content == "json" and draw(st.integers(0, 5)) == 0:
        field["content_args"] = {"allow_non_json": True}
    if opened.named or closed.named:
        field["transform"] = {"n": "{n}", "c": "{content}"}
    elif name == "tool_calls" and content in CALLS:
        bodies = [*bodies, *CALLS[content], *CALLS[content]]
        field |= draw(
            st.sampled_from(
                [
                    {"transform": CALL_SHAPE},
                    {"transform": EACH_SHAPE, "transform_each": True},
                    {"transform": {"call": "{content}"}},
                ]
            )
        )
    elif draw(st.integers(0, 5)) == 0:
        field["transform"] = {"v": ["{content}"]}
    field["repeats"] = draw(st.booleans())
    if field["repeats"] and "transform" not in field and content in ("text", "json") and name != "tool_calls":
        field |= draw(st.sampled_from([{}, {"join": ""}, {"join": ", "}]))
    if draw(st.integers(0, 15)) == 9:
        field["optional"] = False
    if content in ("json", "python-call-list"):  # strings that hold this field's own closes
        bodies = [
            *bodies,
            *(f'{{"k": "{close}"}}' for close in closed.samples[:3]),
            f"[f(k='{closed.samples[0]}')]",
        ]
    return field, opened.samples, bodies, closed.samples


@dataclass(frozen=True)
class Grammar:
    """A template, and what its regions are made of: (opens, bodies, closes) of each field."""

    template: dict[str, Json]
    regions: list[tuple[list[str], list[str], list[str]]]


@st.composite
def grammars(draw: st.DrawFn) -> Grammar:
    """A valid template with samples of its regions."""
    names = draw(st.lists(st.sampled_from(FIELDS), min_size=1, max_size=4, unique=True))
    implicit = draw(st.sampled_from([*names, names[0], None]))
    fields, regions = {}, []
    for name in names:
        fields[name], *samples = draw(_fields(name, name == implicit))
        regions.append((samples[0], samples[1], samples[2]))
    anchor = draw(
        st.sampled_from(
            [
                {"start_anchor": "@"},
                {"start_anchor": ["@", "@a"]},
                {"start_anchor_pattern": r"@\s*"},
                {"start_anchor": "aa"},
            ]
        )
    )
    defaults = draw(st.sampled_from([{"role": "assistant"}, {"role": "assistant"}, {}, {"content": ""}, {"x": None}]))
    defaults = {key: value for key, value in defaults.items() if not fields.get(key, {}).get("repeats")}
    return Grammar({"version": 1, "defaults": defaults, **anchor, "fields": fields}, regions)


@st.composite
def texts(draw: st.DrawFn, grammar: Grammar) -> str:
    """Regions of the grammar, whole or damaged, among loose pieces of delimiters and bodies."""
    loose = [piece for region in grammar.regions for samples in region for piece in samples]
    parts = []
    for _ in range(draw(st.sampled_from([5, 4, 3, 2, 6, 8, 1, 0]))):
        kind = draw(st.sampled_from(["region", "region", "loose", "cut", "doubled", "space", "letters"]))
        if kind == "region":
            parts += [draw(st.sampled_from(samples)) for samples in draw(st.sampled_from(grammar.regions))]
            continue
        piece = draw(st.sampled_from(loose))
        if kind == "cut":
            piece = piece[draw(st.integers(0, 1)) : draw(st.integers(0, len(piece)))]
        elif kind == "doubled":
            piece += piece[draw(st.integers(0, len(piece))) :]
        elif kind == "space":
            piece = draw(st.sampled_from([" ", "\n", "\t \n"]))
        elif kind == "letters":
            piece = draw(st.text("ab<>/| X\n\"'", max_size=8))
        parts.append(piece)
    text = "".join(parts)
    return text[: draw(st.integers(0, len(text)))] if draw(st.integers(0, 3)) == 0 else text


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any valid template with a text of its pieces; the prompt may hold some of it."""
    grammar = draw(grammars())
    prefix = draw(st.one_of(st.just(""), texts(grammar), texts(grammar).map(lambda text: f"p@{text}")))
    return Case(grammar.template, prefix, draw(texts(grammar)))


@st.composite
def grammatical_cases(draw: st.DrawFn) -> Case:
    """A valid template with a text from its own grammar: whole regions, plain text between them."""
    grammar = draw(grammars())
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        parts += [draw(st.sampled_from(samples)) for samples in draw(st.sampled_from(grammar.regions))]
        parts.append(draw(st.sampled_from(["", "", " ", "q", "\n"])))
    return Case(grammar.template, "", "".join(parts))


def splits(text: str) -> st.SearchStrategy[list[str]]:
    """`text` cut into chunks at random, empty ones among them."""
    places = st.lists(st.integers(0, len(text)), max_size=8).map(sorted)
    return places.map(lambda cuts: [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)])


def hostile_texts() -> st.SearchStrategy[str]:
    """Any text at all: surrogates, control characters, and pieces of markup."""
    pieces = st.one_of(
        st.text(max_size=12),
        st.text(st.characters(categories=["Cs", "Cc", "Zs", "Cf"]), max_size=6),
        st.sampled_from([*LITERALS, "{", "[" * 40, '"', "\\", "\ud800", "\x00", '{"name": "f"', "1e400", "NaN"]),
    )
    return st.lists(pieces, max_size=10).map("".join)
