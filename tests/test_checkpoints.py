"""A checkpoint's small files, as verification and installing read them: where chat templates live, special tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from response_templates.checkpoints import Folder, files_of, is_folder, read_checkpoint
from response_templates.errors import CheckpointError, ConfigError, NoTokenizerError
from response_templates.json_edit import MISSING

CONFIG = "tokenizer_config.json"
LISTED = [{"name": "default", "template": "c"}, {"name": "rag", "template": "d"}]
FILE = {"chat_template.jinja": "a"}
MORE = {"additional_chat_templates/tools.jinja": "b", "additional_chat_templates/rag.jinja": "e"}


def folder(root: Path, config: Any = None, **files: str) -> Folder:
    contents = {CONFIG: config if isinstance(config, str) else json.dumps(config or {}), **files}
    for name, content in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return Folder(root)


@pytest.mark.parametrize(
    ("config", "files", "expected"),
    [
        pytest.param({}, {}, {}, id="nowhere"),
        pytest.param({"chat_template": "c"}, {}, {"default": "c"}, id="in the config"),
        pytest.param({"chat_template": LISTED}, {}, {"default": "c", "rag": "d"}, id="a list in the config"),
        pytest.param({"chat_template": {"default": "c", "x": 1}}, {}, {"default": "c"}, id="an object in the config"),
        pytest.param({"chat_template": [1, {"name": "n"}]}, {}, {}, id="a list of other things"),
        pytest.param({"chat_template": None}, {}, {}, id="null"),
        pytest.param({}, FILE, {"default": "a"}, id="in the file"),
        pytest.param({}, {**FILE, **MORE}, {"default": "a", "tools": "b", "rag": "e"}, id="in several files"),
        pytest.param({}, MORE, {"tools": "b", "rag": "e"}, id="in additional files alone"),
        pytest.param({"chat_template": "c"}, FILE, {"default": "a"}, id="files win over the config"),
        pytest.param({"chat_template": LISTED}, MORE, {"tools": "b", "rag": "e"}, id="additional files win, too"),
        pytest.param({}, {"chat_template.jinja": " \n"}, {}, id="an empty file is none"),
        pytest.param({}, {"additional_chat_templates/notes.txt": "x"}, {}, id="other files are none"),
    ],
)
def test_chat_templates_are_found_where_they_live(
    tmp_path: Path, config: Any, files: dict[str, str], expected: dict[str, str]
) -> None:
    assert read_checkpoint(folder(tmp_path, config, **files)).chat_templates == expected


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param({"config": {"chat_template": LISTED}}, id="config"),
        pytest.param({"config": {}, **FILE, **MORE}, id="files"),
        pytest.param({"config": {"chat_template": LISTED}, **FILE}, id="both"),
    ],
)
def test_transformers_finds_the_same_chat_templates(tmp_path: Path, layout: dict[str, Any]) -> None:
    transformers = pytest.importorskip("transformers")
    from plugin_helpers import byte_level

    byte_level().save_pretrained(tmp_path)
    saved = json.loads((tmp_path / CONFIG).read_text(encoding="utf-8"))
    saved.pop("chat_template", None)
    files = {key: value for key, value in layout.items() if key != "config"}
    found = read_checkpoint(folder(tmp_path, {**saved, **layout["config"]}, **files)).chat_templates
    loaded = transformers.AutoTokenizer.from_pretrained(tmp_path).chat_template
    if isinstance(loaded, str):
        loaded = {"default": loaded}
    if MORE.keys() <= files.keys() and set(loaded) == {"default"}:
        pytest.skip("this transformers reads no additional chat templates")
    assert found == loaded


def test_special_tokens_are_texts_or_objects(tmp_path: Path) -> None:
    config = {
        "bos_token": None,
        "eos_token": "<e>",
        "pad_token": {"content": "<p>", "special": True},
        "unk_token": {"content": None},
        "sep_token": 3,
        "other_token": "<o>",
    }
    assert read_checkpoint(folder(tmp_path, config)).tokens == {"eos_token": "<e>", "pad_token": "<p>"}


@pytest.mark.parametrize(
    ("config", "expected"), [({}, MISSING), ({"response_template": None}, MISSING), ({"response_template": 3}, 3)]
)
def test_the_template_that_is_there(tmp_path: Path, config: Any, expected: Any) -> None:
    assert read_checkpoint(folder(tmp_path, config)).response_template is expected


def test_the_template_that_fits_is_found_by_chat_template_before_the_name(tmp_path: Path) -> None:
    assert read_checkpoint(folder(tmp_path / "Qwen3-8B", {"chat_template": "{{ 1 }}"})).fitting() is None
    known = "<|channel|>{# not one that is known #}"
    assert read_checkpoint(folder(tmp_path / "other", {"chat_template": known})).fitting() is None


def test_a_tokenizer_s_file_is_asked_for(tmp_path: Path) -> None:
    assert read_checkpoint(folder(tmp_path)).tokenizer_file() is None
    assert read_checkpoint(folder(tmp_path, {}, **{"tokenizer.json": "{}"})).tokenizer_file() == (
        tmp_path / "tokenizer.json"
    )


def test_what_is_no_checkpoint_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no folder"):
        read_checkpoint(files_of(tmp_path / "none", None, None))
    with pytest.raises(NoTokenizerError, match="no tokenizer"):
        read_checkpoint(files_of(tmp_path, None, None))
    for content in ("", "[]", '{"a": 1,}', "{"):
        with pytest.raises(ConfigError, match=CONFIG):
            _ = read_checkpoint(folder(tmp_path, content)).members


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = folder(tmp_path)

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(CheckpointError, match="Permission denied"):
        read_checkpoint(checkpoint)


@pytest.mark.parametrize(
    ("target", "expected"), [("{root}", True), ("org/none", False), ("none", False), (Path("none"), True)]
)
def test_a_folder_is_told_from_a_repository(tmp_path: Path, target: Any, expected: bool) -> None:
    given = target.format(root=tmp_path) if isinstance(target, str) else target
    assert is_folder(given) is expected
