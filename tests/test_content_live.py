"""Live readers against the content parsers whose values they foretell."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

import generations
from domains import domains
from response_templates import get_template
from response_templates.content import ContentError, compile_content
from response_templates.content.growing import GROWING, NOTHING, GrowingText
from response_templates.content.live import live_content
from response_templates.template import thaw
from strategies import splits
from test_properties import exact, promise
from written_turns import turns

few = settings(promise, max_examples=max(25, promise.max_examples // 12))  # there are many kinds

QWEN_TAGS = (
    r"<parameter=(?P<key>[^<>\n]+)>\n?(?P<value>.*?)(?:\n?</parameter>(?=\s*(?:<parameter=|</function>|\Z))"
    r"|\n?(?=\n<parameter=[^<>\n]+>\n|</function>\s*\Z|\Z))"
)
JSON_OR_TEXT = {"name": "json", "args": {"allow_non_json": True}}
TYPED_TAGS = r'<p name="(?P<key>\w+)" string="(?P<string>true|false)">(?P<value>.*?)</p>'
# name: content parser, its arguments, pieces of bodies
KINDS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "text": ("text", {}, ["a", " ", "\n", "\u2003", "é"]),
    "raw text": ("text", {"strip": False}, ["a", " ", "\n"]),
    "json": (
        "json",
        {},
        [
            *[
                '{"k": ',
                '"a',
                '"',
                "1",
                "2",
                ".5",
                "e",
                "tr",
                "ue",
                "null",
                ", ",
                "]",
                "[",
                "}",
                '"k": ',
                "\\",
                "u00e9",
            ],
            *["\\ud83c", "\\udf26", "\\n", '\\"', "\n", "-", ":", "0", "é", "\\\\"],
        ],
    ),
    "json in markers": (
        "json",
        {"string_delims": [["<|", "|>"], ["<", ">"]], "unquoted_keys": True},
        ["<", "|", ">", "{", "k", ":", "a", "}", '"', "1", ",", "<|a|>", "[", "]", "k:"],
    ),
    "json or text": ("json", {"allow_non_json": True}, ["tr", "ue", " ", "x", "{", '"k"', ":", "1", "}", "\n", '"']),
    "python": (
        "python-call-list",
        {},
        [
            *["[", "f(", "k=", "1", "2", ",", ")", "]", "'", '"', "a", "\\", "\n", "{", "}", ":", " ", "True", "g.h("],
            *[";", "f(k=1)", "n=[1, ", "m={'a': ", "None", '[{"k": ', '"}]'],
        ],
    ),
    "tags": (
        "xml-inline",
        {"tag_pattern": QWEN_TAGS},
        ["<parameter=a>", "<parameter=b>", "</parameter>", "\n", "x", "<", "</para", " ", "</function>", "7", ">"],
    ),
    "tags with values": (
        "xml-inline",
        {"tag_pattern": r"<p=(?P<key>\w+)>(?P<value>[^<]*)</p>", "value_parser": JSON_OR_TEXT},
        ["<p=a>", "<p=b>", "</p>", "x", "1", "true", "[1", "]", "<", " ", '"q"', "{}", "\n"],
    ),
    "tags with types": (
        "xml-inline",
        {"tag_pattern": TYPED_TAGS},
        ['<p name="a" string="true">', '<p name="b" string="false">', "</p>", "x", "1", "[", "]", " ", '"', "<"],
    ),
    "tags with escapes": (
        "xml-inline",
        {"tag_pattern": r'<p name="(?P<key>(?P<escaped>[^"]+))">(?P<value>.*?)</p>'},
        ['<p name="', "&amp;", "&quot;", "a", '">', "</p>", "x", '"'],
    ),
    "tags one after the other": (
        "xml-inline",
        {"tag_pattern": r"<k>(?P<key>\w+)</k>\s*<v>(?P<value>.*?)</v>"},
        ["<k>", "a", "</k>", " ", "<v>", "</v>", "x", "<k>b</k><v>", "</", "\n"],
    ),
    "lines": ("kv-lines", {}, ["a", ":", " ", "b", "\n", "1", "a: x\n"]),
    "lines with values": (
        "kv-lines",
        {"line_sep": "||", "kv_sep": "=>", "strip": False, "value_parser": JSON_OR_TEXT},
        ["a", "=>", "=", "|", "||", "1", "[", "]", " ", "x", "b=>"],
    ),
}


def bodies(name: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(KINDS[name][2]), max_size=14).map("".join)


def shown(value: Any) -> Any:
    """A live value as plain JSON; the growing strings as (text,), so that they can be told."""
    if isinstance(value, GrowingText):
        return (value.text(),)
    if isinstance(value, GROWING):
        plain = value.plain()
        if isinstance(plain, dict):
            return {key: shown(item) for key, item in plain.items()}
        return [shown(item) for item in plain]
    return value


def is_beginning(part: Any, whole: Any) -> bool:
    """Is `part` how `whole` may begin?"""
    if isinstance(part, tuple):
        return isinstance(whole, str) and whole.startswith(part[0])
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and is_beginning(item, whole[key]) for key, item in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(is_beginning, part, whole))
    return exact(part) == exact(whole)


def has_twice(name: str, body: str) -> bool:
    """Does the body write a key twice? Then the later value replaces the earlier one."""
    keys = re.findall(WRITTEN_KEYS.get(KINDS[name][0], "(?!)"), body)
    return len(set(keys)) < len(keys)


WRITTEN_KEYS = {
    "json": r'"k"|k:',
    "python-call-list": r'"k"',
    "xml-inline": r'<(?:parameter=|p=|p name="|k>)(\w+)',
    "kv-lines": r"(?:^|\n|\|\|) *(\w*) *(?:=>|:)",
}


def new(name: str) -> Any:
    parser, args, _ = KINDS[name]
    make = live_content(parser, args)
    assert make is not None
    return make()


@pytest.mark.parametrize("name", KINDS)
def test_what_is_shown_is_how_the_value_begins(name: str) -> None:
    parser = compile_content(KINDS[name][0], KINDS[name][1])

    @few
    @given(st.data())
    def check(data: st.DataObject) -> None:
        body = data.draw(bodies(name))
        try:
            value = parser.parse(body)
        except ContentError:
            return
        if has_twice(name, body):
            return
        reader = new(name)
        for piece in data.draw(st.one_of(splits(body), st.just(list(body)))):
            reader.feed(piece)
            assert not reader.failed
            if reader.root is not NOTHING:
                now = without_open_tag(name, shown(reader.root), value)
                assert is_beginning(now, value), (now, value)

    check()


def without_open_tag(name: str, part: Any, whole: Any) -> Any:
    """A tag that never closes is none (or text of another): what was shown of it, at the end, goes."""
    if KINDS[name][0] == "xml-inline" and part and list(part)[-1] not in whole:
        return {key: part[key] for key in list(part)[:-1]}
    return part


@pytest.mark.parametrize("name", KINDS)
def test_what_is_shown_stays(name: str) -> None:
    """Whether or not the body parses: what was shown is how what is shown later begins."""

    @few
    @given(bodies(name))
    def check(body: str) -> None:
        if has_twice(name, body):
            return
        reader, last = new(name), NOTHING
        for char in body:
            reader.feed(char)
            now = shown(reader.root)
            if last is not NOTHING:
                last = without_open_tag(name, last, now)
                assert is_beginning(last, strings_plain(now)), (last, now)
            last = now

    check()


def strings_plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return value[0]
    if isinstance(value, dict):
        return {key: strings_plain(item) for key, item in value.items()}
    return [strings_plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", KINDS)
def test_how_the_body_is_cut_does_not_matter(name: str) -> None:
    @few
    @given(st.data())
    def check(data: st.DataObject) -> None:
        body = data.draw(bodies(name))
        whole, cut, single = new(name), new(name), new(name)
        whole.feed(body)
        for piece in data.draw(splits(body)):
            cut.feed(piece)
        for char in body:
            single.feed(char)
        assert cut.failed == whole.failed == single.failed
        if not whole.failed and whole.root is not NOTHING:
            assert shown(cut.root) == shown(whole.root) == shown(single.root)

    check()


@settings(promise, max_examples=max(60, promise.max_examples // 5))
@given(generations.VALUES, st.booleans(), st.booleans())
def test_plain_json_is_what_jiter_makes_of_it(value: Any, ascii_only: bool, indented: bool) -> None:
    """At every character of any JSON: the same strings and containers; numbers only once they are complete."""
    from_json = pytest.importorskip("jiter").from_json
    text = json.dumps([value], ensure_ascii=ascii_only, indent=1 if indented else None)
    reader = new("json")
    for at, char in enumerate(text):
        reader.feed(char)
        partial = from_json(text[: at + 1].encode(), partial_mode="trailing-strings")
        assert exact(strings_plain(shown(reader.root))) in {exact(partial), exact(without_last_number(partial))}


def without_last_number(value: Any) -> Any:
    """Without a number, a word or an empty string at the very end, which may not be complete."""
    if isinstance(value, list) and value:
        last = without_last_number(value[-1])
        return value[:-1] if last is None or isinstance(last, (int, float)) else [*value[:-1], last]
    if isinstance(value, dict) and value:
        *_, key = value
        last = without_last_number(value[key])
        rest = {each: item for each, item in value.items() if each != key}
        return rest if last is None or isinstance(last, (int, float)) else {**rest, key: last}
    return value


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ('{"a": 12}', ["{}", '{"a": 12}']),
        ('{"a": "x\\u00e9"}', ["{}", '{"a": ""}', '{"a": "x"}', '{"a": "x\u00e9"}']),
        ('{"a": "\\ud83c\\udf26"}', ["{}", '{"a": ""}', '{"a": "\U0001f326"}']),
        ('{"a": "\\ud83cx"}', ["{}", '{"a": ""}', '{"a": "\ufffdx"}']),
        ('{"a": true}', ["{}", '{"a": true}']),
        ('["\\\\"]', ["[]", '[""]', '["\\\\"]']),
    ],
)
def test_nothing_half_is_shown(text: str, states: list[str]) -> None:
    reader, seen = new("json"), []
    for char in text:
        reader.feed(char)
        state = json.dumps(strings_plain(shown(reader.root)), ensure_ascii=False)
        if not seen or state != seen[-1]:
            seen.append(state)
    assert seen == states


@pytest.mark.parametrize(
    ("text", "fails_at"),
    [
        ("truex", None),
        ("truex ", 5),
        ("{]", 1),
        ('"a" b', 4),
        ("[1 2]", 3),
        ('{"a" 1', 5),
        ("nul ", 3),
        ("[1,]", 3),
        ("x", None),
    ],
)
def test_text_that_is_no_json_is_known_at_once(text: str, fails_at: int | None) -> None:
    reader = new("json")
    for at, char in enumerate(text):
        reader.feed(char)
        assert reader.failed == (fails_at is not None and at >= fails_at), at


@pytest.mark.parametrize("name", ["json", "json in markers", "python"])
def test_steps_are_linear(name: str) -> None:
    opening = {"json": '{"k": "', "json in markers": "{k: <|", "python": '[f(k="'}[name]
    for unit in ("word ", "\\\\", "\\u00e9", "\\ud83c\\udf26", "<", "|"):
        reader = new(name)
        text = opening + unit * 3000
        for char in text:
            reader.feed(char)
        assert not reader.failed
        assert reader.steps <= 8 * len(text)


@pytest.mark.parametrize("unit", ["word\n", "</parameter> ", "<parameter=", "<parameter=b>", "\n\n", "</parameter>\n"])
def test_the_steps_of_tags_are_linear(unit: str) -> None:
    steps = []
    for size in (500, 1000, 2000):
        reader = new("tags")
        reader.feed("<parameter=a>")
        for char in unit * size:
            reader.feed(char)
        steps.append(reader.steps)
    assert steps[2] - steps[1] <= 2.2 * (steps[1] - steps[0])


def tags_of(name: str) -> list[Any]:
    """The arguments of the `xml-inline` fields of a registry template."""
    fields = get_template(name).template.fields.values()
    return [thaw(field.content_args) for field in fields if field.content == "xml-inline"]


def shown_live(name: str) -> bool:
    """Not so are elements in elements: what one is shows at its end."""
    return any(live_content("xml-inline", args) is not None for args in tags_of(name)[:1])


@pytest.mark.parametrize("name", [name for name in domains() if shown_live(name)])
def test_the_steps_of_every_family_s_tags_are_linear(name: str) -> None:
    """On parts of a tag that it writes, over and over."""
    args = tags_of(name)[0]
    found = [regex.search(args["tag_pattern"], turn.generation, regex.DOTALL) for turn, _ in turns(name)]
    make = live_content("xml-inline", args)
    for tag in [each[0] for each in found if each is not None and each[0]][:1]:
        half = len(tag) // 2
        for unit in (tag, tag[:half], tag[half:], tag[: half // 2], tag[-half // 2 :], "\n"):
            steps = []
            count = max(2, 300 // len(unit))
            for factor in (1, 2, 4):
                assert make is not None
                reader: Any = make()
                for char in tag[:half] + unit * (factor * count):
                    reader.feed(char)
                steps.append(reader.steps)
            assert steps[2] - steps[1] <= 2.5 * (steps[1] - steps[0]) + 100, unit
