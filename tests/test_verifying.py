"""Verification: a template that fits passes, and whatever does not fit is told, on chat templates made for it."""

from __future__ import annotations

import copy
import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import hub_fleet
import materials
from response_templates import get_template, probing, verifying
from response_templates.checkpoints import Folder, read_checkpoint
from response_templates.errors import CheckpointError, ConfigError, NoTokenizerError, UnknownTemplateError
from response_templates.verifying import FAILED, NOTED, PASSED, SKIPPED, Check, Report, verify

CALLS = (
    '{% for c in m.tool_calls or [] %}{{ \'<tool_call>\\n{"name": "\' + c.function.name + \'", "arguments": \' }}'
    "{{ ARGUMENTS }}{{ '}\\n</tool_call>' }}{{ '' if loop.last else '\\n' }}{% endfor %}"
)
AS_OBJECT = CALLS.replace("ARGUMENTS", "c.function.arguments | tojson")
AS_TEXT = CALLS.replace("ARGUMENTS", "c.function.arguments if c.function.arguments is string else None | tojson")
THOUGHT = "{% if m.reasoning_content %}{{ '<think>\\n' + m.reasoning_content + '\\n</think>\\n\\n' }}{% endif %}"
TEXT = "{{ m.content }}{{ '\\n' if m.content and m.tool_calls else '' }}"
PROMPT = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
SHAPES = tuple(verifying.SHAPES)
WITH_REASONING = tuple(shape for shape in SHAPES if "reasoning" in shape)
WITH_CALLS = tuple(shape for shape in SHAPES if "call" in shape)


def chat_template(body: str, before: str = "", prompt: str = PROMPT) -> str:
    """ChatML, with `body` for what the assistant says."""
    said = "{% if m.role == 'assistant' %}" + body + "{% else %}{{ m.content }}{% endif %}"
    turn = "{{ '<|im_start|>' + m.role + '\\n' }}" + said + "{{ '<|im_end|>\\n' }}"
    return before + "{% for m in messages %}" + turn + "{% endfor %}" + prompt


GOOD = chat_template(THOUGHT + TEXT + AS_OBJECT)
REFUSES_CALLS = "{% if tools or messages[-1].tool_calls %}{{ raise_exception('no tools here') }}{% endif %}"
NEVER = "{{ raise_exception('never') }}"
LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
BRANCHED = (
    "{% if m.tool_calls %}{{ '<think>\\n' + m.content + '\\n</think>\\n\\n' if m.content else '' }}" + AS_OBJECT
    + "{% else %}" + THOUGHT + "{{ m.content }}{% endif %}"
)  # fmt: skip


def checkpoint(root: Path, *sources: str, **config: Any) -> Path:
    """A folder with these chat templates, the first as the usual one."""
    (root / "additional_chat_templates").mkdir(parents=True, exist_ok=True)
    for number, source in enumerate(sources):
        name = f"additional_chat_templates/more{number}.jinja" if number else "chat_template.jinja"
        (root / name).write_text(source, encoding="utf-8")
    (root / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", **config}), encoding="utf-8")
    return root


def statuses(report: Report) -> dict[str, str]:
    return {check.name: check.status for check in report.checks}


def the(report: Report, name: str) -> Check:
    (found,) = [check for check in report.checks if check.name == name]
    return found


def changed(*path: str, to: Any = None) -> dict[str, Any]:
    """The template for Qwen 3 with one of its values changed, or taken out."""
    template = copy.deepcopy(get_template("qwen3").template.to_dict())
    place = template
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    if to is not None:
        place[path[-1]] = to
    return template


@pytest.fixture(autouse=True)
def _each_chat_template_is_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "render_chats", _rendered_once)


_RENDERED: dict[Any, probing.Rendering] = {}


def _rendered_once(source: str, chats: Any, tokens: Any) -> probing.Rendering:
    key = source, tuple(tokens.items())  # the chats are always the same
    if key not in _RENDERED:
        _RENDERED[key] = probing.render_chats(source, chats, tokens)
    return _RENDERED[key]


# --- what fits -----------------------------------------------------------------------------------------------------


