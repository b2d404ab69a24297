"""The alphabet with marks: what is marked comes back, and rewritten delimiters find what they found before."""

from __future__ import annotations

from typing import Any

import pytest
import regex
from hypothesis import assume, given
from hypothesis import strategies as st

from response_templates import ParseError, ResponseParser, TemplateError, load_template, syntax
from response_templates.control import ControlTokens, controls_for, find_mark, spelled_texts
from response_templates.id_parser import ControlParser
from strategies import Case, cases, splits
from test_properties import exact, merged, promise

TOKENS = ("<a>", "</a>", "<|b|>", "<b", "<long_a>", "<long_b>", "“é”")
CONTROLS = ControlTokens(TOKENS)


# --- marks -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([*TOKENS, "<", "a", ">", "é", "🚀", "\n"])).map("".join))
def test_what_is_marked_comes_back(text: str) -> None:
    marked = CONTROLS.mark_all(text)
    assert len(marked) == len(text)
    assert CONTROLS.unmark(marked) == text
    assert CONTROLS.unmark(text) == text
    assert (find_mark(marked) is None) == (marked == text)


def test_each_place_of_each_token_has_a_mark_of_its_own() -> None:
    marks = "".join(CONTROLS.marked.values())
    assert len(set(marks)) == len(marks) == sum(map(len, TOKENS))


def test_too_many_control_tokens() -> None:
    with pytest.raises(TemplateError, match="too many"):
        ControlTokens(f"<{number:0>20}>" for number in range(100))


# --- which tokens ----------------------------------------------------------------------------------------------------

SPELLED: dict[str, tuple[str, set[str]]] = {
    "a literal": ("<a>", {"<a>"}),
    "two, with text between": ("<a>x</a>", {"<a>", "</a>"}),
    "through a choice": ("<long_(?:a|b)>", {"<long_a>", "<long_b>"}),
    "through something optional": ("<(?:long_)?a>", {"<a>", "<long_a>"}),
    "through a choice of patterns": ("<a(?: [a-z]+)?>", {"<a>"}),
    "at the end of a choice": ("(?:x|<)a>", {"<a>"}),
    "in a lookahead": ("x(?=</a>)", {"</a>"}),
    "in a lookbehind": ("(?<=<a>)x", {"<a>"}),
    "in a group": ("(?P<n><a>|x)", {"<a>"}),
    "in a repeat": ("(?:<a>)+", {"<a>"}),
    "nowhere": ("<[ab]>|<a|b>", {"<b"} - {"<b"}),
    "not through a class": ("<[a]>", set()),
}


def template_of(pattern: str) -> dict[str, Any]:
    groups = regex.compile(pattern).groupindex
    field: dict[str, Any] = {"open_pattern": pattern, "close": "!"}
    if groups:
        field["transform"] = {name: f"{{{name}}}" for name in groups} | {"text": "{content}"}
    return {"start_anchor": "@", "fields": {"f": field}}


@pytest.mark.parametrize("kind", SPELLED)
def test_the_tokens_that_a_pattern_spells(kind: str) -> None:
    pattern, wanted = SPELLED[kind]
    controls = controls_for(load_template(template_of(pattern)), TOKENS)
    assert set(controls.marked) == wanted


@pytest.mark.parametrize("kind", SPELLED)
def test_what_is_only_spelled_is_not_found(kind: str) -> None:
    pattern, wanted = SPELLED[kind]
    controls = controls_for(load_template(template_of(pattern)), TOKENS)
    for token in wanted:
        text = {"in a lookahead": f"x{token}", "in a lookbehind": f"{token}x"}.get(kind, token)
        if kind == "two, with text between":
            text = "<a>x</a>"
        assert opens(template_of(pattern), controls.mark_all(text), controls)
        assert not opens(template_of(pattern), text, controls)


def opens(template: dict[str, Any], text: str, controls: ControlTokens) -> bool:
    parser = marked_parser(template, controls)
    events = parser._feed_text(text) + parser.finalize()[1]
    return any(event["type"] == "region_open" for event in events)


def test_white_space_is_no_control_token() -> None:
    assert not controls_for(load_template(template_of("a\n\nb")), ["\n\n", " "]).marked


def test_a_pattern_outside_the_subset_is_refused() -> None:
    with pytest.raises(TemplateError, match="field 'f'"):
        controls_for(load_template(template_of("(?>a|b)<a>")), TOKENS)


