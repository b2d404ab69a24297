"""SPEC §5, promise 5: where the native engine parses without error or loss, the message is identical.

The native engine is a black box here. `DIFFERENCES` is the whole list of the places where the two differ on purpose,
each with its reason and the test for it; a difference that none of them explains fails.
Skipped where transformers has no native engine (before 5.13).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings

import reference
from native_texts import Kind
from response_templates import ResponseParser
from strategies import Case, grammatical_cases
from test_properties import exact

chat_parsing = pytest.importorskip("transformers.utils.chat_parsing", reason="no native engine before 5.13")

NIGHTLY = "RESPONSE_TEMPLATES_EXAMPLES" in os.environ
Message = dict[str, Any]
Event = dict[str, Any]


@dataclass(frozen=True)
class Observed:
    """One case: what the native engine made of it and what we did."""

    case: Case
    native: Message
    ours: Message
    events: list[Event]

    @property
    def keys(self) -> set[str]:
        """The keys of the message in which the two differ."""
        every = {*self.native, *self.ours}
        return {key for key in every if exact(self.native.get(key)) != exact(self.ours.get(key))}

    def only(self, keys: set[str]) -> Observed:
        """The same, looking at these keys of the message alone."""
        native = {key: value for key, value in self.native.items() if key in keys}
        ours = {key: value for key, value in self.ours.items() if key in keys}
        return Observed(self.case, native, ours, self.events)

    def field(self, name: str) -> dict[str, Any]:
        return self.case.template["fields"].get(name, {})

    def values(self, name: str) -> list[Any]:
        """The values of the field's regions, in order."""
        return [e["value"] for e in self.events if e["type"] == "region_close" and e["field"] == name]


def calls_only(seen: Observed) -> bool:
    """Nothing but calls differs, and what the native engine has there is more, or not well-formed."""
    malformed = seen.ours.get("malformed", [])
    return seen.keys <= {"tool_calls", "malformed"} and all(item["field"] == "tool_calls" for item in malformed)


def cut_off(seen: Observed) -> bool:
    """A call is malformed because nothing closed it."""
    malformed = seen.ours.get("malformed", [])
    return calls_only(seen) and any(item["error"].endswith("so it may be incomplete") for item in malformed)


def not_well_formed(seen: Observed) -> bool:
    return calls_only(seen) and "function" in (seen.field("tool_calls").get("transform") or {})


def overwritten(seen: Observed) -> bool:
    def lost(name: str) -> bool:
        values = [seen.case.template["defaults"].get(name), *seen.values(name)]
        empty_last = reference.is_empty(values[-1]) and not all(map(reference.is_empty, values))
        return not seen.field(name).get("repeats", False) and empty_last

    return bool(seen.keys) and all(lost(name) for name in seen.keys)


def close_in_string(seen: Observed) -> bool:
    """Reading the text as if no body had strings finds other regions."""
    case = seen.case
    spans = reference.reference_parse(case.template, case.text, case.prefix)[2]
    with mock.patch.object(reference, "strings", lambda field, body: []):
        return spans != reference.reference_parse(case.template, case.text, case.prefix)[2]


def held_beginning(seen: Observed) -> bool:
    """The text ends with the beginning of a close, which is no part of a structured body."""
    case = seen.case
    spans = reference.reference_parse(case.template, case.text, case.prefix)[2]
    if not spans or spans[-1].kind != "delimiter" or case.prefix:
        return False
    last = spans[-1]
    fields = reference.load_template(case.template).fields.values()
    found = [d.find(case.text, last.start) for f in fields for d in reference.delimiters(f, "close")]
    return not any(f is not None and (f.start, f.end) == (last.start, last.end) for f in found)


DIFFERENCES = (
    Kind(
        "a call that was cut off",
        "The generation ended inside it: a client would run a call that the model never made. Malformed here.",
        cut_off,
    ),
    Kind(
        "calls that are not well-formed",
        "Clients and chat templates crash on them: they are mended where the meaning is plain, else malformed.",
        not_well_formed,
    ),
    Kind(
        "an empty region after one with content",
        "The native engine overwrites the content with nothing; here an empty value never replaces one with content.",
        overwritten,
    ),
    Kind(
        "a close inside a string",
        "A close delimiter inside a string of a JSON body or a call list is text here; the native engine closes there.",
        close_in_string,
    ),
    Kind(
        "the beginning of a close at the very end",
        "It is no part of a structured body here; for the native engine it is.",
        held_beginning,
    ),
)


