"""Each rule of the format, one case each; and what a `ResponseTemplate` promises once it is loaded."""

from __future__ import annotations

import contextlib
import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from response_templates import Field, ResponseTemplate, ResponseTemplateError, TemplateError, load_template
from response_templates import template as rules
from response_templates.template import Placeholder, placeholder_of
from strategies import grammars

GOOD: dict[str, Any] = {
    "version": 1,
    "defaults": {"role": "assistant"},
    "start_anchor": ["<|assistant|>", "<|model|>"],
    "fields": {
        "reasoning_content": {"open": "<think>", "close": ["</think>", "</thought>"], "content_args": {"strip": False}},
        "content": {"close": "<|end|>", "repeats": True, "join": "\n"},
        "tool_calls": {
            "open_pattern": r"<call:(?P<name>\w+)>",
            "close_pattern": "</call>",
            "content": "xml-inline",
            "content_args": {
                "tag_pattern": r"<p=(?P<key>\w+)>(?P<value>.*?)</p>",
                "value_parser": {"name": "json", "args": {"allow_non_json": True}},
            },
            "repeats": True,
            "optional": True,
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
    },
}
CALL_TRANSFORM = {"type": "function", "function": "{content}"}


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def with_template(**keys: Any) -> dict[str, Any]:
    """A valid template but for the given keys of the template (`...`: the key is left out)."""
    return {key: value for key, value in {**GOOD, **keys}.items() if value is not ...}


def with_field(**keys: Any) -> dict[str, Any]:
    """A template with one field, `f`, of the given keys."""
    return {"start_anchor": "A", "fields": {"f": {"open": "<f>", **keys}}}


def with_xml(**args: Any) -> dict[str, Any]:
    return with_field(content="xml-inline", content_args={"tag_pattern": "<(?P<key>a)>", **args})


# What is wrong: the template, and what the message must say (field, key, and the valid key that was meant).
BROKEN: dict[str, tuple[Any, list[str]]] = {
    # the template's own keys
    "unknown key": (with_template(surprise=1), ["template", "'surprise'"]),
    "unknown key, typo": (with_template(start_anchors="A"), ["'start_anchors'", "did you mean 'start_anchor'"]),
    "a private extension": (with_template(**{"x-ours": 1}), ["'x-ours'"]),
    "future version": (with_template(version=2), ["'version'", "2"]),
    "version is no int": (with_template(version="1"), ["'version'", "'1'"]),
    "version is a float": (with_template(version=1.0), ["'version'"]),
    "version is a bool": (with_template(version=True), ["'version'"]),
    "defaults is no object": (with_template(defaults=["role"]), ["'defaults'", "object"]),
    "no anchor": (with_template(start_anchor=...), ["'start_anchor'", "'start_anchor_pattern'"]),
    "both anchors": (with_template(start_anchor_pattern="A"), ["'start_anchor'", "'start_anchor_pattern'"]),
    "empty anchor": (with_template(start_anchor=""), ["'start_anchor'", "empty"]),
    "empty anchor in a list": (with_template(start_anchor=["A", ""]), ["'start_anchor'", "empty"]),
    "empty list of anchors": (with_template(start_anchor=[]), ["'start_anchor'", "empty"]),
    "anchor is a number": (with_template(start_anchor=1), ["'start_anchor'", "string"]),
    "anchor list holds a number": (with_template(start_anchor=["A", 1]), ["'start_anchor'", "string"]),
    "bad anchor regex": (
        with_template(start_anchor=..., start_anchor_pattern="("),
        ["'start_anchor_pattern'", "regex"],
    ),
    "anchor regex is no string": (
        with_template(start_anchor=..., start_anchor_pattern=["A"]),
        ["'start_anchor_pattern'"],
    ),
    "no fields": (with_template(fields=...), ["'fields'"]),
    "fields is empty": (with_template(fields={}), ["'fields'"]),
    "fields is a list": (with_template(fields=[{"open": "a"}]), ["'fields'"]),
    "too many fields": (with_template(fields={f"f{n}": {"open": "a"} for n in range(500)}), ["'fields'", "500"]),
    "field is a string": (with_template(fields={"f": "<f>"}), ["'f'", "object"]),
    "two implicit fields": (with_template(fields={"f": {}, "g": {"close": "x"}}), ["'f'", "'g'", "'open'"]),
    # a field's keys
    "field: unknown key": (with_field(surprise=1), ["'f'", "'surprise'"]),
    "field: unknown key, typo": (
        with_field(close_patern="x"),
        ["'f'", "'close_patern'", "mean 'close_pattern'"],
    ),
    "field: both opens": (with_field(open_pattern="x"), ["'f'", "'open'", "'open_pattern'"]),
    "field: both closes": (with_field(close="a", close_pattern="x"), ["'f'", "'close'", "'close_pattern'"]),
    "field: empty open": (with_field(open=""), ["'f'", "'open'", "empty"]),
    "field: empty close in a list": (with_field(close=["a", ""]), ["'f'", "'close'", "empty"]),
    "field: empty list": (with_field(close=[]), ["'f'", "'close'", "empty"]),
    "field: open is an object": (with_field(open={"literal": "a"}), ["'f'", "'open'", "string"]),
    "field: bad open regex": (with_field(open=None, open_pattern="[a"), ["'f'", "'open_pattern'", "regex"]),
    "field: bad close regex": (with_field(close_pattern="(?P<n>a)(?P<"), ["'f'", "'close_pattern'", "regex"]),
    "field: empty regex": (with_field(close_pattern=""), ["'f'", "'close_pattern'", "empty"]),
    "field: regex is no string": (with_field(close_pattern=3), ["'f'", "'close_pattern'", "string"]),
    "field: huge literal": (with_field(close="a" * 100_000), ["'f'", "'close'", "100000"]),
    "field: huge regex": (with_field(close_pattern="a" * 100_000), ["'f'", "'close_pattern'", "100000"]),
    "field: content is no string": (with_field(content=["json"]), ["'f'", "'content'", "string"]),
    "field: unknown content parser": (with_field(content="yaml"), ["'f'", "'yaml'"]),
    "field: unknown content parser, typo": (with_field(content="jsn"), ["'f'", "'jsn'", "did you mean 'json'"]),
    "field: repeats is no bool": (with_field(repeats="yes"), ["'f'", "'repeats'", "true or false"]),
    "field: repeats is 1": (with_field(repeats=1), ["'f'", "'repeats'", "true or false"]),
    "field: optional is no bool": (with_field(optional=0), ["'f'", "'optional'", "true or false"]),
    "field: join is no string": (with_field(repeats=True, join=1), ["'f'", "'join'", "string"]),
    "field: join without repeats": (with_field(join=","), ["'f'", "'join'", "'repeats'"]),
    "field: empty join without repeats": (with_field(join=""), ["'f'", "'join'", "'repeats'"]),
    "field: transform_each is no bool": (with_field(transform={}, transform_each="x"), ["'f'", "'transform_each'"]),
    "field: transform_each alone": (with_field(transform_each=True), ["'f'", "'transform_each'", "'transform'"]),
    "field: groups without transform": (
        with_field(open=None, open_pattern=r"<(?P<name>\w+)>"),
        ["'f'", "'name'", "'transform'"],
    ),
    "field: close groups without transform": (with_field(close_pattern="(?P<end>x)"), ["'f'", "'end'", "'transform'"]),
    "field: placeholder that nothing fills": (
        with_field(transform={"a": ["{nothing}"]}),
        ["'f'", "'transform'", "'{nothing}'"],
    ),
    "field: placeholder, typo": (with_field(transform="{contents}"), ["'f'", "'transform'", "did you mean 'content'"]),
    "field: keys of a group": (
        with_field(open=None, open_pattern="<(?P<name>a)>", transform="{name.x}"),
        ["'f'", "'transform'", "'{name.x}'"],
    ),
    "field: keys of a text": (with_field(transform="{content.x}"), ["'f'", "'transform'", "'{content.x}'"]),
    "field: placeholder and text": (
        with_field(transform={"a": "call {content}"}),
        ["'f'", "'transform'", "'{content}'", "'call {content}'"],
    ),
    "field: two placeholders": (with_field(transform="{content}{content}"), ["'f'", "'transform'", "whole string"]),
    # content_args
    "args: not an object": (with_field(content_args=[1]), ["'f'", "'content_args'", "object"]),
    "args: unknown": (with_field(content="int", content_args={"base": 2}), ["'f'", "'content_args'", "'base'"]),
    "args: typo": (
        with_field(content="json", content_args={"unquoted_key": True}),
        ["'f'", "'content_args'", "'unquoted_key'", "did you mean 'unquoted_keys'"],
    ),
    "args: of another parser": (with_field(content_args={"unquoted_keys": True}), ["'f'", "'unquoted_keys'"]),
    "args: strip is no bool": (with_field(content_args={"strip": "no"}), ["'f'", "'content_args'", "'strip'"]),
    "args: string_delims is no list": (
        with_field(content="json", content_args={"string_delims": "'"}),
        ["'f'", "'content_args'", "'string_delims'", "pairs"],
    ),
    "args: string_delims with an empty mark": (
        with_field(content="json", content_args={"string_delims": [["<", ""]]}),
        ["'f'", "'string_delims'", "pairs"],
    ),
    "args: string_delims with one mark": (
        with_field(content="json", content_args={"string_delims": [["<"]]}),
        ["'f'", "'string_delims'", "pairs"],
    ),
    "args: kv_sep is empty": (
        with_field(content="kv-lines", content_args={"kv_sep": ""}),
        ["'f'", "'content_args'", "'kv_sep'", "empty"],
    ),
    "xml: no args": (with_field(content="xml-inline"), ["'f'", "'content_args'", "'tag_pattern'", "'key'"]),
    "xml: no tag_pattern": (
        with_field(content="xml-inline", content_args={"merge_duplicates": True}),
        ["'f'", "'tag_pattern'", "'key'"],
    ),
    "xml: no group key": (with_xml(tag_pattern="<(?P<value>a)>"), ["'f'", "'tag_pattern'", "'key'"]),
    "xml: bad tag_pattern": (with_xml(tag_pattern="<(?P<key>a>"), ["'f'", "'tag_pattern'", "regex"]),
    "xml: value_parser is a string": (with_xml(value_parser="json"), ["'f'", "'value_parser'", "object"]),
    "xml: value_parser without name": (with_xml(value_parser={"args": {}}), ["'f'", "'value_parser'", "'name'"]),
    "xml: value_parser, unknown": (with_xml(value_parser={"name": "jason"}), ["'f'", "'value_parser'", "'json'"]),
    "xml: value_parser, unknown key": (
        with_xml(value_parser={"name": "json", "arg": {}}),
        ["'f'", "'value_parser'", "'arg'", "did you mean 'args'"],
    ),
    "xml: value_parser, bad args": (
        with_xml(value_parser={"name": "text", "args": {"strp": True}}),
        ["'f'", "'value_parser'", "'strp'", "did you mean 'strip'"],
    ),
    # not JSON at all
    "not an object": ([GOOD], ["object"]),
    "a number": (7, ["object"]),
    "none": (None, ["object"]),
    "bytes": (b"{}", ["object"]),
    "a key that is no string": ({**GOOD, 1: 2}, ["1"]),
    "a value that is no JSON": (with_template(defaults={"when": {1, 2}}), ["JSON"]),
    "nested too deep": (with_template(defaults={"x": deep(2_000)}), ["deep"]),
    "nested far too deep": (with_template(defaults={"x": deep(100_000)}), ["deep"]),
}


@pytest.mark.parametrize(("source", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_template_is_an_error_that_says_where(source: Any, words: list[str]) -> None:
    with pytest.raises(TemplateError) as caught:
        ResponseTemplate.from_dict(source)
    for word in words:
        assert word in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, ResponseTemplateError)
    with pytest.raises(TemplateError):
        load_template(source)


GOOD_VARIANTS: dict[str, dict[str, Any]] = {
    "no version, no defaults": with_template(version=..., defaults=...),
    "anchor as one string": with_template(start_anchor="A"),
    "anchor pattern": with_template(start_anchor=..., start_anchor_pattern=r"A\s*"),
    "one implicit field": with_template(fields={"content": {}}),
    "only explicit fields": with_field(),
    "plain braces are no placeholders": with_field(transform=["{}", "{content", "{a b}", "a}b", "{1}"]),
    "dotted placeholder": with_field(content="json", transform="{content.function.name}"),
    "keys of the items": with_field(content="json", transform={"n": "{tool_name}"}, transform_each=True),
    "null for a key": with_field(close=None, transform=None, join=None),
    "named groups with a transform": with_field(open=None, open_pattern="<(?P<n>a)>", transform={"n": "{n}"}),
    "lookaround": with_field(close_pattern=r"(?<![`'])</f>|(?=<g>)"),
    "join with an empty string": with_field(repeats=True, join=""),
}


@pytest.mark.parametrize("source", GOOD_VARIANTS.values(), ids=GOOD_VARIANTS.keys())
def test_a_valid_template_loads_and_comes_out_as_it_went_in(source: dict[str, Any]) -> None:
    before = copy.deepcopy(source)
    template = load_template(source)
    assert template.to_dict() == source == before


def test_what_a_template_says_of_itself() -> None:
    template = load_template(GOOD)
    assert template.version == 1
    assert template.defaults == {"role": "assistant"}
    assert template.start_anchor == ("<|assistant|>", "<|model|>")
    assert template.start_anchor_pattern is None
    assert list(template.fields) == ["reasoning_content", "content", "tool_calls"]
    reasoning, content, calls = template.fields.values()
    assert reasoning == Field(
        "reasoning_content", open=("<think>",), close=("</think>", "</thought>"), content_args={"strip": False}
    )
    assert content.implicit and content.repeats and content.join == "\n"
    assert not calls.implicit and calls.optional and calls.open_pattern == r"<call:(?P<name>\w+)>"
    assert template.implicit_field is content


def test_a_template_does_not_change_with_its_source() -> None:
    source = copy.deepcopy(GOOD)
    template = ResponseTemplate.from_dict(source)
    source["fields"]["content"]["join"] = "changed"
    source["defaults"]["role"] = "changed"
    assert template.to_dict() == GOOD


def test_what_a_template_hands_out_is_no_way_in() -> None:
    template = ResponseTemplate.from_dict(GOOD)
    template.to_dict()["fields"].clear()
    template.defaults["role"] = "changed"
    calls = template.fields["tool_calls"]
    with pytest.raises(TypeError):
        template.fields["more"] = calls  # type: ignore[index]
    with pytest.raises(TypeError):
        calls.content_args["tag_pattern"] = "x"  # type: ignore[index]
    with pytest.raises(AttributeError):
        calls.join = "x"  # type: ignore[misc]
    for key in ("version", "defaults", "start_anchor", "fields"):
        with pytest.raises(AttributeError):
            setattr(template, key, None)
    assert template.to_dict() == GOOD
    assert template == ResponseTemplate.from_dict(GOOD)


def test_a_transform_that_is_handed_out_is_no_way_in() -> None:
    template = ResponseTemplate.from_dict(GOOD)
    with contextlib.suppress(TypeError):
        template.fields["tool_calls"].transform["function"] = "changed"
    assert template.to_dict() == GOOD


def test_templates_are_equal_by_value() -> None:
    one, other = ResponseTemplate.from_dict(GOOD), ResponseTemplate.from_dict(copy.deepcopy(GOOD))
    assert one is not other
    assert one == other
    assert hash(one) == hash(other)
    assert {one: "plan"}[other] == "plan"
    assert one != ResponseTemplate.from_dict(with_template(defaults={}))
    assert one != GOOD
    reordered = {key: GOOD[key] for key in reversed(GOOD)}
    assert ResponseTemplate.from_dict(reordered) == one


@given(grammars())
def test_copies_are_equal_to_what_they_were_made_of(grammar: Any) -> None:
    template = load_template(grammar.template)
    for again in (
        pickle.loads(pickle.dumps(template)),
        copy.copy(template),
        copy.deepcopy(template),
        copy.deepcopy({"nested": [template]})["nested"][0],
        ResponseTemplate.from_dict(template.to_dict()),
        load_template(json.dumps(grammar.template)),
    ):
        assert again == template
        assert again.fields == template.fields
        assert again.to_dict() == grammar.template


def test_four_kinds_of_source(tmp_path: Path) -> None:
    path = tmp_path / "template.json"
    path.write_text(json.dumps(GOOD), encoding="utf-8")
    template = load_template(GOOD)
    assert load_template(json.dumps(GOOD)) == template
    assert load_template("\n  " + json.dumps(GOOD)) == template
    assert load_template(path) == template
    assert load_template(str(path)) == template
    assert load_template(template) is template


def test_equal_sources_are_loaded_once(tmp_path: Path) -> None:
    path = tmp_path / "template.json"
    path.write_text(json.dumps(GOOD), encoding="utf-8")
    template = load_template(GOOD)
    assert load_template(copy.deepcopy(GOOD)) is template
    assert load_template(json.dumps(GOOD)) is template
    assert load_template(path) is template


def test_a_path_is_read_again_when_the_file_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "template.json"
    path.write_text(json.dumps(GOOD), encoding="utf-8")
    before = load_template(path)
    path.write_text(json.dumps(with_field()), encoding="utf-8")
    assert load_template(path) == load_template(with_field()) != before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"start_anchor": ', ["JSON"]),
        ('{"start_anchor": "a"} x', ["JSON"]),
        ("{" * 100_000, ["JSON"]),
        ("no/such/file.json", ["no/such/file.json"]),
        ("no-such-name", ["no-such-name"]),
        ("", ["template"]),
        ("a\0b", ["template"]),
        ("\ud800.json", ["template"]),
    ],
    ids=["cut JSON", "more than JSON", "nested JSON", "no such file", "a name", "empty", "NUL", "surrogate"],
)
def test_a_str_that_gives_no_template_is_an_error(text: str, words: list[str]) -> None:
    with pytest.raises(TemplateError) as caught:
        load_template(text)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"[1]", b"not json", b"\xff\xfe\x00", b""], ids=["a list", "no JSON", "no UTF-8", "empty"]
)
def test_a_file_that_gives_no_template_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(TemplateError):
        load_template(path)
    with pytest.raises(TemplateError):
        load_template(tmp_path)  # a folder


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{content}", Placeholder("content", ())),
        ("{content.a.b}", Placeholder("content", ("a", "b"))),
        ("{_x1}", Placeholder("_x1", ())),
        ("{content.0}", Placeholder("content", ("0",))),
        ("{}", None),
        ("{content", None),
        ("{a b}", None),
        ("{1}", None),
        ("{a..b}", None),
        ("{a.}", None),
        ("x{content}", None),
        ("{content}\n", None),
    ],
)
def test_which_strings_are_placeholders(text: str, expected: Placeholder | None) -> None:
    found = placeholder_of(text)
    assert found == expected
    assert found is None or str(found) == text


def test_the_order_and_the_count_of_literals_are_kept_but_not_doubles() -> None:
    template = load_template(with_field(close=["b", "a", "b"]))
    assert template.fields["f"].close == ("b", "a")
    assert template.to_dict()["fields"]["f"]["close"] == ["b", "a", "b"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*rules.TEMPLATE_KEYS, *rules.FIELD_KEYS, "f"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(_JSON)
def test_whatever_comes_is_a_template_or_a_template_error(source: Any) -> None:
    try:
        template = load_template(source)
    except TemplateError:
        return
    assert template == load_template(template.to_dict())
