"""Conformance texts in both engines: the same message, or a difference of a kind that docs/differences.md names.

A black box: transformers' native engine is called, never read. `compared` says of one text `same`, or the kind of the
difference (`KINDS`), by what the two messages and the text show; what no kind explains is `unexplained`, which
`test_conformance.py` allows nowhere. Needs transformers 5.13 or later (`available`).
"""

from __future__ import annotations

import ast
import contextlib
import functools
import html
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import regex

from response_templates.errors import ParseError
from response_templates.parser import parse_response
from response_templates.registry import RegisteredTemplate

Message = dict[str, Any]


@functools.cache
def engine() -> Any:
    """The native engine's module; None before transformers 5.13."""
    try:
        from transformers.utils import chat_parsing
    except ImportError:
        return None
    return chat_parsing


def available() -> bool:
    return engine() is not None


@dataclass(frozen=True)
class Text:
    """An output behind its prompt, with the tools, for one registry template."""

    output: str
    prompt: str
    tools: list[Any]


@dataclass(frozen=True)
class Pair:
    """What the two engines make of a text; `failed` is the native engine's error, if it raised one."""

    text: Text
    template: Mapping[str, Any]
    ours: Message
    theirs: Message
    failed: str = ""

    @property
    def keys(self) -> set[str]:
        """The keys in which the two differ."""
        return {key for key in {*self.ours, *self.theirs} if exact(self.ours.get(key)) != exact(self.theirs.get(key))}


def exact(value: Any) -> str:
    """Equal only for equal JSON, the order of keys aside; the native engine may return what is none."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=repr)


def calls(message: Mapping[str, Any]) -> list[Any]:
    """The message's calls as a flat list, whatever they are."""
    found = message.get("tool_calls") or []
    items = found if isinstance(found, list) else [found]
    return [each for item in items for each in (item if isinstance(item, list) else [item])]


def nested(message: Mapping[str, Any]) -> bool:
    return any(isinstance(item, list) for item in message.get("tool_calls") or ())


def functions(message: Mapping[str, Any]) -> list[Any]:
    return [item.get("function") if isinstance(item, dict) else item for item in calls(message)]


def well_formed(function: Any) -> bool:
    return (
        isinstance(function, dict)
        and isinstance(function.get("name"), str)
        and isinstance(function.get("arguments"), dict)
    )


def leaves(value: Any) -> Iterator[tuple[str, Any]]:
    """Every value inside, with the key that it stands under ("" in a list)."""
    items = value.items() if isinstance(value, dict) else [("", each) for each in value]
    for key, each in items:
        yield key, each
        if isinstance(each, (dict, list)):
            yield from leaves(each)


def call_fields(pair: Pair) -> list[Mapping[str, Any]]:
    return [each for name, each in pair.template["fields"].items() if name == "tool_calls"]


def delimiters(field_: Mapping[str, Any], which: str) -> list[str]:
    """The patterns of a field's opens or closes."""
    literal = field_.get(which) or []
    found = [regex.escape(each) for each in ([literal] if isinstance(literal, str) else literal)]
    return found + ([field_[f"{which}_pattern"]] if f"{which}_pattern" in field_ else [])


def rest_is_same(pair: Pair) -> bool:
    """Nothing but the calls differs, `malformed` aside, which is ours alone."""
    return pair.keys <= {"tool_calls", "malformed"}


def is_beginning(part: list[Any], whole: list[Any]) -> bool:
    return list(map(exact, part)) == list(map(exact, whole[: len(part)]))


# --- what the kinds say, each checked on the pair ---------------------------------------------------------------------


def cut_off(pair: Pair) -> bool:
    """Ours lists a call as cut off; natively it raises, or is one more call behind the same ones."""
    if not any(item["error"].endswith("so it may be incomplete") for item in pair.ours.get("malformed", ())):
        return False
    ours, theirs = functions(pair.ours), functions(pair.theirs)
    return bool(pair.failed) or (rest_is_same(pair) and len(theirs) > len(ours) and is_beginning(ours, theirs))


