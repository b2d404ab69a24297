"""No input makes the parser slow: twice the text, at most about twice the steps.

Steps are counted, not seconds, so that a busy machine changes nothing: every call of a Python function and of a builtin
(a loop of any kind calls something), and every character that is copied or searched in C on the way (see `_Counted`).
The runs that are compared find the memos (the lazy DFA's transitions) filled; what filling them costs has a test of its
own.
"""

from __future__ import annotations

import cProfile
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from benchmarks.hostile_texts import CONTENT_BODIES, GENERATORS, markers_of

from response_templates import (
    ParseError,
    ResponseParser,
    ResponseTemplate,
    TemplateError,
    automaton,
    buffer,
    captures,
    delimiters,
    get_template,
    list_templates,
    load_template,
    patterns,
    plan,
    search,
)
from response_templates.content import ContentError, ContentParser, compile_content

SIZE = 400  # characters; the double is compared with it
SLACK = 2.3  # how much more twice the text may cost
CONSTANT = 2_000  # steps that do not depend on the text: making the parser, closing the last region, new text in a memo
CHUNKS = {"whole": None, "in fours": 4, "single characters": 1}
TEMPLATES = list_templates()


# --- counting ----------------------------------------------------------------------------------------------------


class _Counted:
    """Characters that C code reads or copies where the parser asks it to: each of these methods tells how many."""

    def __init__(self) -> None:
        self.characters = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for owner in (search.Search, delimiters._LiteralSearch, delimiters._GuardedSearch):
                self._wrap(patch, owner, "feed", lambda result, arguments: result - _offset(arguments))
            for name in ("take", "peek", "text"):
                self._wrap(patch, buffer.TextBuffer, name, lambda result, _: len(result))
            self._wrap(patch, buffer.TextBuffer, "give_back", lambda _, arguments: sum(map(len, arguments[1])))
            self._wrap(patch, captures.Tracker, "groups", lambda _, arguments: arguments[1].end - arguments[1].start)
            yield

    def _wrap(self, patch: pytest.MonkeyPatch, owner: type, name: str, count: Callable[[Any, Any], int]) -> None:
        original = getattr(owner, name)

        def counting(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            self.characters += count(result, arguments)
            return result

        patch.setattr(owner, name, counting)


def _offset(arguments: tuple[Any, ...]) -> int:
    """The offset that a search's `feed` was called with."""
    return int(arguments[2]) if len(arguments) > 2 else 0


def steps(run: Callable[[], object]) -> int:
    """Calls made and characters handled in `run`."""
    counted = _Counted()
    profile = cProfile.Profile()
    gc.disable()  # what a finalizer does is not a step of the parser
    with counted.watching():
        profile.enable()
        try:
            run()
        finally:
            profile.disable()
            gc.enable()
    calls = sum(entry.callcount for entry in profile.getstats())
    return int(calls) + counted.characters


def parse(template: ResponseTemplate, text: str, chunk: int | None) -> dict[str, Any]:
    """Parse `text`, whole or in chunks. Nothing is raised in recover mode."""
    parser = ResponseParser(template, "", errors="recover")
    size = chunk or len(text) or 1
    for at in range(0, len(text), size):
        parser.feed(text[at : at + size])
    return parser.finalize()[0]


def excess(run: Callable[[int], object], size: int, *, constant: int = CONSTANT) -> str:
    """ "" if `run(2 * size)` costs at most about twice the steps of `run(size)`, else both counts.

    A text may come to what costs only behind its first `size` characters (long markers, one after the other). So what
    seems to be too much is measured again on texts that are eight times as long, where growth beyond linear still is.
    """
    return _excess(run, size, constant) and _excess(run, 8 * size, constant)


def _excess(run: Callable[[int], object], size: int, constant: int) -> str:
    run(2 * size)  # fills the memos
    small, large = (steps(lambda factor=factor: run(factor * size)) for factor in (1, 2))  # type: ignore[misc]
    return "" if large <= SLACK * small + constant else f"{small} steps, and {large} for twice the text"


def report(excesses: dict[str, str]) -> str:
    return "\n".join(f"{name}: {what}" for name, what in excesses.items() if what)


# --- the count itself --------------------------------------------------------------------------------------------


def _linear(size: int) -> None:
    for _ in range(10 * size):
        len("")


def _quadratic(size: int) -> None:
    for _ in range(size * size // 10):
        len("")


def test_the_count_tells_linear_from_quadratic() -> None:
    assert not excess(_linear, SIZE)
    assert excess(_quadratic, SIZE)


def test_the_count_notices_a_buffer_that_copies_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    template = load_template({"start_anchor": "A", "fields": {"content": {"close_pattern": r"<e\s*>"}}})

    def copying(self: buffer.TextBuffer, text: str) -> None:
        held = self.peek(self.end)
        self._pieces.clear()
        self._pieces.append(held + text)
        self._head = 0
        self.end += len(text)

    monkeypatch.setattr(buffer.TextBuffer, "append", copying)
    assert excess(lambda size: parse(template, "<e" + " " * size, 1), SIZE)


# --- every template of the registry -------------------------------------------------------------------------------


def test_there_are_enough_generators() -> None:
    assert len(GENERATORS) >= 30


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_generator_keeps_to_the_length(generator: str) -> None:
    markers = markers_of(get_template(TEMPLATES[0]).template)
    short, long = (len(GENERATORS[generator](markers, size)) for size in (SIZE, 2 * SIZE))
    assert 1.8 < long / short < 2.3
    assert SIZE // 2 < short <= SIZE


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_twice_the_text_is_twice_the_steps(name: str, chunks: str) -> None:
    template = get_template(name).template
    markers = markers_of(template)

    def of(generator: str) -> str:
        make = GENERATORS[generator]
        return excess(lambda size: parse(template, make(markers, size), CHUNKS[chunks]), SIZE)

    slow = report({generator: of(generator) for generator in GENERATORS})
    assert not slow, slow


@pytest.mark.parametrize("name", TEMPLATES)
def test_filling_the_memos_is_bounded_too(name: str) -> None:
    """For each character at most a few threads are followed that no memo knew, and the memos stay small."""
    template = get_template(name).template
    markers = markers_of(template)
    plan.plan_for.cache_clear()
    machines = _machines(plan.plan_for(template))
    for generator, make in GENERATORS.items():
        before = sum(machine.work for machine in machines)
        text = make(markers, 2 * SIZE)
        parse(template, text, 4)
        work = sum(machine.work for machine in machines) - before
        assert work <= 20 * len(text) + 4 * sum(len(machine.program) for machine in machines), generator
    assert all(len(machine._states) < automaton.MAX_STATES for machine in machines)


def _machines(compiled: plan.Plan) -> list[automaton.Machine]:
    lists = [compiled.outside, *(field.closes for field in compiled.fields.values())]
    found = (getattr(each._finder, "_machine", None) for each in lists)
    return [machine for machine in found if machine is not None]


# --- the content parsers alone ------------------------------------------------------------------------------------

_LENIENT_JSON = {
    "unquoted_keys": True,
    "string_delims": [['<|"|>', '<|"|>'], ["'", "'"]],
    "allow_non_json": True,
}
CONTENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "json": ("json", {}),
    "lenient json": ("json", _LENIENT_JSON),
    "python-call-list": ("python-call-list", {}),
    "kv-lines": ("kv-lines", {}),
    "kv-lines of json": ("kv-lines", {"value_parser": {"name": "json", "args": _LENIENT_JSON}}),
    "plain tags": (
        "xml-inline",
        {"tag_pattern": r"<parameter=(?P<key>[^>]+)>\s*(?P<value>.*?)\s*</parameter>"},
    ),
    "int": ("int", {}),
    "float": ("float", {}),
    "bool": ("bool", {}),
    "text": ("text", {}),
} | {
    f"tags of {name}": ("xml-inline", field["content_args"])
    for name in TEMPLATES
    for field in get_template(name).template.to_dict()["fields"].values()
    if field.get("content") == "xml-inline"
}


def _read(parser: ContentParser, body: str) -> None:
    with suppress(ContentError):
        parser.parse(body)
    parser.is_whole(body)


@pytest.mark.parametrize("name", CONTENTS)
def test_a_content_parser_alone_is_linear(name: str) -> None:
    parser = compile_content(*CONTENTS[name])
    slow = report(
        {
            body: excess(lambda size, make=make: _read(parser, make(size)), 4 * SIZE)  # type: ignore[misc]
            for body, make in CONTENT_BODIES.items()
        }
    )
    assert not slow, slow


# --- hostile templates --------------------------------------------------------------------------------------------

PATTERNS = {
    "alternatives that are alike": r"(a|a)*b",
    "a loop that can be empty": r"(a*)*b",
    "nested loops": r"(a+)+b",
    "nested loops, counted": r"(?:a{1,30}){1,30}b",
    "a back reference": r"(a+)\1+b",
    "recursion": r"a(?R)?b",
    "lazy dots": r".*?.*?.*?.*?.*?b",
    "repeated lazy dots": r"(?:.*?a){12}b",
    "an atomic group": r"(?>a+)+b",
    "a conditional": r"(a)?(?(1)b|c)",
    "fuzzy": r"(?:aaaa){e<=3}b",
    "a huge repeat": r"a{1,100000}b",
    "huge repeats of huge repeats": r"(?:a{1,300}){1,300}b",
    "lookaheads in lookaheads": r"(?=(?=(?=(?:a|a)*b)a*c)a*d)a",
    "a lookahead in a loop": r"(?:(?!a*b)a)*b",
    "a lookbehind of many lengths": r"(?<=(?:a|aa){1,30})b",
    "groups in groups": "(" * 150 + "a" + ")" * 150 + "b",
    "many alternatives": "|".join("a" * length + "b" for length in range(1, 60)),
}


def _with_pattern(role: str, pattern: str) -> dict[str, Any]:
    field = {"open": "<x>", "close": "</x>", "repeats": True, "join": ""}
    del field[role]
    return {"start_anchor": "A", "fields": {"content": {}, "x": {**field, f"{role}_pattern": pattern}}}


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("role", ["open", "close"])
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_a_catastrophic_pattern_is_refused_or_loses_nothing(
    pattern: str, role: str, chunks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "REGEX_SECONDS", 0.05)
    try:
        template = load_template(_with_pattern(role, pattern))
    except TemplateError:
        return
    text = "<x>" + "a" * 200 + "e"  # no delimiter: what the pattern begins to match never ends
    message = parse(template, text, CHUNKS[chunks])
    assert message.get("content", "") + message.get("x", "") in (text, text.removeprefix("<x>"))


def test_a_pattern_that_runs_out_of_time_is_an_error_in_strict_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "REGEX_SECONDS", 0.05)
    template = load_template(_with_pattern("open", PATTERNS["a back reference"]))
    parser = ResponseParser(template, "")
    with pytest.raises(ParseError):
        parser.feed("a" * 5_000)
        parser.finalize()
    recovered = parse(template, "a" * 5_000, None)
    assert recovered["content"] == "a" * 5_000
    assert recovered["malformed"]


@pytest.mark.parametrize(
    "fields",
    [
        {f"f{number}": {"open": f"<{number}>", "close": f"</{number}>"} for number in range(10_000)},
        {"content": {}, "x": {"open": "a" * 1_000_000, "close": "b"}},
        {"content": {}, "x": {"open_pattern": "a" * 1_000_000, "close": "b"}},
    ],
    ids=["10,000 fields", "a literal of 1 MB", "a pattern of 1 MB"],
)
def test_a_template_beyond_all_measure_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(TemplateError):
        load_template({"start_anchor": "A", "fields": fields})
