"""The conformance measurement on a sample, and that its pages claim nothing that the registry doesn't do.

All of it takes minutes and is a script (`scripts/conformance.py`), whose result is `docs/conformance.json`; here a
sample is measured anew, and what is quick is compared for every row.
"""

from __future__ import annotations

import functools
import json
import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import hub_coverage
import materials
import native_texts
import rendering
import suite_results
from domains import domains
from rendering import Turn
from response_templates.registry import get_template, list_templates, template_for
from roundtrip import Mismatch

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "scripts"))
import conformance_pages  # noqa: E402

pytest.importorskip("jinja2")
logging.getLogger("transformers").setLevel(logging.ERROR)

RERUN = "run `python scripts/conformance.py --only NAME` for the templates that changed"
SAMPLE = (
    "Qwen-Qwen3-0.6B",
    "Qwen3-Coder",
    "zai-org-GLM-4.5-Air",
    "google-gemma-4-31B-it",
    "01-ai-Yi-1.5-9B-Chat",
    "MiniMax-M2",
)


@functools.cache
def result() -> dict[str, Any]:
    return dict(json.loads((ROOT / "docs" / "conformance.json").read_text(encoding="utf-8")))


@functools.cache
def hub() -> dict[str, materials.ChatTemplate]:
    return {entry.name: entry for entry in materials.hub_chat_templates()}


# --- the sample ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLE)
def test_a_chat_template_measured_anew(name: str) -> None:
    row = {each["name"]: each for each in result()["hub"]}[name]
    now = hub_coverage.measured(hub()[name], examples=10)
    assert (now["wrong"], hub_coverage.verdict(now)) == ("", hub_coverage.verdict(row))
    same = ("name", "downloads", "reasoning", "calls", "opens", "answer", "by", "probes")
    assert {key: now[key] for key in same} == {key: row[key] for key in same}


def test_a_wrong_template_is_found_out() -> None:
    entry = get_template("gpt-oss")
    qwen = hub()["Qwen-Qwen3-0.6B"]
    done = hub_coverage.tried(entry, qwen.text, qwen.id, examples=5)
    row = {"answer": entry.name, "wrong": done.wrong, "probes": done.probes, "drawn": done.drawn}
    assert hub_coverage.verdict(row) == "wrong"


def test_an_answer_of_which_nothing_can_be_tried_is_no_success() -> None:
    assert hub_coverage.verdict({"answer": "qwen3", "wrong": "", "probes": 0, "drawn": 0}) == "wrong"
    assert hub_coverage.verdict({"answer": "", "wrong": "", "probes": 0, "drawn": 0}) == "none"


def test_a_loss_counts_as_wrong_where_the_answer_does_not_name_it() -> None:
    row = {"answer": "lfm2", "wrong": "", "probes": 9, "drawn": 9, "garbled": 2}
    assert hub_coverage.verdict(row | {"loss": "strings"}) == "lossy"
    assert hub_coverage.verdict(row | {"loss": ""}) == "wrong"


@pytest.mark.parametrize(
    ("chat_template", "reasoning", "calls", "opens"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", False, False, False),
        ("{% for m in messages %}{{ m.content }}<r>{{ m.thinking }}</r>{% endfor %}", True, False, False),
        ("{% for m in messages %}{{ m.content }}{{ (m.tool_calls or '') | string }}{% endfor %}", False, True, False),
        ("{{ messages[0].content }}{{ '<think>\n' if add_generation_prompt }}", False, False, True),
        ("{{ messages[0].content }}{{ '<think>\n\n</think>' if add_generation_prompt }}", False, False, False),
        ("{{ raise_exception('no') }}", False, False, False),
    ],
    ids=["neither", "reasoning", "calls", "opened", "opened and closed", "raises"],
)
def test_what_a_chat_template_writes(chat_template: str, reasoning: bool, calls: bool, opens: bool) -> None:
    assert hub_coverage.renders(chat_template) == hub_coverage.Renders(reasoning, calls, opens)


def test_layouts() -> None:
    assert hub_coverage.layouts("A<e>\n", ("<e>",)) == ["A<e>\n", "A<e>", "A<e>\n\n"]
    assert hub_coverage.layouts("A\n", ("<e>",)) == ["A\n"]


# --- canitoolcall ----------------------------------------------------------------------------------------------------


@functools.cache
def verdicts() -> dict[str, dict[str, Any]]:
    return {fixture.id: suite_results.judged(fixture) for fixture in suite_results.fixtures()}


def test_all_of_canitoolcall_is_as_the_page_says() -> None:
    pytest.importorskip("jsonschema")
    materials.folder("canitoolcall")
    rows = {row["id"]: row for row in result()["suite"]}
    assert len(verdicts()) == len(rows) == 469
    passed = {identifier for identifier, row in rows.items() if row["status"] == "pass"}
    assert [f"{key}: {verdicts()[key]['detail']}" for key in passed if verdicts()[key]["status"] != "pass"] == [], RERUN


