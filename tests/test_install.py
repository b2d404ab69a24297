"""`install` and `uninstall`: reversible to the last attribute, idempotent, and of reach."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from transformers import PreTrainedTokenizerBase, ProcessorMixin

import response_templates
import response_templates.tokenizer as plugin
from plugin_helpers import TEMPLATE, TinyProcessor, byte_level, letter_level

OWNERS = (PreTrainedTokenizerBase, ProcessorMixin)
NAMES = ("__init__", "save_pretrained", "apply_chat_template", "parse_response", "get_response_parser")


def state() -> list[dict[str, Any]]:
    return [dict(vars(owner)) for owner in OWNERS]


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    response_templates.uninstall()
    yield
    response_templates.uninstall()


def test_uninstall_gives_back_exactly_what_was_there() -> None:
    before = state()
    response_templates.install()
    assert state() != before
    response_templates.uninstall()
    assert state() == before


def test_a_second_install_changes_nothing() -> None:
    before = state()
    response_templates.install()
    once = state()
    response_templates.install()
    assert state() == once
    response_templates.uninstall()
    assert state() == before
    response_templates.uninstall()
    assert state() == before


def test_installing_from_many_threads_installs_once() -> None:
    before = state()
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        response_templates.install()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    response_templates.uninstall()
    assert state() == before


def test_an_import_that_ends_after_uninstall_patches_nothing() -> None:
    before = state()
    response_templates.install()
    response_templates.uninstall()
    plugin._patch_processors(sys.modules["transformers.processing_utils"])
    assert state() == before
    response_templates.install()
    assert isinstance(vars(PreTrainedTokenizerBase)["response_template"], property)


def test_it_reaches_tokenizers_and_processors_that_exist_already(tmp_path: Path) -> None:
    fast, slow = byte_level(), letter_level(tmp_path)
    processor = TinyProcessor(byte_level())
    response_templates.install()
    for each in (fast, slow, processor):
        each.response_template = TEMPLATE
        assert each.parse_response("hi<|im_end|>", prefix="") == {"role": "assistant", "content": "hi"}


def test_signatures_are_supersets_of_the_native_ones() -> None:
    native = {
        (owner, name): inspect.signature(getattr(owner, name))
        for owner in OWNERS
        for name in NAMES
        if hasattr(owner, name)
    }
    response_templates.install()
    for (owner, name), signature in native.items():
        ours = inspect.signature(getattr(owner, name)).parameters
        shared = [(each.name, each.kind) for key, each in ours.items() if key in signature.parameters]
        assert shared == [(each.name, each.kind) for each in signature.parameters.values()], (owner, name)
        for key, parameter in signature.parameters.items():
            assert ours[key].default == parameter.default, (owner, name, key)


@pytest.mark.parametrize("owner", OWNERS, ids=lambda owner: owner.__name__)
def test_the_parsing_methods_can_be_read_in_help(owner: type) -> None:
    response_templates.install()
    for name in ("parse_response", "get_response_parser"):
        method = getattr(owner, name)
        assert "errors" in inspect.signature(method).parameters
        assert method.__name__ == name
        assert "prefix" in inspect.getdoc(method)


def test_templates_set_under_the_plugin_stay_without_it() -> None:
    response_templates.install()
    tokenizer = byte_level()
    tokenizer.response_template = TEMPLATE
    response_templates.uninstall()
    assert tokenizer.response_template == TEMPLATE


def test_an_attribute_that_was_set_before_install_counts() -> None:
    tokenizer = byte_level()
    tokenizer.response_template = TEMPLATE  # on old versions a plain attribute
    response_templates.install()
    assert tokenizer.response_template == TEMPLATE
    assert tokenizer.parse_response("hi", prefix="")["content"] == "hi"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_auto_installs() -> None:
    code = (
        "import response_templates.auto; from transformers import PreTrainedTokenizerBase as B;"
        "print(B.parse_response.__module__, isinstance(B.response_template, property))"
    )
    assert run(code) == "response_templates.tokenizer True"


def test_the_module_is_light_until_install() -> None:
    code = (
        "import sys, response_templates; response_templates.install;"
        "print([name for name in ('transformers', 'torch') if name in sys.modules])"
    )
    assert run(code) == "[]"