def malformed(pair: Pair) -> bool:
    """Ours lists a region as malformed; natively the whole text raises, or a call is none, or is lost."""
    if not pair.ours.get("malformed"):
        return False
    ours, theirs = functions(pair.ours), functions(pair.theirs)
    return bool(pair.failed) or (rest_is_same(pair) and is_beginning(list(filter(well_formed, theirs)), ours))


def read_here(pair: Pair, error: str) -> bool:
    """The native engine raised this error; here there are calls, all well-formed, and nothing is malformed."""
    found = functions(pair.ours)
    well = bool(found) and all(map(well_formed, found)) and not pair.ours.get("malformed")
    return well and regex.search(error, pair.failed) is not None


def absent_part(pair: Pair) -> bool:
    """The error names a placeholder: of a group that took no part, or of a key that one of the calls lacks."""
    if not read_here(pair, r"^KeyError: .transform placeholder '\{\w+\}' is not defined"):
        return False
    name = regex.search(r"'\{(\w+)\}'", pair.failed)[1]
    fields = call_fields(pair)
    patterns = [each for field_ in fields for which in ("open", "close") for each in delimiters(field_, which)]
    lacks = any(name not in item for item in calls(pair.ours))
    return lacks and any(f"(?P<{name}>" in pattern for pattern in patterns) != any(
        "transform_each" in f for f in fields
    )


def other_key(pair: Pair) -> bool:
    """The error names a key that a call lacks; it has the arguments under the other of their two names."""
    found = regex.search(r"^ValueError: transform placeholder .* is missing key '(arguments|parameters)'", pair.failed)
    other = {"arguments": "parameters", "parameters": "arguments"}
    return bool(found) and read_here(pair, "") and f'"{other[found[1]]}"' in pair.text.output


def raw_line_break(pair: Pair) -> bool:
    """A string of a Python call goes on over a line's end."""
    strings = [each for item in functions(pair.ours) for _, each in leaves(item.get("arguments") or {})]
    broken = [each for each in strings if isinstance(each, str) and "\n" in each and each in pair.text.output]
    return bool(broken) and read_here(pair, "python-call-list: invalid string")


def no_brackets(pair: Pair) -> bool:
    return read_here(pair, r"python-call-list: expected '\[' at position 0")


def python_word(pair: Pair) -> bool:
    """A bare None, True or False in a body of JSON."""
    return read_here(pair, "json: could not parse") and bool(
        regex.search(r"[\[,:]\s*(?:None|True|False)\b", pair.text.output)
    )


def no_identifier(pair: Pair) -> bool:
    """A bare key that is no identifier."""
    if not read_here(pair, "json: could not parse"):
        return False
    keys = [key for function in functions(pair.ours) for key, _ in leaves(function["arguments"])]
    return any(key and not key.isidentifier() for key in keys)


def delimiter_in_string(pair: Pair) -> bool:
    """A string of our calls holds what closes their region; natively the body ends there and can't be read."""
    if not read_here(pair, ""):
        return False
    strings = [each for item in functions(pair.ours) for _, each in leaves(item["arguments"]) if isinstance(each, str)]
    closes = [each for field_ in call_fields(pair) for each in delimiters(field_, "close")]
    # A string may stand in the output as it is, or with JSON's escapes.
    forms = [form for text in strings for form in (text, json.dumps(text, ensure_ascii=False)[1:-1])]
    return any(regex.search(close, form + "\0", regex.DOTALL) for close in closes for form in forms)


def lists_of_calls(pair: Pair) -> bool:
    same = list(map(exact, functions(pair.ours))) == list(map(exact, functions(pair.theirs)))
    return pair.keys == {"tool_calls"} and nested(pair.theirs) and same


