"""Whatever comes in: an error that says what is wrong, or a message that loses nothing; never anything else."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given

from response_templates import (
    InputTypeError,
    ParseError,
    PrefixRequiredError,
    ResponseParser,
    TemplateError,
    explain,
    parse_response,
    patterns,
)
from strategies import Case, cases, hostile_texts

ANCHOR = "<|assistant|>"
NAMED_CALL = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
COMMON: dict[str, Any] = {
    "reasoning_content": {"open": "<think>", "close": "</think>"},
    "content": {"close": "<|end|>", "repeats": True, "join": ""},
}


def template(**fields: Any) -> dict[str, Any]:
    return {"defaults": {"role": "assistant"}, "start_anchor": ANCHOR, "fields": {**COMMON, **fields}}


JSON = template(
    tool_calls={
        "open": "<tool_call>",
        "close": "</tool_call>",
        "content": "json",
        "repeats": True,
        "transform": {"type": "function", "function": "{content}"},
    }
)
XML = template(
    tool_calls={
        "open_pattern": r"<tool_call>\s*<function=(?P<name>[^>]+)>",
        "close_pattern": r"</function>\s*</tool_call>",
        "content": "xml-inline",
        "content_args": {"tag_pattern": r"<parameter=(?P<key>[^>]+)>(?P<value>.*?)</parameter>"},
        "repeats": True,
        "transform": NAMED_CALL,
    }
)
PYTHON = template(
    tool_calls={
        "open": "<|calls|>",
        "close": "<|/calls|>",
        "content": "python-call-list",
        "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{arguments}"}},
        "transform_each": True,
    }
)
SHAPES = {"json": JSON, "xml": XML, "python": PYTHON}
CUT: dict[str, tuple[dict[str, Any], str, str, int]] = {
    # template, the text before the call, the call, how many characters of it say that it is whole (0: only all do)
    "json": (
        JSON,
        "<think>Hm.</think>Sure.",
        '<tool_call>\n{"name": "f", "arguments": {"a": "x</tool_call>y", "n": [1, 2]}}\n</tool_call>',
        len('<tool_call>\n{"name": "f", "arguments": {"a": "x</tool_call>y", "n": [1, 2]}}'),
    ),
    "xml": (
        XML,
        "<think>Hm.</think>Sure.",
        "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n<parameter=n>1</parameter>\n</function>\n</tool_call>",
        0,
    ),
    "python": (
        PYTHON,
        "<think>Hm.</think>Sure.",
        "<|calls|>[f(a='x<|/calls|>y', n=[1, 2])]<|/calls|>",
        len("<|calls|>[f(a='x<|/calls|>y', n=[1, 2])]"),
    ),
}


# --- arguments of the wrong kind ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [b"<think>", bytearray(b"x"), None, 1, 1.5, ["a"], {"a": 1}], ids=repr)
def test_text_that_is_no_str(text: Any) -> None:
    parser = ResponseParser(JSON, "")
    with pytest.raises(InputTypeError) as caught:
        parser.feed(text)
    assert isinstance(caught.value, (TypeError, ValueError))
    assert type(text).__name__ in str(caught.value)
    parser.feed("still good")
    assert parser.finalize()[0]["content"] == "still good"
    if not isinstance(text, list):
        with pytest.raises(InputTypeError):
            parse_response(text, JSON, prefix="")


def test_text_that_is_no_str_after_plain_text() -> None:
    """The fast way for plain chunks takes nothing else either."""
    parser = ResponseParser(JSON, "", errors="recover")
    parser.feed("abc")
    parser.feed("def")
    for text in (b"x", None, 7):
        with pytest.raises(InputTypeError):
            parser.feed(text)  # type: ignore[arg-type]
    assert parser.finalize()[0]["content"] == "abcdef"


def test_bytes_are_told_what_to_do() -> None:
    with pytest.raises(InputTypeError, match="decode"):
        parse_response(b"x", JSON, prefix="")  # type: ignore[call-overload]


@pytest.mark.parametrize("texts", [["a", b"b"], ["a", None], ["a", ["b"]]], ids=repr)
def test_lists_that_hold_something_else(texts: Any) -> None:
    with pytest.raises(InputTypeError):
        parse_response(texts, JSON, prefix="")


@pytest.mark.parametrize("prefix", [b"x", 1, ["x"], {"a": 1}], ids=repr)
def test_a_prefix_that_is_no_str(prefix: Any) -> None:
    with pytest.raises(InputTypeError, match="prefix"):
        ResponseParser(JSON, prefix)
    with pytest.raises(InputTypeError, match="prefix"):
        parse_response("x", JSON, prefix=prefix)


def test_the_prefix_left_out() -> None:
    with pytest.raises(PrefixRequiredError, match='prefix=""'):
        ResponseParser(JSON)


def test_a_subclass_of_str_is_text() -> None:
    class Token(str):
        __slots__ = ()

    parser = ResponseParser(JSON, "")
    for text in ("a", "b", "<think>", "c", "d", "</think>"):
        parser.feed(Token(text))
    assert parser.finalize()[0] == {"role": "assistant", "content": "ab", "reasoning_content": "cd"}


def test_a_template_of_a_future_version() -> None:
    with pytest.raises(TemplateError, match="'version' is 2"):
        ResponseParser({**JSON, "version": 2}, "")


# --- odd texts -----------------------------------------------------------------------------------------------------

ODD: dict[str, tuple[str, dict[str, Any]]] = {
    "empty": ("", {}),
    "NUL": ("a\x00b", {"content": "a\x00b"}),
    "a lone surrogate": ("a\ud83db", {"content": "a\ud83db"}),
    "surrogates in reasoning": ("<think>\udc00\ud800</think>", {"reasoning_content": "\udc00\ud800"}),
    "a surrogate inside a delimiter": ("<thi\ud800nk>", {"content": "<thi\ud800nk>"}),
    "control characters": ("\x01\x1b[0m\x7f", {"content": "\x01\x1b[0m\x7f"}),
    "only white space": (" \n\t ", {}),
    "text after the end token": ("Hi.<|end|> there", {"content": "Hi.there"}),
    "end tokens only": ("<|end|><|end|>", {}),
    "closes only": ("</think></tool_call>", {"content": "</think></tool_call>"}),
    "opens only": ("<think><think>", {"reasoning_content": "<think>"}),
    "brackets without end": ("[" * 20_000, {"content": "[" * 20_000}),
    "a NUL in a call": (
        '<tool_call>{"name": "f", "arguments": {"a": "\x00"}}</tool_call>',
        {"tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"a": "\x00"}}}]},
    ),
    "an unpaired escape in a call": (
        '<tool_call>{"name": "f", "arguments": {"a": "\\ud800"}}</tool_call>',
        {"tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"a": "\ufffd"}}}]},
    ),
}


@pytest.mark.parametrize(("text", "expected"), ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("errors", ["strict", "recover"])
def test_odd_texts_are_texts(text: str, expected: dict[str, Any], errors: Any) -> None:
    expected = {"role": "assistant", **expected}
    assert parse_response(text, JSON, prefix="", errors=errors) == expected
    parser = ResponseParser(JSON, "", errors=errors)
    for char in text:
        parser.feed(char)
        parser.feed("")
    assert parser.finalize()[0] == expected


def test_nothing_is_fed_at_all() -> None:
    assert ResponseParser(JSON, "").finalize() == ({"role": "assistant"}, [])


PREFIXES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "no anchor": ("<think>a", "b", {"reasoning_content": "ab"}),
    "nothing after the anchor": (f"x{ANCHOR}", "b", {"content": "b"}),
    "half an anchor": ("x<|assis", "b", {"content": "x<|assisb"}),
    "the end inside a delimiter": (f"{ANCHOR}<thi", "nk>b", {"reasoning_content": "b"}),
    "the end inside what is none": (f"{ANCHOR}<thi", "s>b", {"content": "<this>b"}),
    "surrogates": (f"\ud800{ANCHOR}\ud800", "b", {"content": "\ud800b"}),
    "white space": (f"{ANCHOR}\n\n", " b", {"content": "b"}),
    "very long": ("x" * 300_000 + ANCHOR, "b", {"content": "b"}),
}


@pytest.mark.parametrize(("prefix", "text", "expected"), PREFIXES.values(), ids=PREFIXES.keys())
def test_odd_prefixes(prefix: str, text: str, expected: dict[str, Any]) -> None:
    assert parse_response(text, JSON, prefix=prefix) == {"role": "assistant", **expected}


BAD_BODIES: dict[str, tuple[str, str]] = {
    "too large a number": ("json", '{"name": "f", "arguments": {"x": 1e400}}'),
    "too large an int": ("json", '{"name": "f", "arguments": {"x": ' + "1" * 10_000 + "}}"),
    "NaN": ("json", '{"name": "f", "arguments": {"x": NaN}}'),
    "Infinity": ("json", '{"name": "f", "arguments": {"x": -Infinity}}'),
    "brackets without end": ("json", "[" * 20_000),
    "brackets with an end": ("json", "[" * 20_000 + "]" * 20_000),
    "objects without end": ("json", '{"a":' * 20_000),
    "brackets in arguments": ("json", '{"name": "f", "arguments": {"x": ' + "[" * 20_000 + "]" * 20_000 + "}}"),
    "arguments nested in a string": ("json", json.dumps({"name": "f", "arguments": "[" * 20_000})),
    "Python lists without end": ("python", "[f(x=" + "[" * 20_000),
    "Python lists with an end": ("python", "[f(x=" + "[" * 20_000 + "]" * 20_000 + ")]"),
    "Python calls inside calls": ("python", "[" + "f(" * 20_000),
    "a Python number too large": ("python", "[f(x=1e400)]"),
    "an unpaired surrogate escape in Python": ("python", "[f(x='\\ud800')]"),
    "a lone quote": ("json", '"'),
    "a lone backslash": ("json", "\\"),
    "a NUL": ("json", "\x00"),
}
DELIMITERS = {"json": ("<tool_call>", "</tool_call>"), "python": ("<|calls|>", "<|/calls|>")}


@pytest.mark.parametrize(("shape", "body"), BAD_BODIES.values(), ids=BAD_BODIES.keys())
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "cut off"])
def test_bodies_that_are_no_values(shape: str, body: str, closed: bool) -> None:
    opening, closing = DELIMITERS[shape]
    text = opening + body + (closing if closed else "")
    with pytest.raises(ParseError) as caught:
        parse_response(text, SHAPES[shape], prefix="")
    assert caught.value.field == "tool_calls"
    assert caught.value.text == text
    message = parse_response(text, SHAPES[shape], prefix="", errors="recover")
    assert "tool_calls" not in message
    assert [entry["text"] for entry in message["malformed"]] == [text]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [1_000_000], ids=["1 MB"])
def test_a_long_generation_without_any_delimiter(shape: str, size: int) -> None:
    text = ("word " * (size // 5))[:-1] + "."
    for chunk in (size, 4_096):
        parser = ResponseParser(SHAPES[shape], "")
        for at in range(0, size, chunk):
            parser.feed(text[at : at + chunk])
        assert parser.finalize()[0] == {"role": "assistant", "content": text}


# --- a call cut at every single character ------------------------------------------------------------------------

CLOSE = {"json": "</tool_call>", "python": "<|/calls|>"}


def in_string(call: str) -> bool:
    """Does this beginning of a call end in the string that holds a close, behind that close?"""
    return call.endswith(("</tool_call>y", "<|/calls|>y"))


_CUTS = [(shape, at) for shape, (_, before, call, _) in CUT.items() for at in range(len(before + call) + 1)]


@pytest.mark.parametrize(("shape", "at"), _CUTS, ids=[f"{shape}-{at}" for shape, at in _CUTS])
def test_a_generation_cut_anywhere(shape: str, at: int) -> None:
    cut_template, before, call, enough = CUT[shape]
    whole = parse_response(before + call, cut_template, prefix="")
    assert len(whole["tool_calls"]) == 1
    text = (before + call)[:at]
    written = at - len(before)  # of the call
    is_whole = written == len(call) or (0 < enough <= written)
    recovered = parse_response(text, cut_template, prefix="", errors="recover")
    if is_whole:
        assert recovered == whole == parse_response(text, cut_template, prefix="")
        return
    assert "tool_calls" not in recovered
    opened = any(span.field == "tool_calls" for span in explain(text, cut_template))
    if opened:
        (entry,) = recovered.pop("malformed")
        assert entry["field"] == "tool_calls"
        # a close inside a string that never ended was the close after all: what follows it is content
        end = written if not in_string(call[:written]) else call.index(CLOSE[shape]) + len(CLOSE[shape])
        assert entry["text"] == call[: min(end, written)]
        rest = call[end:written]
        assert recovered == {"role": "assistant", "reasoning_content": "Hm.", "content": "Sure." + rest}
        with pytest.raises(ParseError) as caught:
            parse_response(text, cut_template, prefix="")
        assert caught.value.text == entry["text"]
        assert caught.value.partial == {"role": "assistant", "reasoning_content": "Hm.", "content": "Sure."}
    else:
        assert "malformed" not in recovered
        assert recovered == parse_response(text, cut_template, prefix="")
        kept = recovered.get("reasoning_content", "") + recovered.get("content", "")
        for mark in ("<think>", "</think>"):
            text = text.replace(mark, "")
        assert kept == text.rstrip()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_stream_cut_anywhere_is_as_the_whole_text_cut_there(shape: str) -> None:
    cut_template, before, call, _ = CUT[shape]
    text = before + call
    for at in range(len(text) + 1):
        parser = ResponseParser(cut_template, "", errors="recover")
        for char in text[:at]:
            parser.feed(char)
        assert parser.finalize()[0] == parse_response(text[:at], cut_template, prefix="", errors="recover")


# --- any text at all -----------------------------------------------------------------------------------------------


@given(cases(), hostile_texts(), hostile_texts())
@example(Case(JSON, "", ""), '<tool_call>{"name": "f', "</tool_call>\ud800")
def test_recover_never_raises(case: Case, text: str, more: str) -> None:
    for whole in (case.text, text, case.text + text, text + case.text + more):
        message = parse_response(whole, case.template, prefix=case.prefix, errors="recover")
        parser = ResponseParser(case.template, case.prefix, errors="recover")
        for char in whole:
            parser.feed(char)
        assert parser.finalize()[0] == message
        for entry in message.get("malformed", []):
            assert isinstance(entry["error"], str)


@given(cases(), hostile_texts())
def test_strict_raises_parse_errors_only(case: Case, text: str) -> None:
    for whole in (case.text, text, case.text + text):
        recovered = parse_response(whole, case.template, prefix=case.prefix, errors="recover")
        try:
            message = parse_response(whole, case.template, prefix=case.prefix)
        except ParseError as error:
            assert error.text in case.prefix + whole
            assert recovered["malformed"]
        else:
            assert message == recovered


# --- templates that mean harm --------------------------------------------------------------------------------------

HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "a close that hangs regex": (
        {"start_anchor": "@", "fields": {"a": {"open": "<a>", "close_pattern": r"(x)(?:a|a|a)*b\1"}}},
        "<a>x" + "a" * 60,
    ),
    "an open that hangs regex": (
        {"start_anchor": "@", "fields": {"a": {"open_pattern": r"(x)(?:a|a|a)*b\1"}, "content": {}}},
        "x" + "a" * 60,
    ),
    "an anchor that hangs regex": (
        {"start_anchor_pattern": r"(x)(?:a|a|a)*b\1", "fields": {"content": {}}},
        "x" + "a" * 60,
    ),
    "a tag that hangs regex": (
        {
            "start_anchor": "@",
            "fields": {
                "a": {
                    "open": "<a>",
                    "close": "</a>",
                    "content": "xml-inline",
                    "content_args": {"tag_pattern": r"(?P<key>x)(?:a|a|a)*b(?P=key)"},
                }
            },
        },
        "<a>x" + "a" * 60 + "</a>",
    ),
}


@pytest.mark.parametrize(("hostile", "text"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_template_cannot_make_a_call_hang_or_crash(
    hostile: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "REGEX_SECONDS", 0.05)
    try:
        message = parse_response(text, hostile, prefix=text, errors="recover")
    except TemplateError as error:  # only the anchor, which is looked for before anything is parsed
        assert "start_anchor_pattern" in str(error)
        return
    assert message  # the text is kept: as a value, or under `malformed`
    try:
        strict = parse_response(text, hostile, prefix=text)
    except ParseError:
        return
    assert strict == message


HUGE = {
    "nested groups": "(?:" * 1_600,
    "nested groups, closed": "(?:" * 1_000 + "a" + ")" * 1_000,
    "nested classes": "[" * 4_000,
    "many groups": "(?P<n>a)" * 600,
    "a large repeat": "(?:a{1000}){1000}",
    "a huge repeat": "a{99999999}",
    "repeats of repeats": "(?:(?:a{1000}){1000}){1000}",
}
LOADING = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from response_templates import TemplateError, parse_response
field = {"open": "<", "close_pattern": json.loads(sys.argv[1]), "transform": "{content}"}
try:
    message = parse_response("<b", {"start_anchor": "@", "fields": {"a": field}}, prefix="")
    assert message["a"] == "b"
except TemplateError:
    pass
# (getrusage's figure would be that of the process that started this one, where that is larger)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measures memory as Linux gives it")
@pytest.mark.parametrize("pattern", HUGE.values(), ids=HUGE.keys())
def test_templates_with_huge_patterns_load_or_are_refused(pattern: str) -> None:
    """In a process of its own, for a pattern that is not refused in time may take all memory."""
    done = subprocess.run(
        [sys.executable, "-c", LOADING, json.dumps(pattern)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 500_000  # kilobytes