def test_what_fits_passes(tmp_path: Path) -> None:
    root = checkpoint(tmp_path, GOOD)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    report = verify(root)
    found = statuses(report)
    assert (report.template_name, report.ok, report.notes, report.failures) == ("qwen3", True, (), ())
    assert {name for name, status in found.items() if status == PASSED} >= {
        "template loads", "start anchor", "prompt alone", *SHAPES,
    }  # fmt: skip
    assert found["ids"] == SKIPPED  # there is no tokenizer.json
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_each_message_is_tried_after_each_history_and_with_each_switch(tmp_path: Path) -> None:
    report = verify(checkpoint(tmp_path, GOOD), "qwen3")
    chats = len(verifying.HISTORIES) * len(verifying.SWITCHES)
    assert {the(report, shape).detail for shape in SHAPES} == {f"in {chats} chats"}
    assert the(report, "start anchor").detail == f"in {chats} prompts"


NATIVE = "transformers' own engine loads it"
HAS_NATIVE = importlib.util.find_spec("transformers.utils.chat_parsing") is not None


def test_the_native_engine_is_asked_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers
    from packaging.version import Version

    root = checkpoint(tmp_path, GOOD)
    if Version(transformers.__version__) < Version("5.13"):
        assert (HAS_NATIVE, the(verify(root), NATIVE).status) == (False, SKIPPED)
        return
    assert (HAS_NATIVE, the(verify(root), NATIVE).status) == (True, PASSED)
    from transformers.utils import chat_parsing

    class Refusing(chat_parsing.ResponseParser):  # type: ignore[misc]
        def __init__(self, template: Mapping[str, Any], **options: Any) -> None:
            assert template == get_template("qwen3").template.to_dict()
            raise ValueError("not like this")

    monkeypatch.setattr(chat_parsing, "ResponseParser", Refusing)
    check = the(verify(root), NATIVE)
    assert (check.status, check.detail) == (FAILED, "ValueError: not like this")


# --- what does not -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "failed"),
    [
        pytest.param("gpt-oss", {"start anchor"}, id="another family"),
        pytest.param("qwen3-coder", set(WITH_CALLS), id="another family with the same anchor"),
        pytest.param(changed("start_anchor", to="<|im_start|>bot\n"), {"start anchor"}, id="anchor that is not there"),
        pytest.param(changed("start_anchor", to="<|im_start|>user\n"), {"start anchor"}, id="anchor of another turn"),
        pytest.param(changed("fields", "tool_calls"), set(WITH_CALLS), id="no calls"),
        pytest.param(changed("fields", "reasoning_content"), set(WITH_REASONING), id="no reasoning"),
        pytest.param(changed("fields", "content"), {"answer"}, id="no content"),
        pytest.param(changed("fields", "content", "close_pattern"), {"answer"}, id="end token in the content"),
        pytest.param(
            changed("fields", "reasoning_content", "open_pattern", to="<thinking>"),
            set(WITH_REASONING),
            id="other open of reasoning",
        ),
        pytest.param(
            changed("fields", "reasoning_content", "close_pattern", to="</thinking>"),
            set(WITH_REASONING),
            id="other close of reasoning",
        ),
        pytest.param(
            changed("fields", "tool_calls", "open_pattern", to="<tool_calls>"),
            set(WITH_CALLS),
            id="other open of calls",
        ),
        pytest.param(
            changed("fields", "tool_calls", "close_pattern", to="</tool_calls>"),
            set(WITH_CALLS),
            id="other close of calls",
        ),
        pytest.param(changed("fields", "tool_calls", "repeats"), {"two calls"}, id="one call only"),
        pytest.param(changed("fields", "tool_calls", "content", to="text"), set(WITH_CALLS), id="calls as text"),
        pytest.param(changed("defaults", to={"role": "assistant", "x": 1}), set(), id="more defaults are no fault"),
    ],
)
def test_what_does_not_fit_is_found(tmp_path: Path, template: Any, failed: set[str]) -> None:
    report = verify(checkpoint(tmp_path, GOOD), template)
    found = {check.name for check in report.failures}
    assert found >= failed, str(report)
    assert report.ok == (not failed), str(report)