def id_among_keys(pair: Pair) -> bool:
    """The same calls, but that natively the id stands among the function's keys."""
    ours, theirs = calls(pair.ours), calls(pair.theirs)
    return pair.keys == {"tool_calls"} and len(ours) == len(theirs) and all(map(_id_moved, ours, theirs))


def _id_moved(ours: Any, theirs: Any) -> bool:
    if exact(ours) == exact(theirs):
        return True
    function = dict(theirs["function"]) if isinstance(theirs, dict) and isinstance(theirs.get("function"), dict) else {}
    ids = [function.pop(key) for key in ("id", "tool_call_id") if key in function]
    return ids == [ours.get("id")] and exact(function) == exact(ours["function"])


def entities(pair: Pair) -> bool:
    """The same calls, but that natively XML's entities stand in the names of functions and arguments."""
    ours, theirs = functions(pair.ours), functions(pair.theirs)
    read = [_without_entities(each) for each in theirs if well_formed(each)]
    return pair.keys == {"tool_calls"} and len(read) == len(theirs) and exact(read) == exact(ours)


def _without_entities(function: Mapping[str, Any]) -> dict[str, Any]:
    arguments = {html.unescape(key): value for key, value in function["arguments"].items()}
    return {**function, "name": html.unescape(function["name"]), "arguments": arguments}


def mended(pair: Pair) -> bool:
    """Natively a call is not well-formed, and what it plainly means is ours."""
    theirs = functions(pair.theirs)
    if pair.keys != {"tool_calls"} or all(map(well_formed, theirs)):
        return False
    meant = [each for function in theirs for each in meaning(function)]
    return exact(meant) == exact(functions(pair.ours))


def meaning(function: Any) -> list[Any]:
    """The calls that a function as the native engine gives it plainly means (SPEC, well-formed calls)."""
    if isinstance(function, list):
        return [each for item in function for each in meaning(item)]
    if not isinstance(function, dict):
        return [function]
    if "name" not in function and len(function) == 1:
        function = dict(zip(("name", "arguments"), *function.items(), strict=True))
    arguments = function.get("arguments", function.get("parameters"))
    if isinstance(arguments, str) or arguments is None:
        arguments = json.loads(arguments or "{}")
    return [{"name": function.get("name"), "arguments": arguments}]


def typed(pair: Pair) -> bool:
    """The same calls, but that some of our values are natively the text that they were read from."""
    ours, theirs = functions(pair.ours), functions(pair.theirs)
    return pair.keys == {"tool_calls"} and len(ours) == len(theirs) and all(map(_read_from, ours, theirs))


def _read_from(ours: Any, theirs: Any) -> bool:
    if not (well_formed(ours) and well_formed(theirs)):
        return False
    mine, other = ours["arguments"], theirs["arguments"]
    same_rest = exact(ours | {"arguments": list(mine)}) == exact(theirs | {"arguments": list(other)})
    return same_rest and all(exact(mine[key]) == exact(other[key]) or is_text_of(other[key], mine[key]) for key in mine)


def is_text_of(text: Any, value: Any) -> bool:
    """The value written as JSON, or as Python does; a string, but for the white space around it."""
    if not isinstance(text, str):
        return False
    if isinstance(value, str):
        return text.strip() == value.strip()
    for read in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return exact(read(text.strip())) == exact(value)
    return False


def lost(pair: Pair) -> bool:
    """The native message has less: of the keys that differ, ours holds all that theirs holds, and more."""
    if pair.failed:
        return False
    texts = pair.keys - {"tool_calls"}
    ours, theirs = functions(pair.ours), functions(pair.theirs)
    fewer = "tool_calls" not in pair.keys or (len(theirs) < len(ours) and all(each in ours for each in theirs))
    return fewer and all(str(pair.theirs.get(key) or "") in str(pair.ours.get(key) or "") for key in texts)


