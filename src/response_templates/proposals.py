"""What a pull request or commit of ours says: what, why, how it was verified; and how ours are told from others'.

The last line of every description is the mark: the template's name and the digest of its content. By it a later run
knows that a pull request, or the template in a repository, is of this package's making.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import __version__
from .verifying import Report

_MARK = re.compile(r"response-templates [\w.+-]+, template `(?P<name>[^`\n]*)`, sha256 `(?P<digest>[0-9a-f]{64})`")
ABOUT = "https://pypi.org/project/response-templates/"
SUBJECT = "response template"  # in the title of each of our pull requests
LONGEST_NAME = 100  # characters of a template's name in a title; the Hub takes titles of 200
NO_TEMPLATE: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Mark:
    """Which template a text of ours is about."""

    name: str
    digest: str

    def __str__(self) -> str:
        return f"response-templates {__version__}, template `{_plain(self.name)}`, sha256 `{self.digest}`"


def digest_of(template: Any) -> str:
    """SHA-256 (hex) of a template's content; the order of keys, white space and escapes don't count."""
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode("ascii")).hexdigest()


def marks_in(text: str) -> list[Mark]:
    """The marks in a description, last one last."""
    return [Mark(found["name"], found["digest"]) for found in _MARK.finditer(text)]


def title_of(name: str, *, replaces: bool) -> str:
    """The title of a pull request that adds (or replaces) a template."""
    return f"{'Update the' if replaces else 'Add a'} {SUBJECT} ({_plain(name)})"


def text_of(name: str, template: Mapping[str, Any], report: Report | None, *, replaces: bool) -> str:
    """The description of a pull request that adds (or replaces) a template."""
    change = "replaces the value of the key" if replaces else "adds the key"
    paragraphs = [
        f"This {change} `response_template` in `tokenizer_config.json`. Nothing else in the file is touched.",
        "A response template says how the text that this model generates turns back into a message: reasoning, answer"
        " and tool calls apart. With it, `tokenizer.parse_response(...)` works: natively in transformers 5.13 and"
        f" later, and from 4.51 on with the plugin [response-templates]({ABOUT}). Other software doesn't look at the"
        " key.",
        _verified(report),
        str(Mark(name, digest_of(template))),
    ]
    return "\n\n".join(paragraphs)


def removal_text(name: str) -> str:
    """The description of a pull request that removes the template."""
    return (
        "This removes the key `response_template` from `tokenizer_config.json`. Nothing else in the file is touched."
        f"\n\n{Mark(name, digest_of(NO_TEMPLATE))}"
    )


def _plain(name: str) -> str:
    """A name (a file's may have anything in it) that fits in a line, between backticks."""
    return " ".join(name.replace("`", "'").split())[:LONGEST_NAME]


REMOVAL_TITLE = f"Remove the {SUBJECT}"


def _verified(report: Report | None) -> str:
    if report is None:
        return "It was not verified against this checkpoint's chat template."
    how = (
        "How it was verified: messages were rendered with this checkpoint's own chat template and parsed with the"
        " template; each must come back as it was, as far as the chat template writes it at all."
    )
    fails = "" if report.ok else "\n\n**Not all of it passed**, and it is proposed nevertheless:"
    return f"{how}{fails}\n\n{report.table()}"
