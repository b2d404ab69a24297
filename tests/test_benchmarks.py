"""The benchmarks still run: each with tiny sizes, in this process. What they measure is not looked at.

Without transformers' native engine they time ours and the floor alone.
"""

from __future__ import annotations

import importlib
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks import engines, shapes

BENCHMARKS = (
    "streaming",
    "one_shot",
    "batch",
    "many_streams",
    "prefix",
    "hostile",
    "import_time",
    "snapshots",
    "token_ids",
)


def _run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sys, "argv", [name, "--quick", "--results", str(folder)])
    importlib.import_module(f"benchmarks.{name}").main()
    result: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return result


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs_and_writes_its_rows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = _run(name, tmp_path, monkeypatch)
    assert result["benchmark"] == name
    assert result["machine"]["python"]
    own = [row for row in result["rows"] if "note" not in row and row.get("engine", "ours").startswith("ours")]
    assert own, f"no row of ours in {result['rows']}"


def test_every_benchmark_is_run_here() -> None:
    folder = Path(engines.__file__).parent
    runnable = {path.stem for path in folder.glob("*.py") if "def main()" in path.read_text(encoding="utf-8")}
    assert runnable == set(BENCHMARKS)


@pytest.mark.parametrize("which", ["registry", "plain"])
@pytest.mark.parametrize("shape", shapes.SHAPES, ids=lambda shape: shape.name)
def test_a_shape_is_parsed_into_all_its_parts(shape: shapes.Shape, which: str) -> None:
    """What is timed is a message that is understood, not one that falls through."""
    message = engines.ours(shape.template(which)).whole(shape.message(20_000))
    assert len(message["reasoning_content"]) == pytest.approx(9_000, abs=300)
    assert len(message["content"]) == pytest.approx(9_000, abs=300)
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["get_weather"] * 3


@pytest.mark.parametrize("size", [1_000, 10_000])
@pytest.mark.parametrize("shape", shapes.SHAPES, ids=lambda shape: shape.name)
def test_a_message_has_about_the_length_asked_for(shape: shapes.Shape, size: int) -> None:
    assert 0.8 * size < len(shape.message(size)) < 1.6 * size
    assert 0.8 * size < len(shape.text_only(size)) < 1.3 * size


def test_prose_is_always_the_same() -> None:
    assert shapes.prose(5_000, 1) == shapes.prose(5_000, 1)
    assert shapes.prose(5_000, 1) != shapes.prose(5_000, 2)


def test_the_performance_page_is_what_the_results_say(capsys: pytest.CaptureFixture[str]) -> None:
    script = Path(__file__).parents[1] / "scripts" / "make_performance_docs.py"
    made = runpy.run_path(str(script))["pages"]()
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is out of date: run scripts/{script.name}"
