"""Texts that an attacker, or a model that has lost its way, might write: what a parser must not be slow on.

Each generator takes a template's markers and a length, and gives a text of that length. The markers are taken from the
template itself: a sample of each delimiter, literal or pattern. So a new template meets them all without a line here.
Shared by `python -m benchmarks.hostile` (time) and `tests/test_hostile.py` (steps).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from response_templates import ResponseTemplate, syntax
from response_templates.template import Field

JSON_CALL = '{"name": "f", "arguments": {"a": 1}}'
XML_CALL = "<function=f>\n<parameter=a>\n1\n</parameter>\n</function>"
PYTHON_CALL = "[f(a=1)]"
CALLS = (JSON_CALL, XML_CALL, PYTHON_CALL)


@dataclass(frozen=True)
class Markers:
    """Samples of a template's delimiters.

    Attributes:
        opens, closes: of all fields.
        thinking: an open of a field of text (reasoning), "" if there is none.
        call, end_call: an open and a close of the field whose body is structured.
    """

    opens: tuple[str, ...]
    closes: tuple[str, ...]
    thinking: str
    call: str
    end_call: str

    @property
    def all(self) -> tuple[str, ...]:
        return self.opens + self.closes


def markers_of(template: ResponseTemplate) -> Markers:
    """Samples of the delimiters of `template`."""
    fields = list(template.fields.values())
    calls = [field for field in fields if field.name == "tool_calls"] or fields[-1:]
    texts = [field for field in fields if field.content == "text" and not field.implicit]
    opens = [sample for field in fields for sample in samples(field, "open")]
    closes = [sample for field in fields for sample in samples(field, "close")]
    return Markers(
        opens=tuple(dict.fromkeys(opens)) or ("<x>",),
        closes=tuple(dict.fromkeys(closes)) or ("</x>",),
        thinking=_first(itertools.chain.from_iterable(samples(field, "open") for field in texts), ""),
        call=_first(itertools.chain.from_iterable(samples(field, "open") for field in calls), ""),
        end_call=_first(itertools.chain.from_iterable(samples(field, "close") for field in calls), "</x>"),
    )


def samples(field: Field, role: str) -> list[str]:
    """A sample of each alternative of a field's opens or closes."""
    literals, pattern = (field.open, field.open_pattern) if role == "open" else (field.close, field.close_pattern)
    if pattern is None:
        return list(literals)
    try:
        node = syntax.parse(pattern)
    except syntax.Unsupported:
        return []
    options = node.options if isinstance(node, syntax.Choice) else (node,)
    found = (_sample(option) or _sample(option, with_lookahead=True) for option in options)
    return [sample for sample in found if sample]


def _sample(node: syntax.Node, *, with_lookahead: bool = False) -> str:
    """The shortest text that the pattern takes, lookaround apart; or with what its lookaheads ask for written out."""
    if isinstance(node, syntax.Char):
        return node.literal if node.literal is not None else _member(node)
    if isinstance(node, syntax.Sequence):
        return "".join(_sample(item, with_lookahead=with_lookahead) for item in node.items)
    if isinstance(node, syntax.Choice):
        return _sample(node.options[0], with_lookahead=with_lookahead)
    if isinstance(node, syntax.Repeat):
        return _sample(node.item, with_lookahead=with_lookahead) * node.least
    if isinstance(node, syntax.Capture):
        return _sample(node.item, with_lookahead=with_lookahead)
    if isinstance(node, syntax.Lookahead) and not node.negative and with_lookahead:
        return _sample(node.item, with_lookahead=True)
    return ""


def _member(char: syntax.Char) -> str:
    import regex

    accepts = regex.compile(char.source, regex.DOTALL).fullmatch
    return next((each for each in "f \n1{[<>=\"'\\/:|}]" if accepts(each)), "")


def _first(items: Iterable[str], default: str) -> str:
    return next((item for item in items if item), default)


# --- generators --------------------------------------------------------------------------------------------------

Generator = Callable[[Markers, int], str]
_GENERATORS: dict[str, Generator] = {}


def _generator(function: Generator) -> Generator:
    _GENERATORS[function.__name__] = function
    return function