def explained(seen: Observed) -> bool:
    """Does a difference of the list explain it, or one what differs in the calls and another one the rest?"""
    calls = {"tool_calls", "malformed"}
    parts = [seen.only(calls), seen.only(seen.keys - calls)]
    return any(difference.explains(seen) for difference in DIFFERENCES) or all(
        any(difference.explains(part) for difference in DIFFERENCES) for part in parts if part.keys
    )


def matches_empty(case: Case) -> bool:
    """A pattern that can match nothing: the native engine may then never end, or open regions without end."""
    fields = case.template["fields"].values()
    patterns = [field[key] for field in fields for key in ("open_pattern", "close_pattern") if key in field]
    return any(
        found.start() == found.end()
        for pattern in patterns
        for found in reference.compiled(pattern).finditer(case.text, overlapped=True)
    )


def observe(case: Case) -> Observed | None:
    """Both engines on `case`; None where the native one raises."""
    try:
        native = chat_parsing.parse_response(case.text, case.template, prefix=case.prefix)
    except Exception:  # whatever it is, there is nothing to compare with
        return None
    parser = ResponseParser(case.template, prefix=case.prefix, errors="recover")
    events = list(parser.initial_events) + parser.feed(case.text)
    message, last = parser.finalize()
    return Observed(case, native, message, events + last)


@settings(
    max_examples=int(os.environ.get("RESPONSE_TEMPLATES_EXAMPLES", "300")),
    deadline=None,
    derandomize=not NIGHTLY,
    database=None,
    print_blob=NIGHTLY,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(grammatical_cases().filter(lambda case: not matches_empty(case)))
def test_the_native_engine_gives_the_same_message(case: Case) -> None:
    seen = observe(case)
    if seen is None or not seen.keys:
        return
    assert explained(seen), (sorted(seen.keys), seen.native, seen.ours)


# --- each difference, shown ------------------------------------------------------------------------------------------

CALLS = {"open": "<a>", "close": "</a>", "content": "json", "transform": {"type": "function", "function": "{content}"}}
SHOWN = {
    "a call that was cut off": Case(
        {
            "version": 1,
            "defaults": {},
            "start_anchor": "@",
            "fields": {"tool_calls": {"open": "<a>", "close": "</a>", "content": "kv-lines"}},
        },
        "",
        "<a>k: 1\nm: 2",
    ),
    "calls that are not well-formed": Case(
        {"version": 1, "defaults": {}, "start_anchor": "@", "fields": {"tool_calls": CALLS}}, "", '<a>{"name": "f"}</a>'
    ),
    "an empty region after one with content": Case(
        {"version": 1, "defaults": {}, "start_anchor": "@", "fields": {"x": {}, "y": {"open": "<a>", "close": "</a>"}}},
        "",
        "x<a>y</a>\n",
    ),
    "a close inside a string": Case(
        {
            "version": 1,
            "defaults": {},
            "start_anchor": "@",
            "fields": {
                "x": {"open": "<a>", "close": "</a>", "content": "json", "content_args": {"allow_non_json": True}}
            },
        },
        "",
        '<a>{"k": "</a>"}</a>',
    ),
    "the beginning of a close at the very end": Case(
        {
            "version": 1,
            "defaults": {},
            "start_anchor": "@",
            "fields": {
                "x": {"open": "<a>", "close": "</a>", "content": "json", "content_args": {"allow_non_json": True}}
            },
        },
        "",
        '<a>{"k": 1}</',
    ),
}


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.name)
def test_a_listed_difference_is_there(difference: Kind) -> None:
    """A difference that went away upstream has to leave the list."""
    seen = observe(SHOWN[difference.name])
    assert seen is not None
    assert seen.keys
    assert difference.explains(seen)


def test_every_difference_is_in_the_docs() -> None:
    docs = (Path(__file__).resolve().parent.parent / "docs" / "differences.md").read_text(encoding="utf-8")
    assert [each.name for each in DIFFERENCES if f"| {each.name} |" not in docs] == []