def test_every_fixture_that_has_a_template_passes_or_is_listed_with_a_reason() -> None:
    pytest.importorskip("jsonschema")
    materials.folder("canitoolcall")
    listed = {identifier for domain in domains().values() for identifier in domain.soft}
    left = {key for key, row in verdicts().items() if row["template"] and row["status"] != "pass"}
    assert left <= listed


# --- the native engine -----------------------------------------------------------------------------------------------


def test_no_difference_from_the_native_engine_is_unexplained() -> None:
    counts = [row["native"].get("unexplained", 0) for key in ("hub", "suite", "plain") for row in result()[key]]
    assert sum(counts) == 0
    assert sum(row["native"].get("same", 0) for key in ("hub", "suite", "plain") for row in result()[key]) > 10_000


CALLS_FIELD = {"open_pattern": r"<c>(?P<id>\d+)?", "close": "</c>", "content": "json"}


def pair(ours: dict[str, Any], theirs: dict[str, Any], failed: str = "", output: str = "") -> native_texts.Pair:
    template = {"fields": {"tool_calls": CALLS_FIELD}}
    return native_texts.Pair(native_texts.Text(output, "", []), template, ours, theirs, failed)


def calls(*functions: Any, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"type": "function", "function": function} for function in functions], **more}


def f(**arguments: Any) -> dict[str, Any]:
    return {"name": "f", "arguments": arguments}


ONE, OTHER = f(a=1), {"name": "g", "arguments": {}}
CUT = [{"error": "x, so it may be incomplete"}]
BAD = [{"error": "no JSON"}]
NO_ID = "KeyError: \"transform placeholder '{id}' is not defined. Available: ['name']\""
NO_LIST = "ValueError: python-call-list: expected '[' at position 0."
NO_KEY = "ValueError: transform placeholder '{content.parameters}' is missing key 'parameters'. Available: ['name']"
NO_STRING = "ValueError: python-call-list: invalid string at position 20."
NO_JSON = "ValueError: json: could not parse after dialect transforms."
WITH_ID = {"tool_calls": [{"id": "1", "type": "function", "function": ONE}]}

DIFFERENT = [
    (pair(calls(ONE), calls(ONE)), "same"),
    (pair(calls(malformed=CUT), calls(ONE)), "a call that was cut off"),
    (pair(calls(ONE, malformed=CUT), calls(ONE, OTHER)), "a call that was cut off"),
    (pair(calls(malformed=CUT), {}, "ValueError: no"), "a call that was cut off"),
    (pair(calls(malformed=BAD), {}, "ValueError: no"), "a malformed region"),
    (pair(calls(ONE, malformed=BAD), calls(ONE, {"name": 1})), "a malformed region"),
    (pair(calls(ONE), {}, NO_ID), "a part that is not there"),
    (pair(calls(ONE), {}, NO_KEY, '{"arguments": {}}'), "the other key for the arguments"),
    (pair(calls(f(a="x\ny")), {}, NO_STRING, "[f(a='x\ny')]"), "a line break in a Python string"),
    (pair(calls(ONE), {}, NO_LIST), "Python calls without brackets"),
    (pair(calls(f(a=None)), {}, NO_JSON, "<c>{a: None}</c>"), "a word of Python in JSON"),
    (pair(calls(f(**{"a b": 1})), {}, NO_JSON, "<c>{a b: 1}</c>"), "a bare key that is no identifier"),
    (pair(calls(f(a="</c>")), {}, "ValueError: no JSON"), "a delimiter in a string"),
    (pair(calls(f(a=[{"b": "x</c>y"}])), {}, "ValueError: no JSON"), "a delimiter in a string"),
    (pair(calls(ONE), {"tool_calls": [calls(ONE)["tool_calls"]]}), "several lists of calls"),
    (pair(WITH_ID, calls({"id": "1", **ONE})), "an id among the call's keys"),
    (pair(calls(f(**{"a&b": 1})), calls(f(**{"a&amp;b": 1}))), "entities in names"),
    (pair(calls(ONE), calls({"name": "f", "parameters": {"a": 1}})), "calls that are not well-formed"),
    (pair(calls(ONE), calls({"name": "f", "arguments": '{"a": 1}'})), "calls that are not well-formed"),
    (pair(calls(OTHER), calls({"name": "g"})), "calls that are not well-formed"),
    (pair(calls(ONE), calls([{"f": {"a": 1}}])), "calls that are not well-formed"),
    (pair(calls(ONE), calls(f(a="1"))), "types of arguments"),
    (pair(calls(f(a=[None, "x"])), calls(f(a="[None, 'x']"))), "types of arguments"),
    (pair(calls(ONE, OTHER), calls(ONE)), "text or calls that are lost natively"),
]
# What looks like one of the kinds, and isn't: each must stay unexplained.
UNEXPLAINED = {
    "an error, and nothing tells why": pair(calls(ONE), {}, "ValueError: no"),
    "an error, and text alone here": pair({"content": "a"}, {}, "ValueError: no"),
    "other text": pair({"content": "a"}, {"content": "b"}),
    "other calls": pair(calls(ONE), calls(OTHER)),
    "other calls before the one that was cut off": pair(calls(ONE, malformed=CUT), calls(OTHER, ONE)),
    "other text beside a call that was cut off": pair(calls(malformed=CUT, content="a"), calls(ONE, content="b")),
    "other text beside a malformed region": pair(calls(malformed=BAD, content="a"), calls(content="b")),
    "a placeholder of no group": pair(calls(ONE), {}, NO_ID.replace("{id}", "{other}")),
    "a part that is there": pair(WITH_ID, {}, NO_ID),
    "no other key": pair(calls(ONE), {}, NO_KEY, '{"name": "f"}'),
    "an escaped line break": pair(calls(f(a="x\ny")), {}, NO_STRING, "[f(a='x\\ny')]"),
    "no calls here": pair({}, {}, NO_LIST),
    "no word of Python": pair(calls(ONE), {}, NO_JSON, "<c>{a: 1}</c>"),
    "a call here that is none": pair(calls({"name": "f"}), {}, NO_LIST),
    "other calls in several lists": pair(calls(ONE), {"tool_calls": [calls(OTHER)["tool_calls"]]}),
    "another id": pair(WITH_ID, calls({"id": "2", **ONE})),
    "another call with the id": pair(WITH_ID, calls({"id": "1", **OTHER})),
    "mended to something else": pair(calls(ONE), calls({"name": "f", "parameters": {"a": 2}})),
    "another value than the text": pair(calls(ONE), calls(f(a="2"))),
    "an entity in a value": pair(calls(f(a="&")), calls(f(a="&amp;"))),
    "another name": pair(calls(ONE), calls({"name": "g", "arguments": {"a": "1"}})),
    "lost here": pair(calls(ONE), calls(ONE, OTHER)),
}


