"""The show of `token_delimiters` (`scripts/show_token_delimiters.py`): a few messages, and its page of many."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from real_tokenizers import FAMILIES, Family, real_tokenizer

pytest.importorskip("transformers")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def show() -> Any:
    from response_templates import install, uninstall

    install()
    yield runpy.run_path(str(ROOT / "scripts" / "show_token_delimiters.py"))
    uninstall()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.template)
def test_only_token_delimiters_is_never_wrong(family: Family, show: Any) -> None:
    real_tokenizer(family.tokenizer)
    wrong, spelled = show["counted"](family, 40, seed=11)
    whole, streamed, ids_alone, text = show["WAYS"][:4]
    assert (wrong[whole], wrong[streamed]) == (0, 0)
    assert spelled > 100
    assert wrong[ids_alone] > 10 and wrong[text] > 10  # so the messages are such as would fool


def test_the_page_is_of_ten_thousand_messages_each() -> None:
    page = (ROOT / "docs" / "token_delimiters.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w-]+) \| ([\d,]+) \| (\d[\d,]*) \| (\d[\d,]*) \|", page, re.MULTILINE)
    assert [row[0] for row in rows] == [family.template for family in FAMILIES]
    assert all(row[2:] == ("0", "0") for row in rows)
    assert "| wrong of 10,000 |" in page