def repeated(unit: str, size: int, before: str = "") -> str:
    """`before`, then `unit` over and over, `size` characters in all."""
    return (before + (unit or "x") * (size // len(unit or "x") + 1))[:size]


def _each(pieces: Iterable[str], size: int, before: str = "") -> str:
    return repeated("".join(pieces), size, before)


def _register(name: str, unit: Callable[[Markers], str], before: Callable[[Markers], str] = lambda _: "") -> None:
    """A generator that repeats one unit."""
    _GENERATORS[name] = lambda markers, size: repeated(unit(markers), size, before(markers))


def _in_call(markers: Markers) -> str:
    return markers.call


def _in_thinking(markers: Markers) -> str:
    return markers.thinking


def _json_string(markers: Markers) -> str:
    return markers.call + '{"name": "f", "arguments": {"a": "'


def _xml_value(markers: Markers) -> str:
    return markers.call + "<function=f>\n<parameter=a>\n"


# delimiters without their other half
_register("opens_never_closed", lambda m: "".join(m.opens))
_register("closes_never_opened", lambda m: "".join(m.closes))
_register("one_open_again_and_again", lambda m: m.opens[0])
_register("call_opens_again_and_again", lambda m: m.call + "\n")
_register("call_opens_in_thinking", lambda m: m.call, _in_thinking)
_register("empty_regions", lambda m: "".join(a + b for a, b in itertools.zip_longest(m.opens, m.closes, fillvalue="")))
_register("thinking_on_and_off", lambda m: m.thinking + "x" + m.closes[0] + "y")
# halves and near misses
_register("half_opens", lambda m: "".join(each[:-1] for each in m.opens))
_register("half_closes_in_a_call", lambda m: "".join(each[:-1] for each in m.closes), _in_call)
_register("half_closes_in_thinking", lambda m: "".join(each[:-1] for each in m.closes), _in_thinking)
_register("every_beginning", lambda m: "".join(e[:i] for e in m.all for i in range(1, len(e))))
_register("first_characters", lambda m: m.opens[0][0])
_register("first_characters_in_thinking", lambda m: m.closes[0][0], _in_thinking)
_register("first_two_characters_in_a_call", lambda m: m.end_call[:2], _in_call)
_register("near_misses", lambda m: "".join(each[:-2] + "#" + each[-1:] + each[:-1] + " " for each in m.all))
_register("near_misses_in_thinking", lambda m: "".join(each[:-1] + "_" + each[-1:] for each in m.all), _in_thinking)
_register("quoted_markers", lambda m: "".join(f"`{each}` '{each}' " for each in m.all))
_register("quoted_markers_in_thinking", lambda m: "".join(f"`{each}` " for each in m.all), _in_thinking)
_register("half_close_then_spaces", lambda m: m.end_call[:-1] + " " * 40, _in_call)
_register("close_then_spaces", lambda m: m.end_call + " \n" * 20)
# white space
_register("spaces", lambda m: " ")
_register("newlines", lambda m: "\n")
_register("spaces_in_a_call", lambda m: " ", _in_call)
_register("newlines_in_thinking", lambda m: "\n", _in_thinking)
_register("open_then_spaces_again_and_again", lambda m: m.call + " " * 60)
_register("unicode_spaces", lambda m: "\u00a0\u2003\u2028\x85\x1c")
# headers and names that don't end
_register("unfinished_headers", lambda m: "".join(each[: 2 * len(each) // 3] + " word" for each in m.opens))
_register("channels_never_ended", lambda m: "<|channel|>analysis to=functions.f <|constrain|>json")
_register("header_of_one_long_name", lambda m: "x", lambda m: m.call[:-1])
_register("header_of_spaces", lambda m: " ", lambda m: m.call[:-1])
_register("recipients", lambda m: " to=functions.f to=", lambda m: "<|channel|>commentary")
_register("functions_never_ended", lambda m: "<function=f", _in_call)
# JSON
_register("square_brackets", lambda m: "[", _in_call)
_register("objects_in_objects", lambda m: '{"a":', _in_call)
_register("lists_and_objects", lambda m: '[{"a":', _in_call)
_register("closing_brackets", lambda m: "}]", _in_call)
_register("quotes", lambda m: '"', _in_call)
_register("both_quotes", lambda m: "\"'", _in_call)
_register("string_never_closed", lambda m: "text ", _json_string)
_register("closes_in_a_string_never_closed", lambda m: m.end_call + " ", _json_string)
_register("closes_in_closed_strings", lambda m: f'"{m.end_call}", ', lambda m: m.call + '{"name": "f", "x": [')
_register("halves_in_a_string", lambda m: m.end_call[:-1], _json_string)
_register("backslashes", lambda m: "\\", _json_string)
_register("escaped_quotes", lambda m: '\\"', _json_string)
_register("surrogate_escapes", lambda m: "\\ud800", _json_string)
_register("one_long_number", lambda m: "9", lambda m: m.call + '{"name": "f", "arguments": {"a": ')
_register("commas", lambda m: ",", lambda m: m.call + "[")
_register("bare_words", lambda m: "a: b, ", lambda m: m.call + "{")
# XML-like bodies
_register("parameter_then_spaces", lambda m: " ", _xml_value)
_register("parameters_never_closed", lambda m: "<parameter=a>\n", _xml_value)
_register("parameters_that_close_only", lambda m: "\n</parameter>", _xml_value)
_register("parameter_closes_with_a_space", lambda m: "\n</parameter >\n</ parameter>", _xml_value)
_register("parameters_closed_then_spaces", lambda m: "</parameter>" + " " * 30, _xml_value)
_register("many_parameters", lambda m: "<parameter=a>\n1\n</parameter>\n", lambda m: m.call + "<function=f>\n")
_register("angle_brackets", lambda m: "<>", _xml_value)
_register("function_ends_in_a_value", lambda m: "</function>\n</tool_call>", _xml_value)
_register("xml_like_prose", lambda m: "<a><b></b></a>")
# calls of Python and lines of keys
_register("python_calls_never_closed", lambda m: "[f(a=", _in_call)
_register("python_arguments", lambda m: "a=1, ", lambda m: m.call + "[f(")
_register("python_strings", lambda m: "'a\\'", lambda m: m.call + "[f(a=")
_register("lines_of_keys", lambda m: "key: value\n", _in_call)
_register("separators", lambda m: ":=", _in_call)
# calls, many and large
_register("json_calls", lambda m: m.call + JSON_CALL + m.end_call)
_register("xml_calls", lambda m: m.call + XML_CALL + m.end_call)
_register("python_calls", lambda m: m.call + PYTHON_CALL + m.end_call)
_register("calls_drafted_in_thinking", lambda m: m.call + JSON_CALL + m.end_call + "\n", _in_thinking)
_register("xml_calls_drafted_in_thinking", lambda m: m.call + XML_CALL + m.end_call + "\n", _in_thinking)
_register("drafts_with_prose_between", lambda m: m.call + JSON_CALL + m.end_call + " so. ", _in_thinking)
_register("tiny_lists", lambda m: m.call + "[]" + m.end_call)
# characters
_register("astral_characters", lambda m: "😀𝔘")
_register("combining_marks", lambda m: "e\u0301\u200d")
_register("lone_surrogates", lambda m: "\ud800", _json_string)
_register("control_characters", lambda m: "\x00\x01\x7f")
_register("every_character", lambda m: "".join(map(chr, itertools.chain(range(1, 0x250), range(0x4E00, 0x4F00)))))
# turns
_register("turns_again_and_again", lambda m: "<|im_end|>\n<|im_start|>assistant\n<|end|><|start|>assistant")
_register("markers_of_other_families", lambda m: "[TOOL_CALLS]<|python_tag|><|tool▁calls▁begin|>[/INST]<|END_ACTION|>")


@_generator
def giant_json_argument(markers: Markers, size: int) -> str:
    """One call whose argument is nearly all of the text."""
    before, after = _json_string(markers), '"}}' + markers.end_call
    return before + "w" * max(0, size - len(before) - len(after)) + after


@_generator
def giant_xml_argument(markers: Markers, size: int) -> str:
    """One call whose parameter is nearly all of the text."""
    before, after = _xml_value(markers), "\n</parameter>\n</function>" + markers.end_call
    return before + "a < b\n" * max(0, (size - len(before) - len(after)) // 6) + after


@_generator
def half_text_half_close(markers: Markers, size: int) -> str:
    """Prose in a call, then the beginning of a close that never ends."""
    return repeated("word ", size // 2, markers.call) + repeated(markers.end_call[:-1], size - size // 2)


@_generator
def markers_further_and_further_apart(markers: Markers, size: int) -> str:
    """Each delimiter after a longer gap."""
    pieces = []
    for number, marker in zip(range(size), itertools.cycle(markers.all), strict=False):
        pieces.append(marker + " " * number)
        if number * number > 2 * size:
            break
    return "".join(pieces)[:size]


GENERATORS: Mapping[str, Generator] = _GENERATORS


# --- bodies for the content parsers alone ------------------------------------------------------------------------

CONTENT_BODIES: Mapping[str, Callable[[int], str]] = {
    name: lambda size, unit=unit, before=before: repeated(unit, size, before)  # type: ignore[misc]
    for name, (before, unit) in {
        "spaces": ("", " "),
        "words": ("", "word "),
        "square_brackets": ("", "["),
        "closed_brackets": ("", "[]"),
        "objects_in_objects": ("", '{"a":'),
        "quotes": ("", '"'),
        "both_quotes": ("", "\"'"),
        "string_never_closed": ('{"a": "', "text "),
        "backslashes": ('{"a": "', "\\"),
        "escaped_quotes": ('{"a": "', '\\"'),
        "surrogate_escapes": ('["', "\\ud83d"),
        "one_long_number": ('{"a": ', "9"),
        "a_list_of_numbers": ("[", "1,"),
        "custom_quotes_never_closed": ("{a:", '<|"|>'),
        "custom_quotes_halves": ("{a:", '<|"|'),
        "bare_keys": ("{", "a: 1, "),
        "bare_words": ("", "a:"),
        "unclosed_parameter": ("<parameter=a>", " "),
        "unclosed_parameters": ("", "<parameter=a>\nx\n"),
        "parameters": ("", "<parameter=a>\n1\n</parameter>\n"),
        "parameter_closes": ("<parameter=a>\n", "</parameter>\n"),
        "parameter_closes_then_spaces": ("<parameter=a>\n", "</parameter>" + " " * 30),
        "parameter_names": ("<parameter=", "a"),
        "angle_brackets": ("", "<"),
        "python_calls": ("", "[f(a=1)]"),
        "python_calls_never_closed": ("", "[f(a="),
        "python_calls_in_a_list": ("[", "f(a=1), "),
        "python_names": ("[", "a."),
        "python_strings": ("[f(a=", "'\\'"),
        "lines": ("", "key: value\n"),
        "separators": ("", ":"),
        "newlines": ("", "\n"),
        "unicode": ("", "é😀\u2028"),
    }.items()
}
