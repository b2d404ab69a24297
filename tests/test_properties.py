"""SPEC §5 as properties: the engine against itself under any split, and against the reference.

Each runs on a few hundred examples, the same ones every time; RESPONSE_TEMPLATES_EXAMPLES=20000 (scripts/nightly.py)
draws that many at random.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reference import Rejected, after_last_anchor, reference_parse
from response_templates import ParseError, ResponseParser, explain, load_template, parse_response
from strategies import Case, cases, hostile_texts, splits

NIGHTLY = "RESPONSE_TEMPLATES_EXAMPLES" in os.environ
promise = settings(
    max_examples=int(os.environ.get("RESPONSE_TEMPLATES_EXAMPLES", "300")),
    deadline=None,
    derandomize=not NIGHTLY,
    database=None,
    print_blob=NIGHTLY,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)

Event = dict[str, Any]


def exact(value: Any) -> str:
    """Equal only for equal JSON: 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True, allow_nan=False)


def merged(events: list[Event]) -> list[Event]:
    """Neighbouring chunks of one region put together."""
    result: list[Event] = []
    for event in events:
        last = result[-1] if result else event
        if result and event["type"] == last["type"] == "region_chunk" and event["field"] == last["field"]:
            assert event["dirty"] == last["dirty"]
            result[-1] = {**last, "text": last["text"] + event["text"]}
        else:
            result.append(dict(event))
    return result


def without_reasons(value: Any) -> Any:
    """Events or a message without the wording of errors."""
    if isinstance(value, list):
        return [without_reasons(item) for item in value]
    if isinstance(value, dict):
        if value.get("type") == "region_malformed":
            return {key: item for key, item in value.items() if key != "error"}
        if "malformed" in value:
            entries = [{"field": item["field"], "text": item["text"]} for item in value["malformed"]]
            return {**value, "malformed": entries}
    return value


def streamed(case: Case, chunks: list[str], errors: str = "recover") -> tuple[dict[str, Any], list[Event]]:
    """The message, and all events merged, the prefix's first."""
    parser = ResponseParser(case.template, prefix=case.prefix, errors=errors)
    events = list(parser.initial_events)
    for chunk in chunks:
        events += parser.feed(chunk)
    message, last = parser.finalize()
    return message, merged(events + last)


def outcome(case: Case, chunks: list[str]) -> str:
    """What strict mode gives: the message and events, or the error's facts."""
    try:
        return exact(["parsed", *streamed(case, chunks, "strict")])
    except ParseError as error:
        return exact(["refused", error.field, error.text, error.position, error.partial, str(error)])


@promise
@given(cases(), st.data())
def test_splits_change_nothing(case: Case, data: st.DataObject) -> None:
    whole = exact(streamed(case, [case.text]))
    assert exact(streamed(case, data.draw(splits(case.text)))) == whole
    assert exact(streamed(case, list(case.text))) == whole


@promise
@given(cases(), st.data())
def test_splits_change_nothing_in_strict_mode(case: Case, data: st.DataObject) -> None:
    whole = outcome(case, [case.text])
    assert outcome(case, data.draw(splits(case.text))) == whole
    assert outcome(case, list(case.text)) == whole


@promise
@given(cases())
def test_one_shot_is_the_one_chunk_case(case: Case) -> None:
    message = parse_response(case.text, case.template, prefix=case.prefix, errors="recover")
    assert exact(message) == exact(streamed(case, [case.text])[0])


@promise
@given(cases())
def test_engine_is_the_reference_whole(case: Case) -> None:
    message, events, _ = reference_parse(case.template, case.text, case.prefix)
    ours, our_events = streamed(case, [case.text])
    assert exact(without_reasons(our_events)) == exact(without_reasons(events))
    assert exact(without_reasons(ours)) == exact(without_reasons(message))


@promise
@given(cases(), st.data())
def test_engine_is_the_reference_streamed(case: Case, data: st.DataObject) -> None:
    message, events, _ = reference_parse(case.template, case.text, case.prefix)
    ours, our_events = streamed(case, data.draw(st.one_of(splits(case.text), st.just(list(case.text)))))
    assert exact(without_reasons(our_events)) == exact(without_reasons(events))
    assert exact(without_reasons(ours)) == exact(without_reasons(message))


@promise
@given(cases())
def test_the_prefix_is_read_as_if_it_had_been_generated(case: Case) -> None:
    """`initial_events` are those of feeding the prompt's rest; nothing of the generation is in them."""
    rest = after_last_anchor(load_template(case.template), case.prefix)
    told = ResponseParser(case.template, prefix=case.prefix, errors="recover").initial_events
    fed = ResponseParser(case.template, prefix="", errors="recover").feed(rest)
    assert exact(merged(list(told))) == exact(merged(fed))
    assert exact(streamed(case, [case.text])) == exact(
        streamed(Case(case.template, "", rest + case.text), [rest, case.text])
    )


@promise
@given(cases())
def test_every_character_is_accounted_for_once(case: Case) -> None:
    rest = after_last_anchor(load_template(case.template), case.prefix)
    _, _, expected = reference_parse(case.template, case.text, case.prefix)
    spans = list(explain(case.text, case.template, prefix=case.prefix))
    at = 0
    for span in spans:
        assert span.start == at <= span.end
        at = span.end
    assert at == len(rest) + len(case.text)
    assert labels(spans) == labels(expected)