def test_many_choices_are_not_multiplied_out() -> None:
    """They are left as they are, so that spelled text may count there; but it doesn't take long."""
    pattern = "(?:a|b)?" * 40 + "<a>"
    controls = controls_for(load_template(template_of(pattern)), TOKENS)
    assert set(controls.marked) == {"<a>"}
    assert isinstance(controls.rewritten(syntax.parse(pattern)), syntax.Sequence)


# --- searching -------------------------------------------------------------------------------------------------------


class NoIds:
    """Stands in for a stream of ids: there are none."""

    whole: dict[int, str] = {}  # noqa: RUF012
    busy = False

    def flush(self) -> str:
        return ""


def marked_parser(template: Any, controls: ControlTokens, prefix: str = "", errors: str = "recover") -> ControlParser:
    return ControlParser(template, prefix, None, NoIds(), controls, errors=errors)  # type: ignore[arg-type]


def overlaps_itself(text: str) -> bool:
    return any(text.endswith(text[:size]) for size in range(1, len(text)))


@promise
@given(cases(), st.data())
def test_where_all_is_control_tokens_nothing_changes(case: Case, data: st.DataObject) -> None:
    """A text whose every spelled token is that token, in the alphabet with marks, is parsed as without."""
    try:
        texts = spelled_texts(load_template(case.template))
    except TemplateError:
        assume(False)
    parts = sorted({text[begin:end] for text in texts for begin in range(len(text)) for end in range(begin + 1, 9)})
    token = data.draw(st.sampled_from([part for part in parts if part.strip() and not overlaps_itself(part)] or ["?"]))
    controls = controls_for(load_template(case.template), [token])
    errors = data.draw(st.sampled_from(["recover", "strict"]))
    chunks = data.draw(splits(case.text))
    plain = ResponseParser
    wanted = outcome(lambda: plain(case.template, case.prefix, errors=errors), chunks)  # type: ignore[arg-type]
    whole = controls.mark_all(case.text)
    marked, at = [], 0
    for chunk in chunks:
        marked.append(whole[at : at + len(chunk)])
        at += len(chunk)
    prefix = controls.mark_all(case.prefix)
    assume(controls.mark_all(case.prefix + case.text) == prefix + whole)  # no token across the border
    assert outcome(lambda: marked_parser(case.template, controls, prefix, errors), marked) == wanted


def outcome(make: Any, chunks: list[str]) -> str:
    try:
        parser = make()
        feed = parser._feed_text if isinstance(parser, ControlParser) else parser.feed
        events = list(parser.initial_events)
        for chunk in chunks:
            events += feed(chunk) if chunk else []
        message, last = parser.finalize()
        return exact(["parsed", message, merged(events + last)])
    except ParseError as error:
        return exact(["refused", error.field, error.text, error.position, error.partial, str(error)])


@promise
@given(cases(), st.data())
def test_where_none_is_a_control_token_delimiters_of_that_token_are_text(case: Case, data: st.DataObject) -> None:
    """With literals only: it is as if the token's text had letters in it that are in no delimiter."""
    literals = [
        literal
        for field in load_template(case.template).fields.values()
        for literal in (*field.open, *field.close)
        if not (field.open_pattern or field.close_pattern)
    ]
    fields = load_template(case.template).fields.values()
    assume(literals and not any(field.open_pattern or field.close_pattern for field in fields))
    token = data.draw(st.sampled_from(literals))
    assume(
        token.strip() and not overlaps_itself(token) and not any(token in each and token != each for each in literals)
    )
    assume(not any(beginning(token, other) for other in literals if other != token))
    controls = controls_for(load_template(case.template), [token])
    others = {
        key: {**field, **{role: without(field[role], token) for role in ("open", "close") if role in field}}
        for key, field in case.template["fields"].items()  # type: ignore[union-attr]
    }
    template = {**case.template, "fields": others}
    wanted = outcome(lambda: ResponseParser(template, "", errors="recover"), [case.text])
    assert outcome(lambda: marked_parser(case.template, controls), [case.text]) == wanted


def beginning(token: str, other: str) -> bool:
    """Does one of the two end in a beginning of the other? Then what is held at the end differs."""
    return any(
        token.endswith(other[:size]) or other.endswith(token[:size])
        for size in range(1, min(len(token), len(other)) + 1)
    )


def without(literals: Any, token: str) -> Any:
    """The literals, but for `token`, in whose place is one that no text holds."""
    listed = [literals] if isinstance(literals, str) else literals
    return [literal if literal != token else "\ue000" for literal in listed]