def test_a_failure_shows_the_messages_as_a_diff(tmp_path: Path) -> None:
    report = verify(checkpoint(tmp_path, GOOD), changed("fields", "reasoning_content"))
    check = the(report, "reasoning and answer")
    assert "another message comes back; the chat template writes '<think>" in check.detail
    lines = check.diff.splitlines()
    assert lines[:2] == ["--- the message", "+++ what comes back"]
    assert f'-  "reasoning_content": {json.dumps(verifying.THOUGHT)},' in lines
    assert any(line.startswith('+  "content": "<think>') for line in lines)
    assert check.diff.splitlines()[0] in str(report)


@pytest.mark.parametrize(
    ("source", "failed"),
    [
        pytest.param("{{ raise_exception('never') }}", "it refuses every message that it was shown (", id="raises"),
        pytest.param("{% if %}", "does not compile", id="does not compile"),
        pytest.param("{{ messages[0].content.x.y }}", "UndefinedError", id="has faults"),
        pytest.param("Hello.", "it refuses every message", id="writes nothing of it"),
    ],
)
def test_a_chat_template_that_cannot_be_asked(tmp_path: Path, source: str, failed: str) -> None:
    report = verify(checkpoint(tmp_path, source), "qwen3")
    assert [check.name for check in report.failures] == ["chat template"]
    assert failed in report.failures[0].detail


@pytest.mark.parametrize("source", [LOOP, GOOD + "{% if messages | length > 3 %}" + LOOP + "{% endif %}"])
def test_a_chat_template_that_loops_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.setattr(probing, "TIME_LIMIT", 1.0)
    report = verify(checkpoint(tmp_path, source), "qwen3")
    assert report.failures[0].name == "chat template"
    assert report.failures[0].detail == probing.TOO_SLOW


def test_a_chat_template_that_is_not_there(tmp_path: Path) -> None:
    report = verify(checkpoint(tmp_path), "qwen3")
    assert [(check.name, check.status) for check in report.checks][-1] == ("chat template", FAILED)
    assert "no chat template" in report.failures[0].detail


def test_no_template_is_known_to_fit(tmp_path: Path) -> None:
    report = verify(checkpoint(tmp_path, "{{ messages[0].content }}"))
    assert (report.template_name, report.ok) == ("", False)
    assert "name one" in report.failures[0].detail


def test_a_template_that_does_not_load(tmp_path: Path) -> None:
    report = verify(checkpoint(tmp_path, GOOD), changed("fields", "content", "repeats", to="yes"))
    assert [(check.name, check.status) for check in report.checks] == [("template loads", FAILED)]
    assert "repeats" in report.checks[0].detail


