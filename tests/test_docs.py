"""The code of the documentation runs as it stands, block after block."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hub_helpers import CONFIG, CONFIG_BYTES
from loopback_hub import LoopbackHub
from server_helpers import example, served

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parent.parent


def code_of(page: str) -> str:
    """All Python blocks of a page, as one program."""
    return "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL))


def output_of(code: str, folder: Path, **variables: str) -> str:
    """What a program prints, in a folder that has the demo model."""
    (folder / "demo").symlink_to(ROOT / "demo", target_is_directory=True)
    fixed = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", **variables, **fixed}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_streaming(tmp_path: Path) -> None:
    output = output_of(code_of("streaming.md"), tmp_path)
    assert "'arguments': {'city': 'Lima'}" in output
    assert "'arguments': {'city': 'Oslo'}" in output


def test_serving(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    pytest.importorskip("openai")
    server = example("server")
    code = code_of("serving.md")
    assert code.count("http://127.0.0.1:8000/v1") == 1
    with served(server.create_app([server.ModelBackend(str(server.MODEL))])) as url:
        output = output_of(code.replace("http://127.0.0.1:8000/v1", url), tmp_path)
    assert "get_weather {'city': 'Lima'}" in output
    assert "20 °C" in output
    assert "'tool_calls': [{" in output


def test_hub(tmp_path: Path) -> None:
    with LoopbackHub() as hub:
        hub.add_repo("me/my-model", {CONFIG: CONFIG_BYTES})
        variables = hub.environment(hub.add_user("me"), tmp_path / "home")
        folder = tmp_path / "checkpoints" / "mine"
        folder.mkdir(parents=True)
        (folder / CONFIG).write_bytes(CONFIG_BYTES)
        output = output_of(code_of("hub.md"), tmp_path, **variables, HF_HUB_OFFLINE="0")
    assert "me/my-model: template qwen3\n  passed  template loads\n" in output
    assert f"qwen3 --- a/{CONFIG}\n+++ b/{CONFIG}\n" in output
    assert f"\nproposed {hub.url}/me/my-model/discussions/1\n" in output
    assert [each.number for each in hub.repos["me/my-model"].pull_requests(only_open=True)] == [1]
    assert (folder / CONFIG).read_bytes() == CONFIG_BYTES
