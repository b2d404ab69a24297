"""The contract's sentences on parsing, events and errors, each with the right value.

Every case is parsed whole and character by character: the message and the merged events must be the same.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from response_templates import (
    InputTypeError,
    ParseError,
    ParserFinalizedError,
    PrefixRequiredError,
    ResponseParser,
    ResponseTemplateError,
    load_template,
    parse_response,
)

Template = dict[str, Any]
Message = dict[str, Any]

# --- templates ---------------------------------------------------------------------------------------------------

ANCHOR = "<|im_start|>assistant\n"
CALL = {"type": "function", "function": "{content}"}
NAMED_CALL = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
REASONING = {"open": "<think>", "close": "</think>"}
JSON_CALL = {
    "open": "<tool_call>",
    "close": "</tool_call>",
    "content": "json",
    "repeats": True,
    "transform": CALL,
}


def template(**fields: Any) -> Template:
    return {"defaults": {"role": "assistant"}, "start_anchor": ANCHOR, "fields": fields}


SMOLLM3 = template(reasoning_content=REASONING, tool_calls=JSON_CALL, content={"close": "<|im_end|>"})
XML_CALL = {
    "open_pattern": r"<tool_call>\s*<function=(?P<name>[^>]+)>",
    "close_pattern": r"</function>\s*</tool_call>",
    "content": "xml-inline",
    "content_args": {"tag_pattern": r"<parameter=(?P<key>[^>]+)>\n?(?P<value>.*?)\n?</parameter>"},
    "repeats": True,
    "transform": NAMED_CALL,
}
XML = template(tool_calls=XML_CALL, content={"close": "<|im_end|>"})
XML_JSON_VALUES = template(
    tool_calls={
        **XML_CALL,
        "content_args": {
            "tag_pattern": r"<parameter=(?P<key>[^>]+)>(?P<value>.*?)</parameter>",
            "value_parser": {"name": "json", "args": {"allow_non_json": True}},
        },
    }
)
PYTHON = template(
    tool_calls={
        "open": "<|tool_call_start|>",
        "close": "<|tool_call_end|>",
        "content": "python-call-list",
        "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{arguments}"}},
        "transform_each": True,
    },
    content={},
)
HARMONY = template(
    reasoning_content={"open": "<|channel|>analysis<|message|>", "close": ["<|end|>", "<|return|>"]},
    content={"open": "<|channel|>final<|message|>", "close": ["<|end|>", "<|return|>"]},
    tool_calls={
        "open_pattern": r"<\|channel\|>commentary to=functions\.(?P<name>\w+)[^<]*(?:<\|constrain\|>\w+)?<\|message\|>",
        "close": "<|call|>",
        "content": "json",
        "repeats": True,
        "transform": NAMED_CALL,
    },
)
COHERE = template(
    reasoning_content={"open": "<|START_THINKING|>", "close": "<|END_THINKING|>"},
    content={"open": "<|START_RESPONSE|>", "close": "<|END_RESPONSE|>"},
    tool_calls={
        "open": "<|START_ACTION|>",
        "close": "<|END_ACTION|>",
        "content": "json",
        "transform_each": True,
        "transform": {
            "id": "{tool_call_id}",
            "type": "function",
            "function": {"name": "{tool_name}", "arguments": "{parameters}"},
        },
    },
)
GEMMA = template(
    tool_calls={
        "open_pattern": r"<\|tool_call>call:(?P<name>\w+)",
        "close": "<tool_call|>",
        "content": "json",
        "content_args": {"unquoted_keys": True, "string_delims": [['<|"|>', '<|"|>']]},
        "repeats": True,
        "transform": NAMED_CALL,
    }
)
KV = template(
    meta={
        "open": "<meta>",
        "close": "</meta>",
        "content": "kv-lines",
    },
    content={},
)
NESTED_CALL = template(
    tool_calls={
        "open": "[C]",
        "close": "[/C]",
        "content": "json",
        "repeats": True,
        "transform": {
            "type": "function",
            "function": {"name": "{content.tool.name}", "arguments": "{content.tool.args}"},
        },
    }
)
SCORES = template(
    score={"open": "<score>", "close": "</score>", "content": "int"},
    sure={"open": "<sure>", "close": "</sure>", "content": "bool"},
    weight={"open": "<weight>", "close": "</weight>", "content": "float"},
)
NOTES = template(note={"open": "<n>", "close": "</n>", "repeats": True}, content={})
JOINED = template(content={"open": "<n>", "close": "</n>", "repeats": True, "join": "|"})


def call(name: str, /, id: str | None = None, **arguments: Any) -> Message:
    made: Message = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return made if id is None else {"id": id, **made}


def message(**keys: Any) -> Message:
    return {"role": "assistant", **keys}


@dataclass
class Case:
    template: Template
    text: str
    message: Message
    prefix: str = ""
    tools: Any = None


ALARM = {
    "type": "function",
    "function": {
        "name": "set_alarm",
        "parameters": {
            "type": "object",
            "properties": {
                "hour": {"type": "integer"},
                "enabled": {"type": "boolean"},
                "label": {"type": "string"},
                "days": {"type": "array"},
            },
        },
    },
}
ALARM_TEXT = (
    "<tool_call>\n<function=set_alarm>\n<parameter=hour>\n7\n</parameter>\n<parameter=enabled>\ntrue\n</parameter>\n"
    '<parameter=label>\n7\n</parameter>\n<parameter=days>\n["mo"]\n</parameter>\n</function>\n</tool_call>'
)
WEATHER = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
F1 = '{"name": "f", "arguments": {"x": 1}}'

CASES: dict[str, Case] = {
    # the format's own examples
    "reasoning and a call": Case(
        SMOLLM3,
        f"<think>\nLook it up.\n</think>\n<tool_call>\n{WEATHER}\n</tool_call><|im_end|>",
        message(reasoning_content="Look it up.", tool_calls=[call("get_weather", city="Paris")]),
    ),
    "reasoning and an answer": Case(
        SMOLLM3,
        "<think>\nEasy.\n</think>\n\nIt is 4.<|im_end|>",
        message(reasoning_content="Easy.", content="It is 4."),
    ),
    "parallel calls": Case(
        SMOLLM3,
        f"Both.<tool_call>{WEATHER}</tool_call>\n<tool_call>{F1}</tool_call><|im_end|>",
        message(content="Both.", tool_calls=[call("get_weather", city="Paris"), call("f", x=1)]),
    ),
    "join": Case(JOINED, "<n>a</n>x<n> b </n><n>c", message(content="a|b|c")),
    "join counts empty matches": Case(JOINED, "<n>a</n><n></n><n>b</n>", message(content="a||b")),
    "repeats": Case(NOTES, "<n>a</n>text<n>b</n>", message(note=["a", "b"], content="text")),
    "int": Case(SCORES, "<score> 42\n</score>", message(score=42)),
    "zero and false are values": Case(
        SCORES,
        "<score>0</score><sure>false</sure><weight>0</weight>",
        message(score=0, sure=False, weight=0.0),
    ),
    "bool": Case(SCORES, "<sure>TRUE</sure>", message(sure=True)),
    "bool of anything else": Case(SCORES, "<sure>maybe</sure>", message(sure=False)),
    "float": Case(SCORES, "<weight>1.5</weight>", message(weight=1.5)),
    "unquoted keys and string marks": Case(
        GEMMA,
        '<|tool_call>call:f{city:<|"|>a: "b", {c}<|"|>,n:2}<tool_call|>',
        message(tool_calls=[call("f", city='a: "b", {c}', n=2)]),
    ),
    "XML calls": Case(
        XML,
        "<tool_call>\n<function=f>\n<parameter=a>\nx\n  y\n</parameter>\n<parameter=b>\n1\n</parameter>\n"
        "</function>\n</tool_call><|im_end|>",
        message(tool_calls=[call("f", a="x\n  y", b="1")]),
    ),
    "XML calls with a nested value parser": Case(
        XML_JSON_VALUES,
        "<tool_call><function=f><parameter=a>[1, 2]</parameter><parameter=b>no json</parameter></function></tool_call>",
        message(tool_calls=[call("f", a=[1, 2], b="no json")]),
    ),
    "XML call without parameters": Case(
        XML, "<tool_call><function=f></function></tool_call>", message(tool_calls=[call("f")])
    ),
    "Python calls": Case(
        PYTHON,
        "Sure.<|tool_call_start|>[f(x=1, s='a'), g.h()]<|tool_call_end|>",
        message(content="Sure.", tool_calls=[call("f", x=1, s="a"), call("g.h")]),
    ),
    "kv-lines": Case(
        KV,
        "<meta>\nname: a: b\nno separator\n\n size :1\n</meta>Done.",
        message(meta={"name": "a: b", "size": "1"}, content="Done."),
    ),
    "typed arguments": Case(
        XML,
        ALARM_TEXT,
        message(tool_calls=[call("set_alarm", hour=7, enabled=True, label="7", days=["mo"])]),
        tools=[ALARM],
    ),
    "untyped arguments": Case(
        XML, ALARM_TEXT, message(tool_calls=[call("set_alarm", hour="7", enabled="true", label="7", days='["mo"]')])
    ),
    "arguments of another tool": Case(
        XML,
        ALARM_TEXT.replace("set_alarm", "other"),
        message(tool_calls=[call("other", hour="7", enabled="true", label="7", days='["mo"]')]),
        tools=[ALARM],
    ),
    "dotted transform": Case(
        NESTED_CALL, '[C]{"tool": {"name": "f", "args": {"x": 1}}}[/C]', message(tool_calls=[call("f", x=1)])
    ),
    "harmony call": Case(
        HARMONY,
        "<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
        '<|constrain|>json<|message|>{"x": 1}<|call|>',
        message(reasoning_content="Need it.", tool_calls=[call("f", x=1)]),
    ),
    "harmony answer": Case(
        HARMONY,
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi!<|return|>",
        message(reasoning_content="Hm.", content="Hi!"),
    ),
    "Cohere list": Case(
        COHERE,
        "<|START_THINKING|>Two.<|END_THINKING|><|START_ACTION|>[\n"
        '{"tool_call_id": "0", "tool_name": "f", "parameters": {"x": 1}},\n'
        '{"tool_call_id": "1", "tool_name": "g", "parameters": {}}\n]<|END_ACTION|>',
        message(reasoning_content="Two.", tool_calls=[call("f", id="0", x=1), call("g", id="1")]),
    ),
    "Cohere, one where a list is expected": Case(
        COHERE,
        '<|START_ACTION|>{"tool_name": "f", "parameters": {"x": 1}}<|END_ACTION|>',
        message(tool_calls=[call("f", x=1)]),
    ),
    "a list where one is expected": Case(
        SMOLLM3,
        f"<tool_call>[{WEATHER}, {F1}]</tool_call>",
        message(tool_calls=[call("get_weather", city="Paris"), call("f", x=1)]),
    ),
    # calls are well-formed
    "arguments missing": Case(SMOLLM3, '<tool_call>{"name": "f"}</tool_call>', message(tool_calls=[call("f")])),
    "arguments null": Case(
        SMOLLM3, '<tool_call>{"name": "f", "arguments": null}</tool_call>', message(tool_calls=[call("f")])
    ),
    "arguments as a JSON string": Case(
        SMOLLM3,
        '<tool_call>{"name": "f", "arguments": "{\\"x\\": 1}"}</tool_call>',
        message(tool_calls=[call("f", x=1)]),
    ),
    "parameters for arguments": Case(
        SMOLLM3, '<tool_call>{"name": "f", "parameters": {"x": 1}}</tool_call>', message(tool_calls=[call("f", x=1)])
    ),
    "an id": Case(
        SMOLLM3,
        '<tool_call>{"name": "f", "arguments": {}, "id": "c1"}</tool_call>',
        message(tool_calls=[call("f", id="c1")]),
    ),
    "the name as the key": Case(
        SMOLLM3, '<tool_call>{"f": {"x": 1}}</tool_call>', message(tool_calls=[call("f", x=1)])
    ),
    # state: where text is
    "no implicit field: discarded": Case(JOINED, "lost<n>kept</n>lost", message(content="kept")),
    "no field at all wrote": Case(JOINED, "lost", message()),
    "empty generation": Case(SMOLLM3, "", message()),
    "only its own close is looked for": Case(
        SMOLLM3,
        "<think>a<tool_call>b<|im_end|>c</think>d",
        message(reasoning_content="a<tool_call>b<|im_end|>c", content="d"),
    ),
    "a call drafted in the reasoning is reasoning": Case(
        SMOLLM3,
        f"<think>Maybe <tool_call>{F1}</tool_call>? No.</think>Hi.",
        message(reasoning_content=f"Maybe <tool_call>{F1}</tool_call>? No.", content="Hi."),
    ),
    "a close that nothing opened is text": Case(SMOLLM3, "a</think>b", message(content="a</think>b")),
    "no close: open to the end": Case(template(content={"open": ">"}), "a>b>c", message(content="b>c")),
    "an unclosed text region": Case(SMOLLM3, "<think>Hm", message(reasoning_content="Hm")),
    "an open inside the implicit region closes it": Case(
        NOTES, "a<n>b</n>c<n>d", message(note=["b", "d"], content="c")
    ),
    # which delimiter
    "the one that starts first": Case(
        template(a={"open": "<ab", "close": "|"}, b={"open": "b>", "close": "|"}), "x<ab>y|", message(a=">y")
    ),
    "the longest at the same place": Case(
        template(a={"open": "<a", "close": "|"}, b={"open": "<ab", "close": "|"}), "x<aby|<ac|", message(a="c", b="y")
    ),
    "opens before closes": Case(
        template(content={"close": "|"}, note={"open": "|"}), "a|b", message(content="a", note="b")
    ),
    "then by name": Case(template(b={"open": "|", "close": "."}, a={"open": "|", "close": "."}), "|x.", message(a="x")),
    "a pattern's own preference": Case(template(a={"open_pattern": "<a|<ab", "close": "|"}), "<abx|", message(a="bx")),
    "a pattern against a literal: the longest": Case(
        template(a={"open_pattern": "<a+", "close": "|"}, b={"open": "<a", "close": "|"}), "<aax|<ay|", message(a="y")
    ),
    "a close with an optional tail": Case(
        template(a={"open": "<a>", "close_pattern": r"</a>(?:\s*</b>)?"}, content={}),
        "<a>x</a>\n</b>y",
        message(a="x", content="y"),
    ),
    "a close at the end of the text": Case(
        template(a={"open": "<a>", "close_pattern": r"</a>|\Z"}, content={}), "<a>x</a>y", message(a="x", content="y")
    ),
    "a close that is only looked at": Case(
        template(a={"open": "<a>", "close_pattern": "(?=<b>)"}, b={"open": "<b>"}), "<a>x<b>y", message(a="x", b="y")
    ),
    "a lookbehind": Case(
        template(a={"open_pattern": "(?<!`)<a>", "close": "</a>"}, content={}),
        "`<a>` <a>x</a>",
        message(a="x", content="`<a>`"),
    ),
    "delimiters that match nothing": Case(
        template(a={"open_pattern": "(?=x)", "close_pattern": "(?=y)"}, content={}),
        "ax1y2",
        message(content="y2", a="x1"),
    ),
    "a backreference": Case(
        template(a={"open_pattern": r"<(?P<t>\w+)>", "close_pattern": r"</(\w)\1>", "transform": "{content}"}),
        "<t>x</ab>y</aa>",
        message(a="x</ab>y"),
    ),
    "groups: the close wins, one that took no part does not": Case(
        template(
            a={
                "open_pattern": "<(?P<x>.)(?P<y>.)>",
                "close_pattern": "</(?P<x>.)(?P<y>z)?>",
                "transform": {"x": "{x}", "y": "{y}", "c": "{content}"},
            }
        ),
        "<12>q</3>",
        message(a={"x": "3", "y": "2", "c": "q"}),
    ),
    # closes inside strings
    "a close inside a string": Case(
        SMOLLM3,
        '<tool_call>{"name": "f", "arguments": {"x": "a</tool_call>b"}}</tool_call>c',
        message(tool_calls=[call("f", x="a</tool_call>b")], content="c"),
    ),
    "several closes inside strings": Case(
        SMOLLM3,
        '<tool_call>{"name": "f", "arguments": {"x": "</tool_call></tool_call>", "y": "\\"</tool_call>"}}</tool_call>',
        message(tool_calls=[call("f", x="</tool_call></tool_call>", y='"</tool_call>')]),
    ),
    "a close inside a Python string": Case(
        PYTHON,
        "<|tool_call_start|>[f(x='<|tool_call_end|>\"', y=\"'<|tool_call_end|>\")]<|tool_call_end|>",
        message(tool_calls=[call("f", x='<|tool_call_end|>"', y="'<|tool_call_end|>")]),
    ),
    "a close inside a string of custom marks": Case(
        GEMMA,
        '<|tool_call>call:f{x:<|"|>a"<tool_call|>b<|"|>}<tool_call|>',
        message(tool_calls=[call("f", x='a"<tool_call|>b')]),
    ),
    "a close inside quotes of a text region": Case(
        SMOLLM3, '<think>"</think>" it says', message(reasoning_content='"', content='" it says')
    ),
    # the end
    "a held beginning of a close is no part of a structured body": Case(
        SMOLLM3, f"<tool_call>{F1}\n</tool_ca", message(tool_calls=[call("f", x=1)])
    ),
    "a held beginning of a close is text of a text region": Case(
        SMOLLM3, "<think>Hm</thi", message(reasoning_content="Hm</thi")
    ),
    "a held beginning of an open is text": Case(SMOLLM3, "Hm<tool_", message(content="Hm<tool_")),
    "half an end token is text of the content": Case(SMOLLM3, "Hm<|im_en", message(content="Hm<|im_en")),
    "a whole call without its close": Case(SMOLLM3, f"<tool_call>{F1}", message(tool_calls=[call("f", x=1)])),
    "a closed call list without its close": Case(
        PYTHON, "<|tool_call_start|>[f(x=1)]", message(tool_calls=[call("f", x=1)])
    ),
    "no close in the template, no tag left open": Case(
        template(tool_calls={key: value for key, value in XML_CALL.items() if key != "close_pattern"}),
        "<tool_call><function=f><parameter=a>1</parameter>",
        message(tool_calls=[call("f", a="1")]),
    ),
    # values
    "a later value wins": Case(SMOLLM3, "<think>a</think><think>b</think>", message(reasoning_content="b")),
    "an empty later value does not": Case(
        SMOLLM3, f"Hi.<tool_call>{F1}</tool_call>\n<|im_end|>", message(content="Hi.", tool_calls=[call("f", x=1)])
    ),
    "an empty later object does not": Case(
        template(a={"open": "<a>", "close": "</a>", "content": "json"}), '<a>{"x": 1}</a><a>{}</a>', message(a={"x": 1})
    ),
    "a later zero does": Case(SCORES, "<score>3</score><score>0</score>", message(score=0)),
    "empty values are left out": Case(
        template(a={"open": "<a>", "close": "</a>", "content": "json"}, b={"open": "<b>", "close": "</b>"}),
        "<a>[]</a><b> </b><a>null</a>",
        message(),
    ),
    "defaults are kept": Case(
        {**SMOLLM3, "defaults": {"role": "assistant", "content": "", "tool_calls": []}},
        "<think>x</think>",
        message(content="", tool_calls=[], reasoning_content="x"),
    ),
    "defaults give way": Case({**SMOLLM3, "defaults": {"content": "none"}}, "Hi", {"content": "Hi"}),
    "text is stripped": Case(SMOLLM3, "<think>\n a \n</think>\n b \n", message(reasoning_content="a", content="b")),
    "text is not stripped": Case(
        template(content={"content_args": {"strip": False}}), "\n a \n", message(content="\n a \n")
    ),
    "text after the end token": Case(SMOLLM3, "Hi.<|im_end|>\n", message(content="Hi.")),
    "more text after the end token": Case(SMOLLM3, "Hi.<|im_end|>You.", message(content="You.")),
    "odd characters": Case(
        SMOLLM3,
        "<think>\x00\ud800</think>\U0001f600\u2028é",
        message(reasoning_content="\x00\ud800", content="\U0001f600\u2028é"),
    ),
    # the prefix
    "the prefix opened the reasoning": Case(
        SMOLLM3,
        "Hm.\n</think>\n\nHi.<|im_end|>",
        message(reasoning_content="Hm.", content="Hi."),
        prefix=f"<|im_start|>user\nHi<|im_end|>\n{ANCHOR}<think>\n",
    ),
    "the prefix wrote some of the content": Case(SMOLLM3, "lo", message(content="Hello"), prefix=f"{ANCHOR}Hel"),
    "the prefix ends inside a delimiter": Case(
        SMOLLM3, "nk>a</think>b", message(reasoning_content="a", content="b"), prefix=f"{ANCHOR}<thi"
    ),
    "the last anchor counts": Case(SMOLLM3, "c", message(content="bc"), prefix=f"{ANCHOR}<think>a{ANCHOR}b"),
    "no anchor: all of the prefix": Case(SMOLLM3, "b", message(reasoning_content="ab"), prefix="<think>a"),
    "the anchor is at the end": Case(SMOLLM3, "Hi", message(content="Hi"), prefix=f"lost{ANCHOR}"),
    "the anchor is never looked for in the generation": Case(
        SMOLLM3, f"a{ANCHOR}b", message(content=f"a{ANCHOR}b"), prefix=f"lost{ANCHOR}"
    ),
    "half an anchor in the prefix is none": Case(SMOLLM3, "b", message(content=f"{ANCHOR[:-3]}b"), prefix=ANCHOR[:-3]),
    "an anchor pattern": Case(
        {key: value for key, value in SMOLLM3.items() if key != "start_anchor"}
        | {"start_anchor_pattern": r"<[AB]>\s*"},
        "b",
        message(content="ab"),
        prefix="<A>x<B>\n a",
    ),
    "a whole empty block in the prefix": Case(
        SMOLLM3, "Hi.", message(content="Hi."), prefix=f"{ANCHOR}<think>\n\n</think>\n\n"
    ),
    "only the close in the prefix": Case(
        template(reasoning_content=REASONING, content={"close": ["</think>", "<|im_end|>"]}),
        "Hi.",
        message(content="Hi."),
        prefix=f"{ANCHOR}</think>",
    ),
}


def stream(
    case_template: Template, chunks: list[str], prefix: str = "", tools: Any = None, errors: Any = "strict"
) -> tuple[Message, list[dict[str, Any]]]:
    """Message and merged events of a stream."""
    parser = ResponseParser(case_template, prefix, tools=tools, errors=errors)
    events = list(parser.initial_events)
    for chunk in chunks:
        events += parser.feed(chunk)
    result, last = parser.finalize()
    return result, merged(events + last)


def merged(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbouring chunks of one region as one."""
    result: list[dict[str, Any]] = []
    for event in events:
        if event["type"] == "region_chunk" and result and result[-1]["type"] == "region_chunk":
            result[-1] = {**event, "text": result[-1]["text"] + event["text"]}
        else:
            result.append(event)
    return result