@dataclass(frozen=True)
class Kind:
    """A kind of difference on purpose: its reason, and how it is recognised in what was compared."""

    name: str
    reason: str
    explains: Callable[[Any], bool]


KINDS = (
    Kind(
        "a call that was cut off",
        "Malformed here; natively an error, or a call where the body happens to parse.",
        cut_off,
    ),
    Kind("a malformed region", "Listed under `malformed` here; natively an error, or passed on, or lost.", malformed),
    Kind(
        "a part that is not there",
        "The placeholder of an optional group or key (the call's id) is left out here; natively an error.",
        absent_part,
    ),
    Kind("the other key for the arguments", "`arguments` and `parameters` are one here; natively an error.", other_key),
    Kind("a line break in a Python string", "Read here; natively an error.", raw_line_break),
    Kind("Python calls without brackets", "Read as a list of calls here; natively an error.", no_brackets),
    Kind("a word of Python in JSON", "`None`, `True` and `False` are read here; natively an error.", python_word),
    Kind("a bare key that is no identifier", "Read here; natively an error.", no_identifier),
    Kind(
        "a delimiter in a string",
        "Text of the string here; natively it ends the region, whose body then can't be read.",
        delimiter_in_string,
    ),
    Kind("several lists of calls", "One flat list here; natively a list of lists.", lists_of_calls),
    Kind("an id among the call's keys", "The call's `id` here; natively a further key of its function.", id_among_keys),
    Kind("entities in names", "Read here, where the names are attributes of XML; natively left as they are.", entities),
    Kind("calls that are not well-formed", "Mended here where the meaning is plain.", mended),
    Kind("types of arguments", "Read by the schema or the tags here; natively the text.", typed),
    Kind("text or calls that are lost natively", "All that the native message has is in ours, and more.", lost),
)


def parsed_natively(template: Mapping[str, Any], text: Text) -> tuple[Message, str]:
    try:
        return engine().parse_response(text.output, template, prefix=text.prompt, tools=text.tools or None), ""
    except Exception as error:  # whatever it raises
        return {}, f"{type(error).__name__}: {error}"


def pair_of(entry: RegisteredTemplate, text: Text) -> Pair:
    template = entry.template.to_dict()
    try:
        ours = parse_response(text.output, entry.template, prefix=text.prompt, tools=text.tools, errors="recover")
    except ParseError as error:  # recover never raises on an output
        raise AssertionError(f"{entry.name}: {error}") from error
    theirs, failed = parsed_natively(template, text)
    return Pair(text, template, ours, theirs, failed)


def kind_of(pair: Pair) -> str:
    if not pair.failed and not pair.keys:
        return "same"
    return next((kind.name for kind in KINDS if kind.explains(pair)), "unexplained")


@dataclass
class Tally:
    """How many texts of each kind, and the shortest example of each."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, entry: RegisteredTemplate, texts: Iterable[Text]) -> None:
        for text in texts:
            pair = pair_of(entry, text)
            kind = kind_of(pair)
            self.counts[kind] += 1
            known = self.examples.get(kind)
            if kind != "same" and (known is None or len(text.output) < len(known["output"])):
                self.examples[kind] = example(entry, pair)

    def merge(self, counts: Mapping[str, int], examples: Mapping[str, dict[str, Any]]) -> None:
        self.counts.update(counts)
        for kind, shown in examples.items():
            known = self.examples.get(kind)
            if known is None or len(shown["output"]) < len(known["output"]):
                self.examples[kind] = shown


def example(entry: RegisteredTemplate, pair: Pair) -> dict[str, Any]:
    def shown(message: Message) -> Message:
        return {key: value for key, value in message.items() if key != "role"}

    theirs: Any = pair.failed.splitlines()[0][:200] if pair.failed else shown(pair.theirs)
    return {
        "template": entry.name,
        "prompt": pair.text.prompt[-40:],
        "output": pair.text.output,
        "ours": shown(pair.ours),
        "natively": theirs,
    }
