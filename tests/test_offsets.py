"""Events that say where they are, in characters and in tokens."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from real_tokenizers import FAMILIES, TOKENIZERS, Family, decoded, generations, ids_of, real_tokenizer
from reference import after_last_anchor
from response_templates import OffsetParser, ParseError, ResponseParser, load_template, parse_response
from strategies import Case, cases, splits
from test_properties import exact, promise

Event = dict[str, Any]
PLACES = ("start", "end", "token_start", "token_end")


def bare(event: Event) -> Event:
    return {key: value for key, value in event.items() if key not in PLACES}


def run(parser: ResponseParser, chunks: Any) -> tuple[dict[str, Any], list[Event]]:
    events = list(parser.initial_events)
    for chunk in chunks:
        events += parser.feed(chunk)
    message, last = parser.finalize()
    return message, events + last


def check_places(events: list[Event], regions: list[Event], text: str, origin: int) -> None:
    """Events are where they say, one after the other; `text` is all that was parsed, from `-origin` on."""
    at = -origin
    for event in events:
        assert -origin <= event["start"] <= event["end"] <= len(text) - origin
        written = text[event["start"] + origin : event["end"] + origin]
        if event["type"] == "region_chunk":
            assert written == event["text"]
        if event["type"] == "region_malformed":
            assert written == event["text"]
            assert event["end"] >= at
        else:
            assert event["start"] >= at
        at = event["end"]
    assert [event["field"] for event in events if event["type"] in ("region_close", "region_malformed")] == [
        region["field"] for region in regions
    ]
    at = -origin
    for region in regions:
        assert at <= region["start"] <= region["text_start"] <= region["text_end"] <= region["end"]
        at = region["end"]


# --- characters ------------------------------------------------------------------------------------------------------


@promise
@given(cases(), st.data())
def test_events_are_where_they_say(case: Case, data: st.DataObject) -> None:
    chunks = data.draw(st.one_of(splits(case.text), st.just(list(case.text))))
    rest = after_last_anchor(load_template(case.template), case.prefix)
    message, events = run(OffsetParser(case.template, case.prefix, errors="recover"), chunks)
    check_places(events, message["offsets"], rest + case.text, len(rest))


@promise
@given(cases(), st.data())
def test_nothing_else_changes(case: Case, data: st.DataObject) -> None:
    chunks = data.draw(splits(case.text))
    wanted = run(ResponseParser(case.template, case.prefix, errors="recover"), chunks)
    message, events = run(OffsetParser(case.template, case.prefix, errors="recover"), chunks)
    del message["offsets"]
    assert exact([message, [bare(event) for event in events]]) == exact(wanted)


@promise
@given(cases(), st.data())
def test_splits_change_no_region(case: Case, data: st.DataObject) -> None:
    whole = parse_response(case.text, case.template, prefix=case.prefix, errors="recover", offsets=True)
    chunks = data.draw(splits(case.text))
    assert exact(run(OffsetParser(case.template, case.prefix, errors="recover"), chunks)[0]) == exact(whole)


TEMPLATE: dict[str, Any] = {
    "start_anchor": "@",
    "fields": {
        "reasoning_content": {"open": "<think>", "close": "</think>"},
        "content": {"close": "<|end|>"},
        "tool_calls": {
            "open": "<call>",
            "close": "</call>",
            "content": "json",
            "repeats": True,
            "transform": {"type": "function", "function": "{content}"},
        },
    },
}


def test_what_each_event_says() -> None:
    parser = OffsetParser(TEMPLATE, "@<think>\n")
    assert parser.initial_events == [{"type": "region_open", "field": "reasoning_content", "start": -8, "end": -1}]
    assert parser.feed("  why</think>\nyes<call>{</call>"[:5]) == [
        {"type": "region_chunk", "field": "reasoning_content", "text": "why", "dirty": False, "start": 2, "end": 5}
    ]
    events = parser.feed('</think>\nyes<call>{"name": "f"}</call>')
    assert [(event["type"], event["field"], event["start"], event["end"]) for event in events] == [
        ("region_close", "reasoning_content", 5, 13),
        ("region_open", "content", 13, 13),
        ("region_chunk", "content", 14, 17),
        ("region_close", "content", 17, 17),
        ("region_open", "tool_calls", 17, 23),
        ("region_chunk", "tool_calls", 23, 36),
        ("region_close", "tool_calls", 36, 43),
    ]
    assert parser.finalize()[0]["offsets"] == [
        {"field": "reasoning_content", "start": -8, "end": 13, "text_start": -1, "text_end": 5},
        {"field": "content", "start": 13, "end": 17, "text_start": 13, "text_end": 17},
        {"field": "tool_calls", "start": 17, "end": 43, "text_start": 23, "text_end": 36},
    ]


def test_a_delimiter_over_the_border_of_the_prefix() -> None:
    parser = OffsetParser(TEMPLATE, "@<thi")
    [opened, _] = parser.feed("nk>a")
    assert (opened["start"], opened["end"]) == (-4, 3)


def test_malformed_regions_are_whole() -> None:
    message, events = run(OffsetParser(TEMPLATE, "", errors="recover"), ["a<call>{</call>b"])
    [malformed] = [event for event in events if event["type"] == "region_malformed"]
    assert (malformed["start"], malformed["end"], malformed["text"]) == (1, 15, "<call>{</call>")
    assert message["offsets"][1] == {"field": "tool_calls", "start": 1, "end": 15, "text_start": 7, "text_end": 8}


def test_the_error_in_strict_mode_has_them_too() -> None:
    with pytest.raises(ParseError) as caught:
        parse_response("<think>a</think><call>{</call>", TEMPLATE, prefix="", offsets=True)
    assert [region["field"] for region in caught.value.partial["offsets"]] == ["reasoning_content", "tool_calls"]


def test_a_batch() -> None:
    first, second = parse_response(["a", "<think>b"], TEMPLATE, prefix="", offsets=True)
    assert (first["offsets"][0]["field"], second["offsets"][0]["field"]) == ("content", "reasoning_content")


def test_without_them_the_parser_is_the_plain_one() -> None:
    """They cost nothing when they are off: it is another class."""
    parser = ResponseParser(TEMPLATE, "")
    assert type(parser) is ResponseParser
    assert type(parser).__mro__ == (ResponseParser, object)
    assert not hasattr(parser, "_regions")


# --- tokens ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def plugin() -> Iterator[None]:
    from response_templates import install, uninstall

    install()
    yield
    uninstall()


def parser_of(tokenizer: Any, template: Any, **options: Any) -> ResponseParser:
    parser: ResponseParser = tokenizer.get_response_parser(template, **{"prefix": "", "offsets": True, **options})
    return parser


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("token_delimiters", [False, True])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.template)
def test_tokens_cover_their_characters(family: Family, token_delimiters: bool) -> None:
    tokenizer, template = real_tokenizer(family.tokenizer), family.dressed()
    for ids, _ in generations(family, 60, seed=7):
        text = decoded(tokenizer, ids)
        parser = parser_of(tokenizer, template, errors="recover", token_delimiters=token_delimiters)
        message, events = run(parser, ids)
        check_places(events, message["offsets"], text, 0)
        assert (
            tokenizer.parse_response(
                ids, template, prefix="", errors="recover", offsets=True, token_delimiters=token_delimiters
            )
            == message
        )
        for event in events:
            written = text[event["start"] : event["end"]]
            assert written in decoded(tokenizer, ids[event["token_start"] : event["token_end"]])
            for first, behind in ((1, 0), (0, -1)):  # no fewer would do
                part = ids[event["token_start"] + first : event["token_end"] + behind]
                if written and "\ufffd" not in text:
                    assert written not in decoded(tokenizer, part)


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("name", TOKENIZERS)
def test_random_ids_have_places(name: str) -> None:
    tokenizer = real_tokenizer(name)
    draw = random.Random(name)
    size = len(tokenizer)
    markers = [each for part in ("<think>", "</think>", "<call>", "</call>") for each in ids_of(tokenizer, part)]
    for _ in range(100):
        ids = [draw.choice(markers) if draw.random() < 0.3 else draw.randrange(size) for _ in range(draw.randrange(40))]
        text = decoded(tokenizer, ids)
        whole = run(parser_of(tokenizer, TEMPLATE, errors="recover"), [ids] if ids else [])[0]
        message, events = run(parser_of(tokenizer, TEMPLATE, errors="recover"), ids)
        assert whole == message
        check_places(events, message["offsets"], text, 0)
        for event in events:
            assert 0 <= event["token_start"] <= event["token_end"] <= len(ids)
            assert (event["token_start"] == event["token_end"]) == (event["start"] == event["end"])


@pytest.mark.usefixtures("plugin")
def test_token_places_of_known_tokens() -> None:
    tokenizer = real_tokenizer("qwen3")
    parts = ["<think>", "ab", "𐐷", "</think>", "c", "<|end|>"]
    rows = [ids_of(tokenizer, part) for part in parts]
    behind = [sum(map(len, rows[: number + 1])) for number in range(len(rows))]
    _, events = run(parser_of(tokenizer, TEMPLATE), [each for row in rows for each in row])
    places = [(event["type"][7:], event["token_start"], event["token_end"]) for event in events]
    assert places[0] == ("open", 0, 1)
    assert places[1] == ("chunk", 1, behind[1])
    assert places[2] == ("chunk", behind[1], behind[2])  # a character of several tokens
    assert behind[2] - behind[1] > 1
    assert places[3] == ("close", behind[2], behind[3])
    assert places[-1] == ("close", behind[4], behind[5])


@pytest.mark.usefixtures("plugin")
def test_the_prefix_has_no_tokens() -> None:
    tokenizer = real_tokenizer("qwen3")
    parser = parser_of(tokenizer, TEMPLATE, prefix=ids_of(tokenizer, "@<think>x"))
    assert {(event["token_start"], event["token_end"]) for event in parser.initial_events} == {(0, 0)}
    assert [event["start"] for event in parser.initial_events] == [-8, -1]


@pytest.mark.usefixtures("plugin")
def test_text_in_between_has_no_tokens() -> None:
    tokenizer = real_tokenizer("qwen3")
    [first] = ids_of(tokenizer, "a")
    message, events = run(parser_of(tokenizer, TEMPLATE), [first, "</", "b", first])
    places = [
        (event["text"], event["start"], event["token_start"], event["token_end"])
        for event in events
        if event["type"] == "region_chunk"
    ]
    assert places == [("a", 0, 0, 1), ("</", 1, 1, 1), ("b", 3, 1, 1), ("a", 4, 1, 2)]
    assert message["content"] == "a</ba"