def summary(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Events, shorter to write."""
    short = {
        "region_open": lambda event: ("open", event["field"]),
        "region_chunk": lambda event: ("dirty" if event["dirty"] else "chunk", event["field"], event["text"]),
        "region_close": lambda event: ("close", event["field"], event["value"]),
        "region_malformed": lambda event: ("malformed", event["field"], event["text"]),
    }
    return [short[event["type"]](event) for event in events]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_message(case: Case) -> None:
    whole, events = stream(case.template, [case.text], case.prefix, case.tools)
    assert whole == case.message
    assert parse_response(case.text, case.template, prefix=case.prefix, tools=case.tools) == case.message
    for chunks in (list(case.text), [case.text[at : at + 3] for at in range(0, len(case.text), 3)]):
        assert stream(case.template, chunks, case.prefix, case.tools) == (whole, events)
    assert stream(case.template, [case.text], case.prefix, case.tools, "recover") == (whole, events)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_opens_and_closes_alternate(case: Case) -> None:
    _, events = stream(case.template, list(case.text), case.prefix, case.tools)
    open_field = None
    for event in events:
        if event["type"] == "region_open":
            assert open_field is None
            open_field = event["field"]
        else:
            assert event["field"] == open_field
            open_field = None if event["type"] == "region_close" else open_field
    assert open_field is None


# --- malformed regions -----------------------------------------------------------------------------------------

BAD_CALL = '<tool_call>{"name": "f", </tool_call>'
MALFORMED: dict[str, tuple[Template, str, Message, list[tuple[str, str]]]] = {
    # template, text, the rest of the message, what is malformed
    "bad JSON": (SMOLLM3, f"a{BAD_CALL}b", message(content="b"), [("tool_calls", BAD_CALL)]),
    "two of them, in order": (
        SMOLLM3,
        f"{BAD_CALL}<tool_call>x</tool_call>{BAD_CALL}",
        message(),
        [("tool_calls", BAD_CALL), ("tool_calls", "<tool_call>x</tool_call>"), ("tool_calls", BAD_CALL)],
    ),
    "the others are kept": (
        SMOLLM3,
        f"<tool_call>{F1}</tool_call>{BAD_CALL}<tool_call>{WEATHER}</tool_call>",
        message(tool_calls=[call("f", x=1), call("get_weather", city="Paris")]),
        [("tool_calls", BAD_CALL)],
    ),
    "empty JSON": (SMOLLM3, "<tool_call> </tool_call>", message(), [("tool_calls", "<tool_call> </tool_call>")]),
    "no int": (SCORES, "<score>x</score>", message(), [("score", "<score>x</score>")]),
    "no float": (SCORES, "<weight>1e400</weight>", message(), [("weight", "<weight>1e400</weight>")]),
    "a number too large": (
        template(a={"open": "<a>", "close": "</a>", "content": "json"}),
        "<a>1e400</a>",
        message(),
        [("a", "<a>1e400</a>")],
    ),
    "a name that is no string": (
        SMOLLM3,
        '<tool_call>{"name": 1, "arguments": {}}</tool_call>',
        message(),
        [("tool_calls", '<tool_call>{"name": 1, "arguments": {}}</tool_call>')],
    ),
    "arguments that are a list": (
        SMOLLM3,
        '<tool_call>{"name": "f", "arguments": [1]}</tool_call>',
        message(),
        [("tool_calls", '<tool_call>{"name": "f", "arguments": [1]}</tool_call>')],
    ),
    "no name": (
        SMOLLM3,
        '<tool_call>{"arguments": {}}</tool_call>',
        message(),
        [("tool_calls", '<tool_call>{"arguments": {}}</tool_call>')],
    ),
    "a string that never ends": (
        SMOLLM3,
        '<tool_call>{"name": "f</tool_call>\nHi.',
        message(content="Hi."),
        [("tool_calls", '<tool_call>{"name": "f</tool_call>')],
    ),
    "what follows a string that never ends is parsed": (
        SMOLLM3,
        '<tool_call>{"a": "b</tool_call>Hi.<think>t</think>',
        message(content="Hi.", reasoning_content="t"),
        [("tool_calls", '<tool_call>{"a": "b</tool_call>')],
    ),
    "a call that was cut off": (
        SMOLLM3,
        'Hi.<tool_call>{"name": "f", "arg',
        message(content="Hi."),
        [("tool_calls", '<tool_call>{"name": "f", "arg')],
    ),
    "a call that was cut off in its close": (
        SMOLLM3,
        '<tool_call>{"name": "f"</tool_',
        message(),
        [("tool_calls", '<tool_call>{"name": "f"</tool_')],
    ),
    "an XML call that was cut off": (
        XML,
        "<tool_call><function=f><parameter=a>1</parameter>",
        message(),
        [("tool_calls", "<tool_call><function=f><parameter=a>1</parameter>")],
    ),
    "an XML call that was cut off in its close": (
        XML,
        "<tool_call><function=f><parameter=a>1</parameter></function>",
        message(),
        [("tool_calls", "<tool_call><function=f><parameter=a>1</parameter></function>")],
    ),
    "an XML call without a close in the template, a tag left open": (
        template(tool_calls={key: value for key, value in XML_CALL.items() if key != "close_pattern"}),
        "<tool_call><function=f><parameter=a>1</par",
        message(),
        [("tool_calls", "<tool_call><function=f><parameter=a>1</par")],
    ),
    "Python calls that were cut off": (
        PYTHON,
        "<|tool_call_start|>[f(x=1), g(",
        message(),
        [("tool_calls", "<|tool_call_start|>[f(x=1), g(")],
    ),
    "join of what is no string": (
        template(a={"open": "<a>", "close": "</a>", "content": "json", "repeats": True, "join": ","}),
        '<a>"x"</a><a>1</a><a>"y"</a>',
        message(a="x,y"),
        [("a", "<a>1</a>")],
    ),
    "transform_each of no list": (
        template(a={"open": "<a>", "close": "</a>", "content": "json", "transform": "{x}", "transform_each": True}),
        '<a>{"x": 1}</a>',
        message(),
        [("a", '<a>{"x": 1}</a>')],
    ),
    "a placeholder that nothing fills": (
        template(a={"open": "<a>", "close": "</a>", "content": "json", "transform": "{content.x}"}),
        '<a>{"y": 1}</a>',
        message(),
        [("a", '<a>{"y": 1}</a>')],
    ),
    "a field that isn't optional": (
        template(a={"open": "<a>", "close": "</a>", "optional": False}, content={}),
        "Hi.",
        message(content="Hi."),
        [("a", "")],
    ),
}


@pytest.mark.parametrize(("case_template", "text", "rest", "bad"), MALFORMED.values(), ids=MALFORMED.keys())
def test_recover_keeps_what_does_not_parse(
    case_template: Template, text: str, rest: Message, bad: list[tuple[str, str]]
) -> None:
    result, events = stream(case_template, [text], errors="recover")
    for chunks in (list(text), [text[at : at + 3] for at in range(0, len(text), 3)]):
        assert stream(case_template, chunks, errors="recover") == (result, events)
    malformed = result.pop("malformed")
    assert [(entry["field"], entry["text"]) for entry in malformed] == bad
    assert all(isinstance(entry["error"], str) and entry["error"] for entry in malformed)
    assert all(entry.keys() == {"field", "text", "error"} for entry in malformed)
    assert result == rest
    told = [event for event in events if event["type"] == "region_malformed"]
    assert [{key: event[key] for key in ("field", "text", "error")} for event in told] == [
        entry for entry in malformed if entry["text"]
    ]


@pytest.mark.parametrize(("case_template", "text", "rest", "bad"), MALFORMED.values(), ids=MALFORMED.keys())
def test_strict_raises_and_nothing_is_lost(
    case_template: Template, text: str, rest: Message, bad: list[tuple[str, str]]
) -> None:
    for chunks in ([text], list(text)):
        with pytest.raises(ParseError) as caught:
            stream(case_template, chunks)
        error = caught.value
        assert isinstance(error, (ValueError, ResponseTemplateError))
        assert (error.field, error.text) == bad[0]
        assert text[error.position :].startswith(error.text)
        assert repr(error.field) in str(error)
        assert error.partial["role"] == "assistant"


def test_what_a_parse_error_carries() -> None:
    text = f"<think>t</think>Hi.{BAD_CALL}later"
    with pytest.raises(ParseError) as caught:
        parse_response(text, SMOLLM3, prefix="")
    error = caught.value
    assert error.field == "tool_calls"
    assert error.text == BAD_CALL
    assert error.position == text.index(BAD_CALL)
    assert error.partial == message(reasoning_content="t", content="Hi.")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.field, again.text, again.position, again.partial) == (
        str(error),
        error.field,
        error.text,
        error.position,
        error.partial,
    )


@pytest.mark.parametrize(("written", "position"), [("", 0), ("ab", -2), ("a", -1)])
def test_positions_count_from_the_start_of_the_generation(written: str, position: int) -> None:
    single = template(score={"open": "<s>", "close": "</s>", "content": "int"}, content={})
    with pytest.raises(ParseError) as caught:
        parse_response("<s>x</s>", single, prefix=f"{ANCHOR}{written}")
    assert caught.value.position == 0
    with pytest.raises(ParseError) as caught:
        parse_response("x</s>", single, prefix=f"{ANCHOR}<s>{written}")
    assert caught.value.position == -len("<s>" + written)


def test_a_malformed_region_in_the_prefix() -> None:
    prefix = f"{ANCHOR}a{BAD_CALL}"
    with pytest.raises(ParseError) as caught:
        ResponseParser(SMOLLM3, prefix)
    assert caught.value.text == BAD_CALL
    parser = ResponseParser(SMOLLM3, prefix, errors="recover")
    assert ("malformed", "tool_calls", BAD_CALL) in summary(parser.initial_events)
    result, _ = parser.finalize()
    assert result["malformed"][0]["text"] == BAD_CALL


def test_a_parser_that_has_failed_goes_on_failing() -> None:
    parser = ResponseParser(SMOLLM3, "")
    with pytest.raises(ParseError) as first:
        parser.feed(BAD_CALL)
    for again in (lambda: parser.feed("x"), parser.finalize):
        with pytest.raises(ParseError) as caught:
            again()
        assert caught.value.text == first.value.text


# --- repair ----------------------------------------------------------------------------------------------------


def test_repair_takes_what_json_repair_makes_of_a_closed_body() -> None:
    pytest.importorskip("json_repair")
    text = '<tool_call>{"name": "f", "arguments": {"x": 1}</tool_call>Hi.'
    result, events = stream(SMOLLM3, [text], errors="repair")
    assert stream(SMOLLM3, list(text), errors="repair") == (result, events)
    (entry,) = result.pop("malformed")
    assert result == message(tool_calls=[call("f", x=1)], content="Hi.")
    assert entry["repaired"] is True
    assert (entry["field"], entry["text"]) == ("tool_calls", text.removesuffix("Hi."))
    assert ("close", "tool_calls", call("f", x=1)) in summary(events)


@pytest.mark.parametrize(
    "text",
    ['<tool_call>{"name": "f", "arguments": {"x": 1}', '<tool_call>{"name": "f", "arguments": {"x": 1}</tool_'],
    ids=["without a close", "with half of it"],
)
def test_repair_never_completes_a_call_that_was_cut_off(text: str) -> None:
    pytest.importorskip("json_repair")
    result, _ = stream(SMOLLM3, [text], errors="repair")
    (entry,) = result.pop("malformed")
    assert result == message()
    assert "repaired" not in entry
    assert entry["text"] == text


@pytest.mark.parametrize("body", ["", "{}", '{"arguments": {', '{"name": 1,}', "no JSON at all", '["f"'])
def test_repair_takes_nothing_that_is_no_call(body: str) -> None:
    pytest.importorskip("json_repair")
    result, _ = stream(SMOLLM3, [f"<tool_call>{body}</tool_call>"], errors="repair")
    assert "tool_calls" not in result
    assert [entry["text"] for entry in result["malformed"]] == [f"<tool_call>{body}</tool_call>"]


# --- events ----------------------------------------------------------------------------------------------------


def test_events_of_a_whole_generation() -> None:
    _, events = stream(SMOLLM3, [f"<think>\nHm.\n</think>\nHi.<tool_call>\n{F1}\n</tool_call><|im_end|>"])
    assert summary(events) == [
        ("open", "reasoning_content"),
        ("chunk", "reasoning_content", "Hm.\n"),
        ("close", "reasoning_content", "Hm."),
        ("open", "content"),
        ("chunk", "content", "Hi."),
        ("close", "content", "Hi."),
        ("open", "tool_calls"),
        ("dirty", "tool_calls", f"\n{F1}\n"),
        ("close", "tool_calls", call("f", x=1)),
    ]


def test_the_shape_of_events() -> None:
    parser = ResponseParser(SMOLLM3, "")
    assert parser.feed("<think>a</think><tool_call>1") == [
        {"type": "region_open", "field": "reasoning_content"},
        {"type": "region_chunk", "field": "reasoning_content", "text": "a", "dirty": False},
        {"type": "region_close", "field": "reasoning_content", "value": "a"},
        {"type": "region_open", "field": "tool_calls"},
        {"type": "region_chunk", "field": "tool_calls", "text": "1", "dirty": True},
    ]


# what is fed, and what comes out at once
HOLDING: dict[str, tuple[Template, list[tuple[str, list[tuple[Any, ...]]]]]] = {
    "half a delimiter is held": (
        SMOLLM3,
        [
            ("Hi </th", [("open", "content"), ("chunk", "content", "Hi </th")]),
            (" <th", [("chunk", "content", " ")]),
            ("x", [("chunk", "content", "<thx")]),
            ("<think", []),
            (">", [("close", "content", "Hi </th <thx"), ("open", "reasoning_content")]),
            ("a</think", [("chunk", "reasoning_content", "a")]),
            (">", [("close", "reasoning_content", "a")]),
        ],
    ),
    "a complete literal is settled at once": (
        SMOLLM3,
        [
            (
                "<think>a</think>",
                [
                    ("open", "reasoning_content"),
                    ("chunk", "reasoning_content", "a"),
                    ("close", "reasoning_content", "a"),
                ],
            ),
        ],
    ),
    "a literal that another one extends is not": (
        template(a={"open": "<a"}, b={"open": "<ab"}),
        [("<a", []), ("b", [("open", "b")])],
    ),
    "leading white space of stripped text is not emitted": (
        SMOLLM3,
        [
            ("\n ", [("open", "content")]),
            (" \n", []),
            (" a \n", [("chunk", "content", "a \n")]),
            ("b", [("chunk", "content", "b")]),
        ],
    ),
    "leading white space of other text is": (
        template(content={"content_args": {"strip": False}}),
        [("\n", [("open", "content"), ("chunk", "content", "\n")])],
    ),
    "nothing is emitted from a close inside a string on": (
        SMOLLM3,
        [
            ('<tool_call>{"x": "a', [("open", "tool_calls"), ("dirty", "tool_calls", '{"x": "a')]),
            ("</tool_call>", []),
            ("bcd", []),
            ('"', [("dirty", "tool_calls", '</tool_call>bcd"')]),
            (" ", [("dirty", "tool_calls", " ")]),
        ],
    ),
    "a pattern waits for what it prefers": (
        template(a={"open": "<a>", "close_pattern": r"</a>(?:\s*</b>)?"}, content={}),
        [
            ("<a>x</a>", [("open", "a"), ("chunk", "a", "x")]),
            ("\n", []),
            ("y", [("close", "a", "x"), ("open", "content"), ("chunk", "content", "y")]),
        ],
    ),
    "the end may be a close": (
        template(a={"open": "<a>", "close_pattern": r"</a>|\Z"}),
        [("<a>x", [("open", "a"), ("chunk", "a", "x")])],
    ),
    "nothing comes of nothing": (
        SMOLLM3,
        [("", []), ("a", [("open", "content"), ("chunk", "content", "a")]), ("", [])],
    ),
    "discarded text gives no event": (JOINED, [("abc", []), ("<n>", [("open", "content")])]),
}


@pytest.mark.parametrize(("case_template", "steps"), HOLDING.values(), ids=HOLDING.keys())
def test_what_is_held_and_what_comes_at_once(
    case_template: Template, steps: list[tuple[str, list[tuple[Any, ...]]]]
) -> None:
    parser = ResponseParser(case_template, "")
    for text, expected in steps:
        assert summary(parser.feed(text)) == expected, text


def test_region_close_carries_each_blocks_own_value() -> None:
    _, events = stream(JOINED, ["<n>a</n><n>b</n>"])
    assert [event["value"] for event in events if event["type"] == "region_close"] == ["a", "b"]


def test_region_close_carries_typed_arguments() -> None:
    _, events = stream(XML, [ALARM_TEXT], tools=[ALARM])
    (close,) = [event for event in events if event["type"] == "region_close"]
    assert close["value"]["function"]["arguments"]["hour"] == 7


def test_initial_events() -> None:
    parser = ResponseParser(SMOLLM3, f"user{ANCHOR}<think>\n")
    assert summary(parser.initial_events) == [("open", "reasoning_content")]
    assert summary(parser.feed("Hm</think>")) == [
        ("chunk", "reasoning_content", "Hm"),
        ("close", "reasoning_content", "Hm"),
    ]
    assert ResponseParser(SMOLLM3, "").initial_events == []
    assert ResponseParser(SMOLLM3, f"{ANCHOR}").initial_events == []
    parser = ResponseParser(SMOLLM3, f"{ANCHOR}<think>a</think>b")
    assert summary(parser.initial_events) == [
        ("open", "reasoning_content"),
        ("chunk", "reasoning_content", "a"),
        ("close", "reasoning_content", "a"),
        ("open", "content"),
        ("chunk", "content", "b"),
    ]


def test_text_chunks_joined_are_the_value_but_for_trailing_white_space() -> None:
    parser = ResponseParser(SMOLLM3, "")
    events = [event for char in "\n <think> \n a  b \n</think> c\n" for event in parser.feed(char)]
    events += parser.finalize()[1]
    chunks: list[str] = []
    for event in events:
        if event["type"] == "region_open":
            chunks = []
        elif event["type"] == "region_chunk":
            chunks.append(event["text"])
        else:
            assert "".join(chunks).rstrip() == event["value"]


# --- the public calls --------------------------------------------------------------------------------------------


def test_a_finalized_parser_takes_nothing_more() -> None:
    parser = ResponseParser(SMOLLM3, "")
    parser.feed("Hi")
    parser.finalize()
    for again in (lambda: parser.feed("x"), lambda: parser.feed(""), parser.finalize):
        with pytest.raises(ParserFinalizedError) as caught:
            again()
        assert isinstance(caught.value, RuntimeError)


def test_the_prefix_is_required() -> None:
    for parse in (lambda: ResponseParser(SMOLLM3), lambda: parse_response("x", SMOLLM3)):
        with pytest.raises(PrefixRequiredError) as caught:
            parse()
        assert isinstance(caught.value, ValueError)
        assert "prefix" in str(caught.value)
    with pytest.raises(PrefixRequiredError):
        parse_response(["x"], SMOLLM3)


def test_lists_of_texts() -> None:
    texts = ["a", "<think>b</think>", ""]
    expected = [message(content="a"), message(reasoning_content="b"), message()]
    assert parse_response(texts, SMOLLM3, prefix="") == expected
    assert parse_response(texts, SMOLLM3, prefix=["", "", ""]) == expected
    assert parse_response([], SMOLLM3, prefix="") == []
    assert parse_response(["b</think>c"] * 2, SMOLLM3, prefix=f"{ANCHOR}<think>") == (
        [message(reasoning_content="b", content="c")] * 2
    )
    assert parse_response(["b", "b"], SMOLLM3, prefix=["<think>", ""]) == [
        message(reasoning_content="b"),
        message(content="b"),
    ]


@pytest.mark.parametrize("prefix", [[""], ["", "", ""], []])
def test_a_wrong_number_of_prefixes(prefix: list[str]) -> None:
    with pytest.raises(InputTypeError, match="prefix"):
        parse_response(["a", "b"], SMOLLM3, prefix=prefix)


def test_a_list_of_prefixes_for_one_text() -> None:
    with pytest.raises(InputTypeError, match="prefix"):
        parse_response("a", SMOLLM3, prefix=["a"])


def test_an_unknown_way_with_errors() -> None:
    with pytest.raises(InputTypeError, match="recover"):
        ResponseParser(SMOLLM3, "", errors="ignore")  # type: ignore[arg-type]


def test_any_form_of_a_template_will_do() -> None:
    import json

    for form in (SMOLLM3, json.dumps(SMOLLM3), load_template(SMOLLM3)):
        assert parse_response("a", form, prefix="") == message(content="a")


def test_messages_are_not_shared() -> None:
    with_defaults = {**SMOLLM3, "defaults": {"tags": []}}
    first = parse_response("a", with_defaults, prefix="")
    first["tags"].append("mine")
    assert parse_response("a", with_defaults, prefix="") == {"tags": [], "content": "a"}


def test_parsers_of_one_template_do_not_meet() -> None:
    one, other = ResponseParser(SMOLLM3, ""), ResponseParser(SMOLLM3, "")
    one.feed("<think>a")
    other.feed("b<thi")
    one.feed("</think>")
    other.feed("nk>c")
    assert one.finalize()[0] == message(reasoning_content="a")
    assert other.finalize()[0] == message(content="b", reasoning_content="c")
