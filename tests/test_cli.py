"""The command line: what it prints, when, and how it exits; through a process of its own and through typer's runner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from response_templates import list_templates, parse_response

pytest.importorskip("typer")
pytest.importorskip("rich")

from typer.testing import CliRunner

from response_templates import cli

TEMPLATE: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|assistant|>",
    "fields": {
        "reasoning_content": {"open": "<think>", "close": "</think>"},
        "content": {"close": "<|end|>"},
        "tool_calls": {
            "open_pattern": r"<call:(?P<name>\w+)>",
            "close": "</call>",
            "content": "xml-inline",
            "content_args": {"tag_pattern": r"<(?P<key>\w+)=(?P<value>[^>]*)>"},
            "repeats": True,
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "data": {"open": "<data>", "close": "</data>", "content": "json"},
    },
}
TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}]
TEXT = "<think>Hm.</think>Sure.<call:f><n=7></call><|end|>"
BAD = "Hi.<data>{</data>"


@pytest.fixture
def template(tmp_path: Path) -> str:
    path = tmp_path / "template.json"
    path.write_text(json.dumps(TEMPLATE), encoding="utf-8")
    return str(path)


def file(folder: Path, content: str | bytes, name: str = "text.txt") -> str:
    path = folder / name
    path.write_bytes(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)
    return str(path)


def run(*arguments: str, text: bytes | str = b"") -> Any:
    """The command through typer's runner."""
    data = text.encode("utf-8") if isinstance(text, str) else text
    return CliRunner().invoke(cli.app, list(arguments), input=data)