# --- what is only told ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "noted", "said"),
    [
        pytest.param(
            chat_template(TEXT + AS_OBJECT), WITH_REASONING, "the chat template drops reasoning", id="reasoning"
        ),
        pytest.param(
            chat_template(THOUGHT + "{{ '' if m.tool_calls else m.content }}" + AS_OBJECT),
            ("text and calls", "reasoning, text and calls"),
            "the chat template drops the text beside calls",
            id="text beside calls",
        ),
        pytest.param(
            chat_template(BRANCHED),
            ("text and calls", "reasoning, text and calls"),
            "the chat template writes the text beside calls as reasoning",
            id="text beside calls as reasoning",
        ),
        pytest.param(
            chat_template(THOUGHT + TEXT + AS_OBJECT.replace("m.tool_calls or []", "(m.tool_calls or [])[:1]")),
            ("two calls",),
            "the chat template writes 1 of 2 calls",
            id="second call",
        ),
        pytest.param(
            chat_template(THOUGHT + TEXT), ("one call", "two calls"), "the chat template writes none of", id="calls"
        ),
        pytest.param(
            chat_template(THOUGHT + TEXT, REFUSES_CALLS),
            WITH_CALLS,
            "the chat template writes no such message",
            id="refuses calls",
        ),
        pytest.param(
            chat_template(THOUGHT + TEXT + AS_TEXT),
            WITH_CALLS,
            "the chat template takes arguments as JSON text only",
            id="arguments as text",
        ),
        pytest.param(
            chat_template(TEXT + AS_OBJECT).replace("m.content", "m.content[0].text"),
            WITH_REASONING,
            "the chat template drops reasoning",
            id="text in parts alone",
        ),
        pytest.param(
            GOOD.replace("{{ '<|im_start|>' + m.role", "{{ '' if m.tool_calls else '<|im_start|>' + m.role"),
            ("start anchor",),
            "the chat template leaves it out before some messages (one call, first)",
            id="no start of a turn",
        ),
    ],
)
def test_what_the_chat_template_does_not_write_is_a_note(
    tmp_path: Path, source: str, noted: tuple[str, ...], said: str
) -> None:
    report = verify(checkpoint(tmp_path, source), "qwen3")
    assert report.ok, str(report)
    for name in noted:
        check = the(report, name)
        assert (check.status, said in check.detail) == (NOTED, True), str(report)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            chat_template(THOUGHT + TEXT + AS_OBJECT, prompt=PROMPT.replace("\\n'", "\\n<think>\\n'")), id="open"
        ),
        pytest.param(
            chat_template(
                THOUGHT + TEXT + AS_OBJECT,
                prompt=PROMPT + "{% if enable_thinking is defined and not enable_thinking and add_generation_prompt %}"
                "{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}",
            ),
            id="closed if switched off",
        ),
        pytest.param(
            chat_template(THOUGHT + TEXT + AS_OBJECT, prompt="<|im_start|>system\n" + "Be good. " * 9 + PROMPT),
            id="a fixed text after all",
        ),
    ],
)
def test_what_a_prompt_writes_beforehand_is_no_fault(tmp_path: Path, source: str) -> None:
    report = verify(checkpoint(tmp_path, source), "qwen3")
    assert report.failures == (), str(report)


def test_each_chat_template_is_tried(tmp_path: Path) -> None:
    report = verify(checkpoint(tmp_path, GOOD, GOOD.replace("<think>", "<reason>")), "qwen3")
    assert statuses(report)["default: reasoning and answer"] == PASSED
    assert statuses(report)["more1: reasoning and answer"] == FAILED


@pytest.mark.parametrize(("order", "ok"), [((GOOD, NEVER), True), ((NEVER, GOOD), False)])
def test_one_beside_the_default_may_refuse(tmp_path: Path, order: tuple[str, str], ok: bool) -> None:
    report = verify(checkpoint(tmp_path, *order), "qwen3")
    assert report.ok is ok, str(report)
    refused = [check for check in report.checks if "it refuses every message" in check.detail]
    assert [check.status for check in refused] == [NOTED if ok else FAILED]


# --- real chat templates -------------------------------------------------------------------------------------------

# Families whose formats have something that is easily got wrong here: end tokens of their own, turns without a start,
# text beside calls as reasoning, prompts that are no part of a chat.
DIFFICULT = (
    *("apertus", "apriel", "apriel-1.6", "cohere-command-a", "cohere-command-r", "falcon3", "gigachat", "hunyuan"),
    *("laguna", "magiseek", "mistral", "mistral-v3", "phi4-mini", "qwen3-medical-grpo", "solar-pro2", "think"),
)


def _real(root: Path, identifier: str, family: str, text: str) -> Path:
    return checkpoint(root, text, **hub_fleet.domains()[family].tokens)


@pytest.mark.parametrize("family", materials.share(DIFFICULT))
def test_a_real_chat_template_passes(tmp_path: Path, family: str) -> None:
    known = next(item for item in hub_fleet.known_chat_templates() if item[1] == family)
    report = verify(_real(tmp_path, *known), family)
    assert report.failures == (), str(report)


@pytest.mark.parametrize("identifier", materials.share(list(hub_fleet.UNFIT)))
def test_a_real_chat_template_is_refused(tmp_path: Path, identifier: str) -> None:
    known = next(item for item in hub_fleet.known_chat_templates() if item[0] == identifier)
    report = verify(_real(tmp_path, *known), known[1])
    first = report.failures[0]
    assert re.match(hub_fleet.UNFIT[identifier], f"{first.name}: {first.detail}"), str(report)


