"""`import response_templates` is light: neither torch nor transformers is imported, nor by parsing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

HEAVY = ("torch", "transformers", "numpy", "tokenizers", "huggingface_hub", "typer", "rich", "json_repair", "jinja2")
TEMPLATE = {"start_anchor": "@", "fields": {"content": {}, "reasoning_content": {"open": "<a>", "close": "</a>"}}}
REPORT = f"""
import json, sys
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
"""
USES = {
    "import": "import response_templates",
    "parsing": f"""
import response_templates
message = response_templates.parse_response("<a>x</a>y", {TEMPLATE!r}, prefix="")
assert message == {{"reasoning_content": "x", "content": "y"}}, message
""",
    "streaming": f"""
from response_templates import ResponseParser, load_template
parser = ResponseParser(load_template({json.dumps(TEMPLATE)!r}), "@")
parser.feed("<a>x")
parser.finalize()
""",
    "explaining": f"""
from response_templates import explain
assert len(explain("<a>x</a>y", {TEMPLATE!r}, prefix="")) == 4
""",
    "the registry": """
from response_templates import get_template, list_templates
for name in list_templates():
    get_template(name)
""",
    "every module of the engine": """
import response_templates.automaton, response_templates.captures, response_templates.plan
import response_templates.repair, response_templates.tools, response_templates.content
""",
    "errors": "from response_templates import ParseError, TemplateError, ResponseTemplateError",
}


def run(code: str, *options: str) -> str:
    return subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, check=True, timeout=120
    ).stdout


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_nothing_heavy_is_imported(use: str) -> None:
    assert json.loads(run(use + REPORT)) == []


def test_installing_the_plugin_does_not_import_the_parser() -> None:
    code = """
import sys
import response_templates.auto
assert "response_templates.parser" not in sys.modules
assert "response_templates.template" not in sys.modules
from transformers import PreTrainedTokenizerBase
print(PreTrainedTokenizerBase.parse_response.__module__)
"""
    assert run(code).strip() == "response_templates.tokenizer"


def test_every_public_name_is_there() -> None:
    code = """
import response_templates as package
assert set(package.__all__) <= set(dir(package))
for name in package.__all__:
    if name not in ("install", "uninstall"):  # these two import transformers
        value = getattr(package, name)
        assert callable(value), (name, value)
        assert value.__module__.startswith("response_templates."), name
try:
    package.no_such_name
except AttributeError as error:
    assert "no_such_name" in str(error)
else:
    raise AssertionError
"""
    run(code)


@pytest.mark.parametrize("name", ["explain", "Span", "parse_response", "ParseError", "template_for"])
def test_a_public_name_is_the_same_whatever_was_imported_before(name: str) -> None:
    run(
        f"""
import response_templates
from response_templates import {name} as first
from response_templates import Span, parse_response, template_for, TemplateError
from response_templates import {name}
assert {name} is first is response_templates.{name}, {name}
assert callable(first)
"""
    )


def test_the_time_of_the_import_beside_that_of_json(record_property: Callable[[str, object], None]) -> None:
    """For the record (`pytest -s`, and the JUnit report): the best of five, in milliseconds. No limit."""
    code = """
import sys, time
start = time.perf_counter()
__import__(sys.argv[1])
print((time.perf_counter() - start) * 1000)
"""
    for name in ("json", "response_templates", "response_templates.parser"):
        times = [
            float(subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, check=True).stdout)
            for _ in range(5)
        ]
        record_property(f"import {name} (ms)", f"{min(times):.1f}")
        print(f"import {name}: {min(times):.1f} ms")
        assert min(times) > 0
