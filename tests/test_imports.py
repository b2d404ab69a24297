"""`when_imported`: the action runs once, right after the import, or never if it is called off."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from response_templates.imports import when_imported


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"made_up_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text("value = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_it_waits_for_the_import(module: str) -> None:
    seen: list[int] = []
    finders = list(sys.meta_path)
    when_imported(module, lambda loaded: seen.append(loaded.value))
    assert seen == []
    loaded = import_module(module)
    assert seen == [1]
    assert sys.meta_path == finders
    assert type(loaded.__spec__.loader).__module__.startswith(("importlib", "_frozen_importlib"))


def test_what_is_imported_already_is_acted_on_at_once(module: str) -> None:
    seen: list[int] = []
    import_module(module)
    when_imported(module, lambda loaded: seen.append(loaded.value))
    assert seen == [1]


def test_called_off(module: str) -> None:
    seen: list[int] = []
    finders = list(sys.meta_path)
    when_imported(module, lambda loaded: seen.append(loaded.value))()
    assert sys.meta_path == finders
    import_module(module)
    assert seen == []
