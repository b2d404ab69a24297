"""Write the tables and plots of docs/performance.md from benchmarks/results/*.json.

Run: python scripts/make_performance_docs.py

The page's own text stays; between `<!-- results: NAME -->` and `<!-- end -->` stands what this script makes. The
figures are medians; ratios are taken within one run only.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "performance.md"
IMAGES = ROOT / "docs" / "img"

Row = dict[str, Any]
TEMPLATES = ("registry", "plain")


def load(name: str) -> list[Row]:
    """The rows of one benchmark."""
    path = RESULTS / f"{name}.json"
    return list(json.loads(path.read_text(encoding="utf-8"))["rows"]) if path.is_file() else []


def pick(rows: Iterable[Row], **wanted: Any) -> Row | None:
    """The measured row with these values."""
    found = [row for row in rows if "note" not in row and all(row.get(key) == each for key, each in wanted.items())]
    return found[-1] if found else None


def cost(rows: Iterable[Row], **wanted: Any) -> float | None:
    """The median of the row with these values, in microseconds."""
    row = pick(rows, **wanted)
    return float(row["us"]) if row else None


def ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def shapes_of(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row["shape"] for row in rows if "shape" in row))


# --- tables ------------------------------------------------------------------------------------------------------


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = "|" + "|".join("---" if number == 0 else "---:" for number in range(len(head))) + "|"
    return "\n".join(["| " + " | ".join(head) + " |", rule, *("| " + " | ".join(line) + " |" for line in lines)])


def number(value: float | None, unit: str = "", digits: int = 2) -> str:
    """`value` with `digits` digits that count; a dash where there is none."""
    if value is None:
        return "–"
    if value == 0:
        return f"0{unit}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{round(value, places):,.{places}f}{unit}"


def times(value: float | None) -> str:
    return number(value, "×")


def machine() -> str:
    """What was measured on."""
    facts = json.loads((RESULTS / "streaming.json").read_text(encoding="utf-8"))["machine"]
    return (
        f"CPython {facts['python']}, {facts['system']}, {facts['cores']} cores, transformers {facts['transformers']};"
        f" load of the machine at the end of the streaming run: {facts['load'][0] if facts['load'] else 'unknown'}."
    )


def streaming() -> str:
    rows = load("streaming")
    lines = []
    for shape in shapes_of(rows):
        for which in TEMPLATES:
            at = {"shape": shape, "template": which, "kind": "message", "chunk": 4}
            ours = cost(rows, **at, size=10_000, engine="ours")
            native = cost(rows, **at, size=10_000, engine="native")
            ours_long = cost(rows, **at, size=1_000_000, engine="ours")
            native_long = cost(rows, **at, size=1_000_000, engine="native")
            floor = cost(rows, **at, size=10_000, engine="floor")
            lines.append(
                [
                    f"{shape}, {which}",
                    number(floor),
                    number(ours),
                    times(ratio(ours, floor)),
                    number(native),
                    times(ratio(native, ours)),
                    number(ours_long),
                    number(native_long, digits=3),
                    times(ratio(native_long, ours_long)),
                    times(ratio(ours_long, ours)),
                ]
            )
    head = ["µs a chunk of 4", "floor", "ours", "ours/floor", "native", "native/ours", "ours, 1 MB", "native, 1 MB"]
    return table([*head, "native/ours, 1 MB", "ours, 1 MB/10 KB"], lines) + notes(rows)


def notes(rows: Iterable[Row]) -> str:
    """What could not be timed, and why."""
    found = dict.fromkeys(
        f"{row.get('shape', '')}, {row.get('template', '')}: {row['note']}".replace("|", "\\|").lstrip(", :")
        for row in rows
        if "note" in row
    )
    return "".join(f"\n\nNot timed: {note}." for note in found)


def small_chunks() -> str:
    rows = load("streaming")
    lines = []
    for shape in shapes_of(rows):
        for which in TEMPLATES:
            text = {"shape": shape, "template": which, "kind": "text", "chunk": 4, "size": 10_000}
            tame = {**text, "kind": "text without <"}
            tame_ours, tame_floor = cost(rows, **tame, engine="ours"), cost(rows, **tame, engine="floor")
            single = {"shape": shape, "template": which, "kind": "message", "chunk": 1, "size": 10_000}
            four = {**single, "chunk": 4}
            floor = cost(rows, **text, engine="floor")
            ours = cost(rows, **text, engine="ours")
            one = cost(rows, **single, engine="ours")
            native_one = cost(rows, **single, engine="native")
            lines.append(
                [
                    f"{shape}, {which}",
                    number(ours),
                    times(ratio(ours, floor)),
                    times(ratio(tame_ours, tame_floor)),
                    number(one),
                    times(ratio(one, cost(rows, **four, engine="ours"))),
                    number(native_one),
                    times(ratio(native_one, one)),
                ]
            )
    head = ["10 KB", "text only, µs a chunk", "over the floor", "over the floor without `<`", "1 character, µs a call"]
    return table([*head, "over chunks of 4", "native, 1 character", "native/ours"], lines)


def harmony() -> str:
    rows = [row for row in load("streaming") if row.get("kind") == "tokens"]
    if not rows:
        return "openai-harmony's vocabulary was not there."
    lines = []
    for size in dict.fromkeys(row["size"] for row in rows):
        for engine, which in dict.fromkeys((row["engine"], row["template"]) for row in rows):
            us = cost(rows, size=size, engine=engine, template=which)
            floor = cost(rows, size=size, engine="floor")
            if us is not None:
                label = f"{engine}, {which}" if which else engine
                lines.append([label, f"{size:,}", number(us), times(ratio(us, floor))])
    return table(["engine", "characters", "µs a token", "over the floor"], lines)


def one_shot() -> str:
    rows = load("one_shot")
    lines = []
    for shape in shapes_of(row for row in rows if row.get("kind") == "message"):
        for which in TEMPLATES:
            line = [f"{shape}, {which}"]
            for size in (1_000, 10_000, 1_000_000):
                at = {"shape": shape, "template": which, "kind": "message", "size": size}
                ours, native = cost(rows, **at, engine="ours"), cost(rows, **at, engine="native")
                line += [number(ours), times(ratio(native, ours))]
            lines.append(line)
    head = ["µs a message", "1 KB", "native/ours", "10 KB", "native/ours", "1 MB", "native/ours"]
    return table(head, lines) + notes(rows)


def beside_find() -> str:
    rows = load("one_shot")
    lines = []
    for kind in ("prose with <", "prose without <"):
        at = {"kind": kind, "size": 1_000_000}
        find = cost(rows, **at, engine="str.find")
        for engine in ("ours", "native"):
            for which in TEMPLATES:
                us = cost(rows, **at, engine=engine, template=which)
                lines.append([f"{kind.replace('<', '`<`')}: {engine}, {which}", number(us), times(ratio(us, find))])
    return table(["1 MB of prose, Qwen3", "µs", "over one `str.find`"], lines)


def batch() -> str:
    rows = load("batch")
    lines = []
    for shape in shapes_of(rows):
        for which in TEMPLATES:
            at = {"shape": shape, "template": which}
            ours, native = cost(rows, **at, engine="ours"), cost(rows, **at, engine="native")
            lines.append([f"{shape}, {which}", number(ours), number(native), times(ratio(native, ours))])
    return table(["µs a message, 10,000 messages", "ours", "native", "native/ours"], lines) + notes(rows)


def many_streams() -> str:
    rows = load("many_streams")
    lines = []
    for shape in shapes_of(rows):
        for which in TEMPLATES:
            at = {"shape": shape, "template": which}
            ours = cost(rows, **at, kind="interleaved", engine="ours")
            native = cost(rows, **at, kind="interleaved", engine="native")
            line = [f"{shape}, {which}", number(ours), times(ratio(native, ours))]
            for fed in (0, 400, 10_000):
                for engine in ("ours", "native"):
                    row = pick(rows, **at, kind="memory", fed=fed, engine=engine)
                    line.append(f"{row['bytes']:,}" if row else "–")
            lines.append(line)
    head = ["10,000 streams", "ours, µs a chunk", "native/ours", "bytes, new", "native", "bytes, 400 characters fed"]
    return table([*head, "native", "bytes, 10,000 fed", "native"], lines) + notes(rows)


def prefix() -> str:
    rows = load("prefix")
    lines = []
    for shape in shapes_of(rows):
        for which in TEMPLATES:
            at = {"kind": "empty prefix", "shape": shape, "template": which}
            line = [cost(rows, **at, engine=engine) for engine in ("ours", "ours, from a dict", "native")]
            lines.append([f"{shape}, {which}", *map(number, line)])
    parts = [table(["µs to make a parser, empty prefix", "ours", "ours, template as a dict", "native"], lines)]
    for kind, label in (("text prefix", "words, as text"), ("ids prefix", "words, as ids")):
        lengths = list(dict.fromkeys(row["length"] for row in rows if row.get("kind") == kind and "length" in row))
        lines = [
            [f"{length:,}"]
            + [number(cost(rows, kind=kind, length=length, engine=engine)) for engine in ("ours", "native")]
            for length in lengths
        ]
        if lines:
            parts.append(table([f"µs to make a parser, prompt of … {label}", "ours", "native"], lines))
    return "\n\n".join(parts) + notes(rows)


def token_ids() -> str:
    rows = load("token_ids")
    engines = ("ours", "ours, token_delimiters", "ours, offsets", "TextIteratorStreamer", "native")
    lines = []
    for tokenizer in dict.fromkeys(row["tokenizer"] for row in rows if "us" in row):
        for size in dict.fromkeys(row["size"] for row in rows):
            at = {"tokenizer": tokenizer, "size": size}
            found = [pick(rows, **at, engine=engine) for engine in engines]
            line = [number(cost(rows, **at, engine=engine)) for engine in ("decode", "parse")]
            for row in found:
                over = f" ({times(row['over_both'])})" if row and "over_both" in row else ""
                line.append(number(row["us"] if row else None, digits=3) + over)
            lines.append([f"{tokenizer}, {size // 1000} KB", *line])
    missing = dict.fromkeys(f"\n\nNot timed: {row['tokenizer']}: {row['note']}." for row in rows if "note" in row)
    return table(["µs an id", "decode", "parse", *engines], lines) + "".join(missing)


def imports() -> str:
    rows = load("import_time")
    start = next((row["ms"] for row in rows if row["statement"] == "interpreter" and "ms" in row), None)
    lines = [
        [
            f"`{row['statement']}`" if row["statement"].startswith("import") else row["statement"],
            number(row["ms"], digits=3),
            number(row["ms"] - start, digits=3) if start else "–",
        ]
        for row in rows
        if "ms" in row
    ]
    return table(["statement", "ms", "over the interpreter"], lines) + notes(
        {"shape": row["statement"], **row} for row in rows
    )


def hostile() -> str:
    rows = [row for row in load("hostile") if row["engine"] == "ours" and "template" in row]
    lines = []
    for name in dict.fromkeys(row["template"] for row in rows):
        line = [name]
        for row in (row for row in rows if row["template"] == name):
            slowest = next(iter(row["slowest_ns_per_character"].items()))
            steepest = next(iter(row["steepest_growth"].items()))
            line += [f"{slowest[1] / 1000:.2f} ({words(slowest[0])})", f"{steepest[1]:.1f}"]
        lines.append(line)
    head = ["template", "whole: slowest, µs a character", "growth", "chunks of 4", "growth", "1 character", "growth"]
    return table(head, lines)


def words(name: str) -> str:
    return name.replace("_", " ")


def contents() -> str:
    rows = [row for row in load("hostile") if "content" in row]
    lines = []
    for row in rows:
        slowest = next(iter(row["slowest_ns_per_character"].items()))
        steepest = next(iter(row["steepest_growth"].items()))
        lines.append([row["content"], f"{slowest[1] / 1000:.2f} ({words(slowest[0])})", f"{steepest[1]:.1f}"])
    return table(["content parser alone", "slowest, µs a character", "growth"], lines)


def hostile_native() -> str:
    rows = [row for row in load("hostile") if row["engine"] == "native"]
    lines = []
    for row in rows:
        ended = row["over_the_limit"]
        shown = f"{len(ended)}: {', '.join(map(words, ended[:3]))}{' …' if len(ended) > 3 else ''}" if ended else "0"
        ratios = row["native_over_ours"]
        most = next(iter(ratios["most"].items()), ("", None))
        least = next(iter(ratios["least"].items()), ("", None))
        lines.append(
            [
                f"{row['shape']}, {row['template']}, {row['cut']}",
                shown,
                times(ratios["median"]),
                f"{times(most[1])} ({words(most[0])})",
                f"{times(least[1])} ({words(least[0])})",
            ]
        )
    limit = rows[0]["limit_s"] if rows else 0
    size = rows[0]["size"] if rows else 0
    head = [f"{size:,} characters", f"native over {limit:g} s", "native/ours, median of the rest", "most", "least"]
    return table(head, lines)


# --- goals -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Goal:
    """A goal, what was measured (the worst of all families and templates), and where that was."""

    text: str
    measured: float | None
    where: str
    met: Callable[[float], bool]

    def line(self) -> list[str]:
        verdict = "not measured" if self.measured is None else "met" if self.met(self.measured) else "**not met**"
        return [self.text, number(self.measured, digits=3), self.where, verdict]


def at_most(limit: float) -> Callable[[float], bool]:
    return lambda value: value <= limit


def at_least(limit: float) -> Callable[[float], bool]:
    return lambda value: value >= limit


def extreme(
    choose: Callable[..., tuple[float, str]], found: Iterable[tuple[float | None, str]]
) -> tuple[float | None, str]:
    """The least or greatest of what was measured, and where."""
    measured = [(value, where) for value, where in found if value is not None]
    return choose(measured) if measured else (None, "")


def goals() -> str:
    rows = load("streaming")
    pairs = [(shape, which) for shape in shapes_of(rows) for which in TEMPLATES]

    def streamed(kind: str, chunk: int, size: int, engine: str, shape: str, which: str) -> float | None:
        return cost(rows, shape=shape, template=which, kind=kind, chunk=chunk, size=size, engine=engine)

    def over(choose: Any, above: Callable[[str, str], float | None], below: Callable[[str, str], float | None]) -> Any:
        return extreme(choose, ((ratio(above(*pair), below(*pair)), ", ".join(pair)) for pair in pairs))

    def of(kind: str, chunk: int, size: int, engine: str) -> Callable[[str, str], float | None]:
        return lambda shape, which: streamed(kind, chunk, size, engine, shape, which)

    short, long, text = ("message", 4, 10_000), ("message", 4, 1_000_000), ("text", 4, 10_000)

    def native_plain(size: int) -> Callable[[str, str], float | None]:
        return lambda shape, _: streamed("message", 4, size, "native", shape, "plain")

    found = [
        Goal("text regions over the floor, ≤ 2", *over(max, of(*text, "ours"), of(*text, "floor")), at_most(2)),
        Goal(
            "text regions without a `<` over the floor, ≤ 2",
            *over(max, of("text without <", 4, 10_000, "ours"), of("text without <", 4, 10_000, "floor")),
            at_most(2),
        ),
        Goal("message over the floor, ≤ 4", *over(max, of(*short, "ours"), of(*short, "floor")), at_most(4)),
        Goal("native over ours, 10 KB, ≥ 5", *over(min, of(*short, "native"), of(*short, "ours")), at_least(5)),
        Goal(
            "the same, native always with the plain template",
            *over(min, native_plain(10_000), of(*short, "ours")),
            at_least(5),
        ),
        Goal("native over ours, 1 MB, ≥ 40", *over(min, of(*long, "native"), of(*long, "ours")), at_least(40)),
        Goal(
            "the same, native always with the plain template",
            *over(min, native_plain(1_000_000), of(*long, "ours")),
            at_least(40),
        ),
        Goal("ours, 1 MB over 10 KB, ≤ 1.2", *over(max, of(*long, "ours"), of(*short, "ours")), at_most(1.2)),
        Goal(
            "1 character a call over 4 characters, ≤ 1 (no worse)",
            *over(max, of("message", 1, 10_000, "ours"), of(*short, "ours")),
            at_most(1.0),
        ),
        *_other_goals(),
    ]
    return table(["goal", "worst measured", "where", ""], [goal.line() for goal in found])


def _other_goals() -> list[Goal]:
    shot, batches, streams, made = load("one_shot"), load("batch"), load("many_streams"), load("prefix")

    def natively(rows: list[Row], keys: Sequence[str], **wanted: Any) -> Iterable[tuple[float | None, str]]:
        for row in rows:
            if row.get("engine") == "ours" and "us" in row and all(row.get(key) == wanted[key] for key in wanted):
                same = {key: row[key] for key in keys}
                where = ", ".join(str(each) for key, each in same.items() if key != "kind")
                yield ratio(cost(rows, **same, engine="native"), row["us"]), where

    shot_keys = ("shape", "template", "kind", "size")
    find = cost(shot, kind="prose without <", size=1_000_000, engine="str.find")
    memory = [row for row in streams if row.get("kind") == "memory" and row["engine"] == "ours" and "bytes" in row]
    growths = [
        (next(iter(row["steepest_growth"].values())), f"{row.get('template') or row.get('content')}")
        for row in load("hostile")
        if row["engine"] == "ours"
    ]
    ids = [row for row in made if row.get("kind") == "ids prefix" and row["engine"] == "ours" and "us" in row]
    by_length = {row["length"]: row["us"] for row in ids}
    by_ids = [row for row in load("token_ids") if "us" in row and str(row["engine"]).startswith("ours")]
    starts = [row for row in made if row.get("kind") == "empty prefix" and row["engine"] == "ours"]
    statements = {row["statement"]: row["ms"] for row in load("import_time") if "ms" in row}

    def import_cost(statement: str, over: str) -> float | None:
        return statements[statement] - statements[over] if statement in statements and over in statements else None

    patterned = natively(shot, shot_keys, kind="message", template="registry")
    return [
        Goal("one shot, native over ours, ≥ 1", *extreme(min, natively(shot, shot_keys, kind="message")), at_least(1)),
        Goal("one shot, templates with patterns, ≥ 3", *extreme(min, patterned), at_least(3)),
        Goal(
            "1 MB of prose over `str.find`",
            ratio(cost(shot, kind="prose without <", size=1_000_000, engine="ours", template="registry"), find),
            "Qwen3, registry",
            at_most(10),
        ),
        Goal("batch, native over ours, ≥ 2", *extreme(min, natively(batches, ("shape", "template"))), at_least(2)),
        Goal(
            "a parser, empty prefix, µs, ≤ 5",
            *extreme(max, ((row["us"], f"{row['shape']}, {row['template']}") for row in starts)),
            at_most(5),
        ),
        Goal(
            "prefix of 100,000 ids over 100, ≤ 1.5", ratio(by_length.get(100_000), by_length.get(100)), "", at_most(1.5)
        ),
        Goal(
            "bytes an idle stream, ≤ 2,048",
            *extreme(max, ((row["bytes"], f"{row['shape']}, {row['template']}, {row['fed']} fed") for row in memory)),
            at_most(2048),
        ),
        Goal(
            "ids in, events out, over decoding and parsing, ≤ 1.5",
            *extreme(max, ((row.get("over_both"), f"{row['tokenizer']}, {row['size']}") for row in by_ids)),
            at_most(1.5),
        ),
        Goal("hostile text, growth at twice the length, ≤ 3 (by time)", *extreme(max, growths), at_most(3)),
        Goal(
            "`import response_templates`, ms over the interpreter, ≤ 60",
            import_cost("import response_templates", "interpreter"),
            "",
            at_most(60),
        ),
        Goal(
            "the same and the parser, ms over the interpreter, ≤ 60",
            import_cost("… and the parser", "interpreter"),
            "",
            at_most(60),
        ),
        Goal(
            "the plugin over transformers alone, ms, ≤ 60",
            import_cost("the plugin, transformers and its tokenizers", "… and its tokenizers"),
            "",
            at_most(60),
        ),
    ]


# --- plots -------------------------------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 820, 420, 70, 240, 40, 50


@dataclass(frozen=True)
class Line:
    """A line of a plot: points with logarithmic axes."""

    label: str
    color: str
    points: tuple[tuple[float, float], ...]
    dashed: bool = False


def log_log(title: str, across: str, up: str, lines: Sequence[Line]) -> str:
    """A plot as SVG."""
    points = [point for line in lines for point in line.points]
    if not points:
        return "<svg xmlns='http://www.w3.org/2000/svg'/>\n"
    low_x, high_x = _decades(x for x, _ in points)
    low_y, high_y = _decades(y for _, y in points)

    def place(x: float, y: float) -> tuple[float, float]:
        right = LEFT + (math.log10(x) - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT)
        down = HEIGHT - BOTTOM - (math.log10(y) - low_y) / (high_y - low_y) * (HEIGHT - TOP - BOTTOM)
        return round(right, 1), round(down, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        ' font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{html.escape(title)}</text>',
    ]
    for power in range(low_x, high_x + 1):
        x, bottom = place(10.0**power, 10.0**low_y)
        parts.append(f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{_power(power)}</text>')
    for power in range(low_y, high_y + 1):
        left, y = place(10.0**low_x, 10.0**power)
        parts.append(f'<line x1="{left}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{_power(power)}</text>')
    middle = (LEFT + WIDTH - RIGHT) // 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{html.escape(across)}</text>')
    half = (TOP + HEIGHT - BOTTOM) // 2
    parts.append(
        f'<text x="16" y="{half}" text-anchor="middle" transform="rotate(-90 16 {half})">{html.escape(up)}</text>'
    )
    taken: list[float] = []
    for line in sorted(lines, key=lambda line: line.points[-1][1], reverse=True):
        places = [place(x, y) for x, y in line.points]
        path = " ".join(f"{x},{y}" for x, y in places)
        dash = ' stroke-dasharray="5 3"' if line.dashed else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{line.color}" stroke-width="1.8"{dash}/>')
        parts += [f'<circle cx="{x}" cy="{y}" r="2.5" fill="{line.color}"/>' for x, y in places]
        label = places[-1][1] + 4
        while any(abs(label - other) < 13 for other in taken):
            label += 1
        taken.append(label)
        parts.append(f'<text x="{WIDTH - RIGHT + 8}" y="{label}" fill="{line.color}">{html.escape(line.label)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _decades(values: Iterable[float]) -> tuple[int, int]:
    found = list(values)
    low, high = math.floor(math.log10(min(found))), math.ceil(math.log10(max(found)))
    return low, max(high, low + 1)


def _power(power: int) -> str:
    if 0 <= power <= 6:
        return f"{10**power:,}"
    return f"{10.0**power:g}"


COLORS = {"ours": "#0b6bcb", "native": "#c2410c", "floor": "#555555"}


def streaming_plot(which: str) -> str:
    rows = load("streaming")
    lines = []
    for shape in shapes_of(rows):
        for engine in ("ours", "native", "floor"):
            if engine == "floor" and shape != shapes_of(rows)[0]:
                continue
            points = tuple(
                (float(size), us)
                for size in (1_000, 10_000, 100_000, 1_000_000)
                if (us := cost(rows, shape=shape, template=which, kind="message", chunk=4, size=size, engine=engine))
            )
            if points:
                label = "floor" if engine == "floor" else f"{engine}, {shape}"
                lines.append(Line(label, COLORS[engine], points, engine == "floor"))
    title = f"Cost of a chunk of 4 characters against the message's length ({which} templates)"
    return log_log(title, "characters in the message", "µs a chunk", lines)


def prefix_plot() -> str:
    rows = load("prefix")
    lines = []
    for kind, dashed in (("text prefix", True), ("ids prefix", False)):
        for engine in ("ours", "native"):
            points = tuple(
                (float(row["length"]), float(row["us"]))
                for row in rows
                if row.get("kind") == kind and row.get("engine") == engine and "us" in row
            )
            if points:
                lines.append(Line(f"{engine}, {kind}", COLORS[engine], points, dashed))
    return log_log("Making a parser against the prompt's length", "words in the prompt", "µs a parser", lines)


def hostile_plot() -> str:
    rows = [row for row in load("hostile") if row["engine"] == "ours" and "template" in row]
    lines = []
    palette = {"whole": "#0b6bcb", "in fours": "#15803d", "single characters": "#9333ea"}
    for cut, color in palette.items():
        ranked = sorted((row for row in rows if row["cut"] == cut), key=lambda row: -row["seconds_of_the_slowest"][-1])
        for row in ranked[:3]:
            points = tuple(
                (row["size"] / 4 * factor, seconds * 1000)
                for factor, seconds in zip((1, 2, 4), row["seconds_of_the_slowest"], strict=True)
            )
            lines.append(Line(f"{row['template']}, {cut}", color, points))
    return log_log("The slowest hostile texts", "characters", "milliseconds", lines)


# --- the page ----------------------------------------------------------------------------------------------------


def snapshots() -> str:
    rows = load("snapshots")
    engines = ("ours, events only", "ours", "ours, read", "jiter, from the start")
    lines = []
    for shape in shapes_of(rows):
        for size in dict.fromkeys(row["size"] for row in rows):
            costs = [cost(rows, shape=shape, size=size, engine=engine) for engine in engines]
            lines.append([shape, f"{size:,}", *map(number, costs)])
    head = ["µs a chunk", "characters", "events only", "a snapshot each", "and its message", "jiter, from the start"]
    return table(head, lines)


SECTIONS: dict[str, Callable[[], str]] = {
    "snapshots": snapshots,
    "machine": machine,
    "goals": goals,
    "streaming": streaming,
    "small chunks": small_chunks,
    "harmony": harmony,
    "one shot": one_shot,
    "beside find": beside_find,
    "batch": batch,
    "many streams": many_streams,
    "prefix": prefix,
    "import": imports,
    "token ids": token_ids,
    "hostile": hostile,
    "contents": contents,
    "hostile native": hostile_native,
}
_BLOCK = re.compile(r"(<!-- results: ([\w ]+) -->\n)(?:(?!<!-- end -->).)*(<!-- end -->)", re.DOTALL)


def pages() -> dict[Path, str]:
    """All files that are made from the results, as text."""
    page = _BLOCK.sub(lambda found: f"{found[1]}\n{SECTIONS[found[2]]()}\n\n{found[3]}", PAGE.read_text("utf-8"))
    return {
        PAGE: page,
        IMAGES / "streaming-registry.svg": streaming_plot("registry"),
        IMAGES / "streaming-plain.svg": streaming_plot("plain"),
        IMAGES / "prefix.svg": prefix_plot(),
        IMAGES / "hostile.svg": hostile_plot(),
    }


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
