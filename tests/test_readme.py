"""What the README tells a newcomer to paste runs as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parent.parent


def test_the_examples_run_one_after_the_other(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", readme, re.DOTALL))
    (tmp_path / "demo").symlink_to(ROOT / "demo", target_is_directory=True)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    first, *_, last = done.stdout.splitlines()
    assert "'name': 'get_weather', 'arguments': {'city': 'Lima'}" in first
    assert last == "True"
    assert (tmp_path / "my-checkpoint" / "tokenizer_config.json").is_file()