@pytest.mark.parametrize(("compared", "kind"), DIFFERENT)
def test_kinds_of_differences(compared: native_texts.Pair, kind: str) -> None:
    assert native_texts.kind_of(compared) == kind


@pytest.mark.parametrize("compared", UNEXPLAINED.values(), ids=UNEXPLAINED.keys())
def test_what_no_kind_explains(compared: native_texts.Pair) -> None:
    assert native_texts.kind_of(compared) == "unexplained"


def test_every_kind_is_tried() -> None:
    assert {kind for _, kind in DIFFERENT} == {"same", *(each.name for each in native_texts.KINDS)}


# --- the pages -------------------------------------------------------------------------------------------------------


def test_every_answer_of_the_page_is_what_the_registry_says() -> None:
    claimed = {row["name"]: row["answer"] for row in result()["hub"] if row["answer"]}
    now = {name: template_for(SimpleNamespace(chat_template=hub()[name].text)) for name in claimed}
    assert {name: found.name if found else "" for name, found in now.items()} == claimed, RERUN


def test_the_result_has_every_chat_template_once() -> None:
    assert [row["name"] for row in result()["hub"]] == list(hub())


def test_the_families_of_the_page_are_those_of_the_registry() -> None:
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| [")]
    families = {row[0].removeprefix("| [").split("]")[0]: row[1:3] for row in rows if "README.md#" in row[0]}
    metas = {name: get_template(name).meta for name in list_templates()}
    assert families == {
        name: [str(len(meta[key])) for key in ("fingerprints", "models")] for name, meta in metas.items()
    }


def test_the_shares_of_the_page_add_up() -> None:
    found = conformance_pages.shares(conformance_pages.writing())
    assert sum(count for count, _ in found.values()) == len(conformance_pages.writing())
    assert f"{found['right'][0]} |" in conformance_pages.coverage()


def test_an_unknown_mark_of_a_page_is_left_alone() -> None:
    text = "a\n<!-- results: other -->\nb\n<!-- end -->\n"
    assert conformance_pages.filled(text) == text


def test_the_end_of_a_prompt_is_not_taken_for_the_end_of_the_text() -> None:
    """An anchor that ends with the prompt's end would else swallow the generation."""
    source = "{% for m in messages %}<u>{{ m.content }}{% if m.role == 'assistant' %}<e>{% endif %}{% endfor %}"
    source += "{% if add_generation_prompt %}<u><think>{% endif %}"
    renderer = rendering.Renderer(source, (), r"<u>(?:[^<]*<e>\Z)?")
    turn = renderer.turn([hub_coverage.ASKS], {"role": "assistant", "content": "Yes"})
    assert turn.generation == "Yes<e>"


def test_a_mismatch_is_a_diff() -> None:
    with pytest.raises(Mismatch, match=r'(?s)-.*"a".*[+].*"b".*generation'):
        hub_coverage.roundtrip.compare({"content": "a"}, {"content": "b"}, Turn("", "b"))
