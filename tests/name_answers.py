"""What a model's name alone says, for every repository whose chat template is known.

Each repository of the Hub's index (the chat templates' own and all aliases) is asked for by its name, with no file of
it at hand. `listed` is what `template_for` then answers (metadata lists the models of known chat templates); `guessed`
is what the name patterns alone say, as for a model that nobody has listed. Both are judged by the registry template
that belongs to the repository's chat template (`domains.owners`). Used by `scripts/conformance.py` and `test_names.py`.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import materials
from domains import owners
from response_templates import registry


@dataclass(frozen=True)
class Named:
    """A repository, the registry template of its chat template ("" for none), and what its name says."""

    repo: str
    owner: str
    listed: str
    guessed: str


def name_of(found: registry.RegisteredTemplate | None) -> str:
    return found.name if found else ""


def listed(repo: str) -> str:
    """The answer to a name when there are no files: what `template_for` gives offline."""
    return name_of(registry._by_name(registry._Evidence(names=(repo,))))


def guessed(repo: str) -> str:
    """The answer of the name patterns alone."""
    return name_of(registry._only(registry._named(repo, registry._matches), ""))


@functools.cache
def names() -> tuple[Named, ...]:
    """All repositories of the index, each once."""
    known = owners()
    repos: dict[str, str] = {}
    for entry in materials.hub_chat_templates():
        repos |= {repo: known[entry.id] for repo in (entry.repo, *entry.aliases) if repo}
    return tuple(Named(repo, owner, listed(repo), guessed(repo)) for repo, owner in sorted(repos.items()))


@functools.cache
def documented() -> Mapping[str, Mapping[str, str]]:
    """Models whose chat template writes text alone, while they write calls all the same: pattern and source."""
    return dict(json.loads((materials.DATA / "named_without_calls.json").read_text(encoding="utf-8")))


def expected(row: Named, answer: str) -> bool:
    """The answer is none, the chat template's own template, or one that documentation gives the model."""
    if answer in ("", row.owner):
        return True
    source = documented().get(answer)
    return not row.owner and source is not None and re.match(source["models"], row.repo) is not None


def last(repo: str) -> str:
    return repo.rsplit("/", 1)[-1].lower()


@functools.cache
def namesakes() -> frozenset[tuple[str, str]]:
    """Last part and owner of every repository: a copy with another chat template keeps its model's name."""
    return frozenset((last(row.repo), row.owner) for row in names())


def wrong(row: Named) -> list[str]:
    """What is wrong with the answers, in words; a name may say what another repository of the same name has."""
    answers = {"": row.listed, "by pattern ": row.guessed}
    return [
        f"{row.repo}: {how}{answer}, not {row.owner or 'none'}"
        for how, answer in answers.items()
        if not expected(row, answer) and (last(row.repo), answer) not in namesakes()
    ]


def measured() -> dict[str, Any]:
    """Counts of all that, as JSON."""
    owned = [row for row in names() if row.owner]
    counts = Counter(answered=sum(row.listed == row.owner for row in owned))
    counts["guessed"] = sum(row.guessed == row.owner for row in owned)
    counts["documented"] = sum(bool(row.listed) and expected(row, row.listed) for row in names() if not row.owner)
    return {
        "repos": len(names()),
        "owned": len(owned),
        **{key: counts[key] for key in ("answered", "guessed", "documented")},
        "wrong": [line for row in names() for line in wrong(row)],
    }