# --- by ids --------------------------------------------------------------------------------------------------------


def _tokenizer(**options: Any) -> str:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if options.get("loses"):
        tokenizer.normalizer = normalizers.Replace(options["loses"], "")
    return str(tokenizer.to_str())


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        pytest.param(_tokenizer(), PASSED, "in 21 chats", id="all comes back"),
        pytest.param(_tokenizer(loses="</tool_call>"), FAILED, "after the tokenizer: ", id="a delimiter is lost"),
        pytest.param("{}", SKIPPED, "does not load", id="no tokenizer"),
    ],
)
def test_the_delimiters_survive_the_tokenizer(tmp_path: Path, content: str, status: str, said: str) -> None:
    root = checkpoint(tmp_path, GOOD)
    (root / "tokenizer.json").write_text(content, encoding="utf-8")
    check = the(verify(root), "ids")
    assert (check.status, said in check.detail) == (status, True), check
    assert "ids" not in statuses(verify(root, ids=False))


# --- the report ----------------------------------------------------------------------------------------------------

REPORT = Report("a/b", "qwen3", (Check("x", PASSED), Check("y|z", FAILED, "a\n|b", "--- a\n+++ b"), Check("n", NOTED)))


def test_a_report_is_a_table_and_data() -> None:
    assert REPORT.table().splitlines()[2:] == ["| x | passed |  |", "| y\\|z | failed | a \\|b |", "| n | noted |  |"]
    told = json.loads(json.dumps(REPORT.to_dict()))
    assert (told["target"], told["template"], told["ok"]) == ("a/b", "qwen3", False)
    assert told["checks"][1] == {"name": "y|z", "status": "failed", "detail": "a\n|b", "diff": "--- a\n+++ b"}
    assert [check.name for check in REPORT.notes] == ["n"]


# --- what is meant -------------------------------------------------------------------------------------------------


def _by_name(root: Path) -> Any:
    return "qwen3"


def _by_path(root: Path, role: str = "assistant") -> Any:
    path = root / "mine.json"
    path.write_text(json.dumps(changed("defaults", to={"role": role})), encoding="utf-8")
    return path


def _by_object(root: Path) -> Any:
    return get_template("qwen3").template


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (_by_name, "qwen3"),
        (_by_path, "qwen3"),
        (lambda root: str(_by_path(root)), "qwen3"),
        (lambda root: _by_path(root, role="bot"), "mine.json"),
        (lambda root: str(_by_path(root, role="bot")), "mine.json"),
        (_by_object, "qwen3"),
        (lambda root: get_template("qwen3"), "qwen3"),
        (lambda root: get_template("qwen3").template.to_dict(), "qwen3"),
        (lambda root: changed("defaults", to={"role": "bot"}), "custom"),
        (lambda root: None, "qwen3"),
    ],
)
def test_a_template_is_named_in_many_ways(tmp_path: Path, given: Callable[[Path], Any], name: str) -> None:
    there = read_checkpoint(Folder(checkpoint(tmp_path, GOOD)))
    found, source = verifying.chosen(there, given(tmp_path))
    assert found == name
    assert verifying.load_template(source).to_dict()["fields"] == get_template("qwen3").template.to_dict()["fields"]


def test_the_template_that_is_there_is_tried_first(tmp_path: Path) -> None:
    report = verify(checkpoint(tmp_path, GOOD, response_template=get_template("gpt-oss").template.to_dict()))
    assert (report.template_name, report.ok) == ("gpt-oss", False)


def test_what_cannot_be_tried_raises(tmp_path: Path) -> None:
    with pytest.raises(UnknownTemplateError, match="qwen3"):
        verify(checkpoint(tmp_path / "good", GOOD), "qwen33")
    with pytest.raises(CheckpointError, match="no folder"):
        verify(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoTokenizerError):
        verify(tmp_path / "empty")
    (tmp_path / "empty" / "tokenizer_config.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ConfigError, match="JSON object"):
        verify(tmp_path / "empty")