def labels(spans: Any) -> list[tuple[str, str | None]]:
    """What each character was."""
    return [(span.kind, span.field) for span in spans for _ in range(span.start, span.end)]


@promise
@given(cases())
def test_strict_refuses_what_the_reference_finds_malformed_first(case: Case) -> None:
    try:
        message, events, _ = reference_parse(case.template, case.text, case.prefix, errors="strict")
    except Rejected as expected:
        with pytest.raises(ParseError) as caught:
            streamed(case, [case.text], "strict")
        error = caught.value
        assert (error.field, error.text) == (expected.field, expected.text)
        assert exact(error.partial) == exact(expected.partial)
        if expected.text:  # a field that is missing is nowhere
            assert error.position == expected.position
    else:
        assert exact(streamed(case, [case.text], "strict")) == exact([message, events])


@promise
@given(cases(), hostile_texts(), st.data())
def test_recover_never_raises(case: Case, text: str, data: st.DataObject) -> None:
    hostile = Case(case.template, data.draw(st.sampled_from(["", case.prefix, text])), case.text + text)
    whole = exact(streamed(hostile, [hostile.text]))
    assert exact(streamed(hostile, list(hostile.text))) == whole
    assert exact(streamed(hostile, data.draw(splits(hostile.text)))) == whole


@promise
@given(cases())
def test_opens_and_closes_alternate(case: Case) -> None:
    opened: str | None = None
    for event in streamed(case, list(case.text))[1]:
        if event["type"] == "region_open":
            assert opened is None
            opened = event["field"]
        else:
            assert event["field"] == opened
            opened = opened if event["type"] == "region_chunk" else None
    assert opened is None


# --- calls cut at every character ------------------------------------------------------------------------------------

CALL_SHAPE = {"type": "function", "function": "{content}"}
NAMED_SHAPE = {"type": "function", "function": {"name": "{n}", "arguments": "{content}"}}
JSON_BODY = '\n{"name": "f", "arguments": {"k": "v </call> [1] \\" }", "m": [1, {}]}}\n'
XML_TAGS = {"tag_pattern": r"<p=(?P<key>\w+)>(?P<value>.*?)</p>"}

# template of the calls field, open, body, close, how much of the body makes a call without its close (None: nothing)
CUT_CALLS = {
    "json": ({"content": "json", "transform": CALL_SHAPE}, "<call>", JSON_BODY, "</call>", len(JSON_BODY) - 1),
    "python": (
        {"content": "python-call-list", "transform": CALL_SHAPE},
        "<call>",
        "[f(k='</call> ]', m={\"a\": [1]}), g.h()]",
        "</call>",
        len("[f(k='</call> ]', m={\"a\": [1]}), g.h()]"),
    ),
    "xml": (
        {
            "open_pattern": r"<call=(?P<n>\w+)>",
            "content": "xml-inline",
            "content_args": XML_TAGS,
            "transform": NAMED_SHAPE,
        },
        "<call=f>",
        "\n<p=a>1</p>\n<p=b>2</p>\n",
        "</call>",
        None,
    ),
    "kv": (
        {"open_pattern": r"<call=(?P<n>\w+)>", "content": "kv-lines", "transform": NAMED_SHAPE},
        "<call=f>",
        "\na: 1\nb: 2\n",
        "</call>",
        None,
    ),
    "json without a close": (
        {"open": "[CALL]", "close": None, "content": "json", "transform": CALL_SHAPE},
        "[CALL]",
        JSON_BODY,
        "",
        len(JSON_BODY) - 1,
    ),
}


@pytest.mark.parametrize("name", CUT_CALLS)
@pytest.mark.parametrize("one_by_one", [False, True], ids=["whole", "streamed"])
def test_a_call_cut_at_any_character_is_never_returned_as_complete(name: str, one_by_one: bool) -> None:
    keys, opened, body, closed, enough = CUT_CALLS[name]
    field = {
        key: value for key, value in {"open": "<call>", "close": "</call>", **keys, "repeats": True}.items() if value
    }
    if "open_pattern" in field:
        del field["open"]
    template = {"version": 1, "start_anchor": "@", "fields": {"content": {}, "tool_calls": field}}
    generation = opened + body + closed
    complete = parse_response(generation, template, prefix="")["tool_calls"]
    for cut in range(len(generation)):
        case = Case(template, "", generation[:cut])
        message, _ = streamed(case, list(case.text) if one_by_one else [case.text])
        is_whole = enough is not None and cut >= len(opened) + enough
        assert message.get("tool_calls") == (complete if is_whole else None), cut
        if is_whole or cut == 0:
            assert "malformed" not in message
        elif cut < len(opened):
            assert message == {"content": generation[:cut]}
        else:  # all text kept: where a string never ended, what followed its first close is content
            (entry,) = message["malformed"]
            assert case.text.startswith(entry["text"])
            assert message.get("content", "") == case.text[len(entry["text"]) :].strip()
            with pytest.raises(ParseError) as caught:
                parse_response(case.text, template, prefix="")
            assert caught.value.text == entry["text"]
