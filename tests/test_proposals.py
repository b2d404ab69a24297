"""What pull requests of ours say, and how they are known."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from response_templates import __version__
from response_templates.proposals import (
    LONGEST_NAME,
    NO_TEMPLATE,
    REMOVAL_TITLE,
    SUBJECT,
    Mark,
    digest_of,
    marks_in,
    removal_text,
    text_of,
    title_of,
)
from response_templates.verifying import Check, Report

TEMPLATE: dict[str, Any] = {"start_anchor": "<a>", "fields": {"content": {"close": "é｜</b>"}}}
GOOD = Report("ann/m", "qwen3", (Check("start anchor", "passed", "in 9 prompts"), Check("answer", "noted", "a | b")))
BAD = Report("ann/m", "qwen3", (Check("answer", "failed", "another message comes back"),))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50)
@given(VALUES)
def test_a_digest_is_of_the_content_not_of_how_it_is_written(value: Any) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(list(value))}
        return [turned(each) for each in value] if isinstance(value, list) else value

    assert digest_of(turned(value)) == digest_of(value) == digest_of(json.loads(json.dumps(value)))
    assert digest_of([value]) != digest_of(value)


@settings(max_examples=100)
@given(st.text(st.sampled_from("aZ9 .-_`\n\r\té｜"), max_size=12), st.booleans(), st.sampled_from([None, GOOD, BAD]))
def test_what_a_description_is_about_is_read_from_it(name: str, replaces: bool, report: Report | None) -> None:
    text = text_of(name, TEMPLATE, report, replaces=replaces)
    assert [mark.digest for mark in marks_in(text)] == [digest_of(TEMPLATE)]
    assert marks_in(f"{text}\n\nEdited: thanks!") == marks_in(text)
    assert [mark.digest for mark in marks_in(removal_text(name))] == [digest_of(NO_TEMPLATE)]
    assert "\n" not in title_of(name, replaces=replaces)


def test_the_name_is_read_too() -> None:
    assert [mark.name for mark in marks_in(text_of("deepseek-v3.1", TEMPLATE, None, replaces=False))] == [
        "deepseek-v3.1"
    ]


def test_what_others_write_has_no_mark() -> None:
    assert marks_in("Add a response template\n\nresponse-templates is great, template `x`") == []


def test_the_mark_says_which_version_made_it() -> None:
    assert __version__ in str(Mark("x", digest_of(TEMPLATE)))


def test_the_description_says_what_why_and_how_verified() -> None:
    text = text_of("qwen3", TEMPLATE, GOOD, replaces=False)
    assert "adds the key `response_template` in `tokenizer_config.json`. Nothing else" in text
    assert "parse_response" in text
    assert GOOD.table() in text
    assert "a \\| b" in text  # a cell of the table, not two
    assert "Not all of it passed" not in text
    assert "replaces the value" in text_of("qwen3", TEMPLATE, GOOD, replaces=True)


def test_the_description_does_not_hide_what_failed_or_was_not_looked_at() -> None:
    assert "Not all of it passed" in text_of("qwen3", TEMPLATE, BAD, replaces=False)
    assert "another message comes back" in text_of("qwen3", TEMPLATE, BAD, replaces=False)
    assert "was not verified" in text_of("qwen3", TEMPLATE, None, replaces=False)


def test_titles_are_of_a_length_that_the_hub_takes_and_are_told_by_their_subject() -> None:
    titles = [title_of(name, replaces=replaces) for name in ("qwen3", "n" * 500) for replaces in (False, True)]
    for title in [*titles, REMOVAL_TITLE]:
        assert SUBJECT in title
        assert 3 <= len(title) <= LONGEST_NAME + 50
    assert len(set(titles)) == len(titles)
