"""A template is saved with its tokenizer, loaded, copied and deleted; all else in the config stays as it was."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from transformers import AutoConfig, AutoProcessor, AutoTokenizer, PretrainedConfig

import response_templates
from plugin_helpers import (
    BROKEN,
    CHAT_TEMPLATE,
    TEMPLATE,
    LetterTokenizer,
    TinyProcessor,
    byte_level,
    config_of,
    letter_level,
    saved,
    write_template,
)
from response_templates import TemplateError, TemplateMissingError, load_template

REPEATED = 3


@pytest.fixture(autouse=True)
def plugin() -> Iterator[None]:
    response_templates.install()
    yield
    response_templates.uninstall()


def make(kind: str, folder: Path, **options: Any) -> Any:
    folder.mkdir(exist_ok=True)
    return byte_level(**options) if kind == "fast" else letter_level(folder, **options)


def load(kind: str, folder: Path, **options: Any) -> Any:
    loader = AutoTokenizer if kind == "fast" else LetterTokenizer
    return loader.from_pretrained(folder, **options)


both_kinds = pytest.mark.parametrize("kind", ["fast", "slow"])


@both_kinds
def test_saved_and_loaded_again_and_again(kind: str, tmp_path: Path) -> None:
    tokenizer = make(kind, tmp_path / "made")
    tokenizer.response_template = TEMPLATE
    for turn in range(REPEATED):
        folder = tmp_path / str(turn)
        assert saved(tokenizer, folder)["response_template"] == TEMPLATE
        tokenizer = load(kind, folder)
        assert tokenizer.response_template == TEMPLATE
        assert tokenizer.parse_response("hi<|im_end|>", prefix="")["content"] == "hi"


@both_kinds
def test_the_keys_of_a_template_keep_their_order_in_the_tokenizer(kind: str, tmp_path: Path) -> None:
    tokenizer = make(kind, tmp_path / "made")
    tokenizer.response_template = TEMPLATE
    saved(tokenizer, tmp_path / "saved")
    assert load_template(load(kind, tmp_path / "saved").response_template) == load_template(TEMPLATE)


@both_kinds
def test_nothing_else_in_the_config_changes(kind: str, tmp_path: Path) -> None:
    response_templates.uninstall()
    plain = saved(make(kind, tmp_path / "a", chat_template=CHAT_TEMPLATE), tmp_path / "plain")
    files = sorted(path.name for path in (tmp_path / "plain").iterdir())
    response_templates.install()
    without = saved(make(kind, tmp_path / "b", chat_template=CHAT_TEMPLATE), tmp_path / "without")
    tokenizer = make(kind, tmp_path / "c", chat_template=CHAT_TEMPLATE)
    tokenizer.response_template = TEMPLATE
    with_template = saved(tokenizer, tmp_path / "with")
    for config in (plain, without, with_template):
        config.pop("vocab_file", None)  # where this test made the vocabulary
    assert without == plain
    assert with_template == {**plain, "response_template": TEMPLATE}
    assert sorted(path.name for path in (tmp_path / "with").iterdir()) == files


@both_kinds
def test_a_deleted_template_leaves_no_key(kind: str, tmp_path: Path) -> None:
    tokenizer = make(kind, tmp_path / "made")
    tokenizer.response_template = TEMPLATE
    saved(tokenizer, tmp_path / "with")
    tokenizer = load(kind, tmp_path / "with")
    del tokenizer.response_template
    assert "response_template" not in saved(tokenizer, tmp_path / "without")
    assert load(kind, tmp_path / "without").response_template is None
    del tokenizer.response_template  # once more is no error


@both_kinds
def test_a_template_can_be_replaced(kind: str, tmp_path: Path) -> None:
    tokenizer = make(kind, tmp_path / "made")
    tokenizer.response_template = TEMPLATE
    saved(tokenizer, tmp_path / "first")
    other = {"start_anchor": "@", "fields": {"content": {}}}
    tokenizer = load(kind, tmp_path / "first")
    tokenizer.response_template = other
    assert saved(tokenizer, tmp_path / "second")["response_template"] == other
    assert load(kind, tmp_path / "second").response_template == other


@both_kinds
@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copies_keep_it(kind: str, how: Any, tmp_path: Path) -> None:
    tokenizer = make(kind, tmp_path / "made")
    tokenizer.response_template = TEMPLATE
    twin = how(tokenizer)
    assert twin.response_template == TEMPLATE
    assert twin.parse_response("hi", prefix="")["content"] == "hi"
    assert saved(twin, tmp_path / "twin")["response_template"] == TEMPLATE


@both_kinds
def test_a_deep_copy_is_on_its_own(kind: str, tmp_path: Path) -> None:
    tokenizer = make(kind, tmp_path / "made")
    tokenizer.response_template = TEMPLATE
    twin = copy.deepcopy(tokenizer)
    del twin.response_template
    assert tokenizer.response_template == TEMPLATE
    assert saved(tokenizer, tmp_path / "saved")["response_template"] == TEMPLATE


@both_kinds
def test_as_an_argument_of_from_pretrained(kind: str, tmp_path: Path) -> None:
    saved(make(kind, tmp_path / "made"), tmp_path / "saved")
    for number, value in enumerate((TEMPLATE, load_template(TEMPLATE))):
        tokenizer = load(kind, tmp_path / "saved", response_template=value)
        assert tokenizer.response_template == TEMPLATE
        assert saved(tokenizer, tmp_path / str(number))["response_template"] == TEMPLATE


@both_kinds
def test_an_attribute_set_before_install_is_saved(kind: str, tmp_path: Path) -> None:
    tokenizer = make(kind, tmp_path / "made")
    response_templates.uninstall()
    tokenizer.response_template = TEMPLATE
    response_templates.install()
    assert saved(tokenizer, tmp_path / "saved")["response_template"] == TEMPLATE


@both_kinds
def test_a_tokenizer_loaded_before_install_has_its_template(kind: str, tmp_path: Path) -> None:
    tokenizer = make(kind, tmp_path / "made")
    tokenizer.response_template = TEMPLATE
    saved(tokenizer, tmp_path / "saved")
    response_templates.uninstall()
    tokenizer = load(kind, tmp_path / "saved")
    response_templates.install()
    assert tokenizer.response_template == TEMPLATE
    assert tokenizer.parse_response("hi", prefix="")["content"] == "hi"


@both_kinds
def test_without_the_plugin_it_is_still_saved(kind: str, tmp_path: Path) -> None:
    tokenizer = make(kind, tmp_path / "made")
    tokenizer.response_template = TEMPLATE
    response_templates.uninstall()
    assert saved(tokenizer, tmp_path / "saved")["response_template"] == TEMPLATE


@both_kinds
def test_the_old_key_is_left_alone(kind: str, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"content": {"type": "string"}}}
    found = {}
    for name, prepare in (("plain", response_templates.uninstall), ("ours", response_templates.install)):
        prepare()
        folder = tmp_path / name
        saved(make(kind, tmp_path / f"{name}-made"), folder)
        config = {**config_of(folder), "response_schema": schema}
        (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        found[name] = saved(load(kind, folder), tmp_path / f"{name}-again").get("response_schema")
    assert found["ours"] == found["plain"]


# --- broken templates ----------------------------------------------------------------------------------------------

BAD: dict[str, Any] = {
    "a future version": BROKEN,
    "an unknown key": {**TEMPLATE, "feilds": {}},
    "no object": 5,
    "a list": [TEMPLATE],
    "a text": "no template",
    "an empty object": {},
    "a regex that is none": {"start_anchor_pattern": "(", "fields": {"content": {}}},
    "a huge regex": {"start_anchor_pattern": "(?:(?:a{1000}){1000}){1000}", "fields": {"content": {}}},
}


@both_kinds
@pytest.mark.parametrize("value", BAD.values(), ids=BAD.keys())
def test_a_broken_template_warns_and_fails_only_on_use(kind: str, value: Any, tmp_path: Path) -> None:
    saved(make(kind, tmp_path / "made"), tmp_path / "saved")
    write_template(tmp_path / "saved", value)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tokenizer = load(kind, tmp_path / "saved")
    told = [str(each.message) for each in caught if "response template" in str(each.message)]
    assert len(told) == 1
    with pytest.raises(TemplateError) as error:
        tokenizer.parse_response("hi", prefix="")
    assert str(error.value) in told[0]
    with pytest.raises(TemplateError):
        tokenizer.get_response_parser(prefix="")
    assert tokenizer("hi")["input_ids"]
    assert saved(tokenizer, tmp_path / "again")["response_template"] == value
    assert copy.deepcopy(tokenizer).response_template == value
    tokenizer.response_template = TEMPLATE  # mended
    assert tokenizer.parse_response("hi", prefix="")["content"] == "hi"
    assert saved(tokenizer, tmp_path / "mended")["response_template"] == TEMPLATE


def test_a_text_in_a_config_is_never_a_path(tmp_path: Path) -> None:
    (tmp_path / "template.json").write_text(json.dumps(TEMPLATE), encoding="utf-8")
    saved(byte_level(), tmp_path / "saved")
    write_template(tmp_path / "saved", str(tmp_path / "template.json"))
    with pytest.warns(UserWarning, match="a JSON object, not str"):
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / "saved")
    with pytest.raises(TemplateError, match="a JSON object, not str"):
        tokenizer.parse_response("hi", prefix="")


def test_a_null_in_a_config_is_no_template(tmp_path: Path) -> None:
    saved(byte_level(), tmp_path / "saved")
    write_template(tmp_path / "saved", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert tokenizer.response_template is None
    with pytest.raises(TemplateMissingError):
        tokenizer.parse_response("hi", prefix="")


def test_a_good_template_warns_of_nothing(tmp_path: Path) -> None:
    tokenizer = byte_level()
    tokenizer.response_template = TEMPLATE
    saved(tokenizer, tmp_path / "saved")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        AutoTokenizer.from_pretrained(tmp_path / "saved")


# --- processors and the Hub ----------------------------------------------------------------------------------------


class TinyConfig(PretrainedConfig):
    model_type = "response-templates-tiny"


@pytest.fixture(scope="module")
def registered() -> None:
    AutoConfig.register(TinyConfig.model_type, TinyConfig)
    AutoProcessor.register(TinyConfig, TinyProcessor)


def test_a_processor_saves_and_loads_it(registered: None, tmp_path: Path) -> None:
    processor = TinyProcessor(byte_level())
    processor.response_template = TEMPLATE
    processor.save_pretrained(tmp_path)
    TinyConfig().save_pretrained(tmp_path)
    assert config_of(tmp_path)["response_template"] == TEMPLATE
    assert AutoTokenizer.from_pretrained(tmp_path).response_template == TEMPLATE
    loaded = AutoProcessor.from_pretrained(tmp_path)
    assert isinstance(loaded, TinyProcessor)
    assert loaded.response_template == TEMPLATE
    assert loaded.parse_response("hi", prefix="")["content"] == "hi"
    del loaded.response_template
    loaded.save_pretrained(tmp_path / "without")
    assert "response_template" not in config_of(tmp_path / "without")


def test_nothing_else_in_a_saved_processor_changes(tmp_path: Path) -> None:
    written = {}
    for name, prepare in (("plain", response_templates.uninstall), ("ours", response_templates.install)):
        prepare()
        TinyProcessor(byte_level(), chat_template=CHAT_TEMPLATE).save_pretrained(tmp_path / name)
        written[name] = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / name).iterdir()}
    assert written["ours"] == written["plain"]


def test_push_to_hub_carries_it_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tokenizer = byte_level()
    tokenizer.response_template = TEMPLATE
    pushed: list[dict[str, Any]] = []

    class Repository:
        repo_id = "someone/something"

    class Hub:
        def create_repo(self, *args: Any, **kwargs: Any) -> Repository:
            return Repository()

    def upload(self: Any, working_dir: Any, *args: Any, **kwargs: Any) -> None:
        pushed.append(config_of(Path(working_dir)))

    monkeypatch.chdir(tmp_path)
    for name in ("_create_repo", "create_repo"):
        monkeypatch.setattr(type(tokenizer), name, lambda *a, **k: Repository.repo_id, raising=False)
        monkeypatch.setattr(f"transformers.utils.hub.{name}", lambda *a, **k: Repository(), raising=False)
    monkeypatch.setattr("transformers.utils.hub.hf_api", Hub, raising=False)
    for name in ("create_model_card_from_template", "create_and_tag_model_card"):
        monkeypatch.setattr(f"transformers.utils.hub.{name}", lambda *a, **k: Card(), raising=False)
    monkeypatch.setattr(type(tokenizer), "_upload_modified_files", upload)
    tokenizer.push_to_hub("someone/something")
    assert [config["response_template"] for config in pushed] == [TEMPLATE]


class Card:
    """A model card that is never written."""

    def save(self, *args: Any, **kwargs: Any) -> None:
        pass