def process(
    *arguments: str, text: bytes = b"", environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """The command as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "response_templates.cli", *arguments],
        input=text,
        capture_output=True,
        check=False,
        env={**os.environ, **(environment or {})},
    )


def parsed(text: str, **options: Any) -> Any:
    return parse_response(text, TEMPLATE, **{"prefix": "", **options})


# --- parse ---------------------------------------------------------------------------------------------------------


def test_a_file(template: str, tmp_path: Path) -> None:
    result = run("parse", "--template", template, file(tmp_path, TEXT))
    assert result.exit_code == 0
    assert json.loads(result.stdout) == parsed(TEXT)


@pytest.mark.parametrize("source", [[], ["-"]], ids=["nothing", "dash"])
def test_standard_input(template: str, source: list[str]) -> None:
    done = process("parse", "--template", template, *source, text=TEXT.encode())
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == parsed(TEXT)


@pytest.mark.parametrize("name", list_templates())
def test_a_template_of_the_registry(name: str) -> None:
    result = run("parse", "-t", name, "--errors", "recover", text="Hello")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == parse_response("Hello", cli._template(name), prefix="", errors="recover")


def test_the_prefix(template: str, tmp_path: Path) -> None:
    prompt = "user<|assistant|><think>"
    expected = parsed("a</think>b", prefix=prompt)
    for option in (["--prefix", prompt], ["--prefix-file", file(tmp_path, prompt)]):
        result = run("parse", "--template", template, *option, text="a</think>b")
        assert json.loads(result.stdout) == expected == {"role": "assistant", "reasoning_content": "a", "content": "b"}


def test_line_ends_of_a_prefix_file_and_of_the_text_are_kept(template: str, tmp_path: Path) -> None:
    result = run(
        "parse", "--template", template, "--prefix-file", file(tmp_path, b"<|assistant|>a\r\n"), text=b"b\r\nc"
    )
    assert json.loads(result.stdout)["content"] == "a\r\nb\r\nc"


def test_tools_type_the_arguments(template: str, tmp_path: Path) -> None:
    tools = file(tmp_path, json.dumps(TOOLS), "tools.json")
    result = run("parse", "--template", template, "--tools", tools, text=TEXT)
    message = json.loads(result.stdout)
    assert message == parsed(TEXT, tools=TOOLS)
    assert message["tool_calls"][0]["function"]["arguments"] == {"n": 7}


def test_recover(template: str) -> None:
    result = run("parse", "--template", template, "--errors", "recover", text=BAD)
    assert result.exit_code == 0
    assert json.loads(result.stdout) == parsed(BAD, errors="recover")
    assert "malformed" in json.loads(result.stdout)


def test_repair(template: str) -> None:
    pytest.importorskip("json_repair")
    text = '<data>{"a": [1, 2}</data>'
    result = run("parse", "--template", template, "--errors", "repair", text=text)
    assert json.loads(result.stdout) == parsed(text, errors="repair")


@pytest.mark.parametrize("events", [[], ["--events"]], ids=["message", "events"])
def test_text_that_does_not_parse(template: str, events: list[str]) -> None:
    done = process("parse", "--template", template, *events, text=BAD.encode())
    assert done.returncode == 1
    assert b"'data'" in done.stderr
    assert b"Traceback" not in done.stderr
    if not events:
        assert done.stdout == b""


# --- events --------------------------------------------------------------------------------------------------------


def test_events(template: str) -> None:
    done = process("parse", "--template", template, "--events", "--prefix", "<think>", text=b"a</think>b")
    assert done.returncode == 0
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[0] == {"type": "region_open", "field": "reasoning_content"}
    assert [event["value"] for event in events if event["type"] == "region_close"] == ["a", "b"]


def test_events_come_while_the_text_does(template: str) -> None:
    arguments = [sys.executable, "-m", "response_templates.cli", "parse", "--template", template, "--events"]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None and running.stdout is not None
        for text, expected in [
            (b"<think>Hm", ["region_open", "region_chunk"]),
            (b".</think>", ["region_chunk", "region_close"]),
            (b"\xc3", []),
            (b"\xa9", ["region_open", "region_chunk"]),
        ]:
            running.stdin.write(text)
            running.stdin.flush()
            # a line that is not flushed would be waited for without end
            assert [json.loads(running.stdout.readline())["type"] for _ in expected] == expected
        running.stdin.close()
        assert json.loads(running.stdout.readline()) == {"type": "region_close", "field": "content", "value": "é"}
        assert running.stdout.read() == b""
    assert running.returncode == 0


# --- usage ---------------------------------------------------------------------------------------------------------


def usage_errors(folder: Path, template: str) -> dict[str, tuple[list[str], str]]:
    bad = file(folder, json.dumps({**TEMPLATE, "fields": {"a": {"opn": "x"}}}), "bad.json")
    future = file(folder, json.dumps({**TEMPLATE, "version": 2}), "future.json")
    return {
        "no command": (["nothing"], "nothing"),
        "no template": (["parse"], "--template"),
        "unknown template": (["parse", "--template", "no-such-family"], "no-such-family"),
        "a folder for a template": (["parse", "--template", str(folder)], "template"),
        "a template that is not valid": (["parse", "--template", bad], "'opn'"),
        "a template of a future version": (["parse", "--template", future], "version"),
        "a template that is no JSON": (["parse", "--template", file(folder, "{", "no.json")], "JSON"),
        "no such text": (["parse", "--template", template, str(folder / "none.txt")], "none.txt"),
        "a folder for a text": (["parse", "--template", template, str(folder)], "cannot read"),
        "no such prefix": (["parse", "--template", template, "--prefix-file", "none.txt"], "none.txt"),
        "two prefixes": (["parse", "--template", template, "--prefix", "a", "--prefix-file", template], "not both"),
        "tools that are no JSON": (["parse", "--template", template, "--tools", file(folder, "[")], "JSON"),
        "tools that are no list": (["parse", "--template", template, "--tools", template], "list"),
        "an unknown way with errors": (["parse", "--template", template, "--errors", "ignore"], "ignore"),
        "an unknown option": (["parse", "--template", template, "--speed"], "--speed"),
        "explain: unknown template": (["explain", "--template", "no-such-family"], "no-such-family"),
    }


NAMES = [
    "no command",
    "no template",
    "unknown template",
    "a folder for a template",
    "a template that is not valid",
    "a template of a future version",
    "a template that is no JSON",
    "no such text",
    "a folder for a text",
    "no such prefix",
    "two prefixes",
    "tools that are no JSON",
    "tools that are no list",
    "an unknown way with errors",
    "an unknown option",
    "explain: unknown template",
]


@pytest.mark.parametrize("name", NAMES)
def test_wrong_usage_exits_with_2_and_says_what(name: str, template: str, tmp_path: Path) -> None:
    arguments, word = usage_errors(tmp_path, template)[name]
    result = run(*arguments, text="x")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert word in result.stderr


def test_wrong_usage_gives_no_traceback(template: str) -> None:
    done = process("parse", "--template", "no-such-family")
    assert done.returncode == 2
    assert b"no-such-family" in done.stderr
    assert b"Traceback" not in done.stderr


def test_without_typer_a_message_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError('No module named typer', name='typer')")
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = process("list", environment={"PYTHONPATH": paths})
    assert done.returncode == 2
    assert b"typer" in done.stderr
    assert b"response-templates[cli]" in done.stderr
    assert b"Traceback" not in done.stderr


# --- odd bytes -----------------------------------------------------------------------------------------------------

ODD = {
    "bytes that are no UTF-8": (b"a\xff\xfeb", "a\udcff\udcfeb"),
    "half a character at the end": (b"a\xe2\x82", "a\udce2\udc82"),
    "an encoded surrogate": (b"a\xed\xa0\x80", "a\udced\udca0\udc80"),
    "NUL and escape": (b"a\x00\x1b[31mb", "a\x00\x1b[31mb"),
    "beyond ASCII": ("é\U0001f600".encode(), "é\U0001f600"),
    "nothing": (b"", None),
}


@pytest.mark.parametrize(("data", "content"), ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252"])
def test_odd_text_comes_through(template: str, data: bytes, content: str | None, encoding: str) -> None:
    environment = {"PYTHONIOENCODING": encoding}
    done = process("parse", "--template", template, text=data, environment=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout.decode(encoding)).get("content") == content
    done = process("parse", "--template", template, "--events", text=data, environment=environment)
    values = [json.loads(line).get("value") for line in done.stdout.decode(encoding).splitlines()]
    assert [value for value in values if value] == ([content] if content else [])


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_odd_text_in_an_error(template: str, encoding: str) -> None:
    done = process(
        "parse", "--template", template, text=b"<data>\xff\x1b[31m</data>", environment={"PYTHONIOENCODING": encoding}
    )
    assert done.returncode == 1
    assert b"'data'" in done.stderr
    assert b"\x1b" not in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_character_cut_between_two_reads(template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "PIECE", 1)
    result = run("parse", "--template", template, text="é\U0001f600<|end|>")
    assert json.loads(result.stdout)["content"] == "é\U0001f600"


# --- list and explain ----------------------------------------------------------------------------------------------


def test_list() -> None:
    result = run("list")
    assert result.exit_code == 0
    assert result.stdout.split() == list_templates()


def test_explain_prints_spans_as_json_lines(template: str) -> None:
    result = run("explain", "--template", template, "--prefix", "x<|assistant|><think>a", text="b</think>c<|end|>")
    assert result.exit_code == 0
    spans = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(span["start"], span["end"], span["kind"], span["field"], span["text"]) for span in spans] == [
        (-8, -1, "delimiter", "reasoning_content", "<think>"),
        (-1, 1, "text", "reasoning_content", "ab"),
        (1, 9, "delimiter", "reasoning_content", "</think>"),
        (9, 10, "text", "content", "c"),
        (10, 17, "delimiter", "content", "<|end|>"),
    ]


def test_explain_in_a_terminal_is_coloured_and_safe(template: str) -> None:
    environment = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
    text = "<think>Hm\x1b]0;title\x07\xff</think>é<data>{".encode("latin-1")
    done = process("explain", "--template", template, text=text, environment=environment)
    assert done.returncode == 0, done.stderr
    shown = done.stdout.decode("utf-8")
    assert "\x1b[" in shown  # colours
    assert "\x1b]" not in shown and "\x07" not in shown  # what the model wrote does not steer the terminal
    assert r"\x1b]0;title\x07" in shown
    for name in TEMPLATE["fields"]:
        assert name in shown


def test_help() -> None:
    for arguments in (["--help"], ["parse", "--help"], ["explain", "--help"], ["list", "--help"]):
        result = run(*arguments)
        assert result.exit_code == 0
        assert "Usage" in result.stdout
