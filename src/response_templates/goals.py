"""What a checkpoint's `tokenizer_config.json` is to be brought to, and whether it may be.

A `Wish` is what the caller asked for; for one checkpoint it becomes a `Goal`: the value that the member
`response_template` shall have, and what a commit says of it. Whether it may be written is asked after that, since the
check costs more than all the rest, and often there is nothing to do.

Invariant: nothing here changes anything. Bound: a checkpoint in the same state is verified once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from . import proposals
from .checkpoints import KEY, Checkpoint
from .json_edit import MISSING, with_member, without_member
from .proposals import digest_of
from .registry import get_template, list_templates
from .verifying import Report, name_of, verify_checkpoint

INSTALLED, UPDATED, REMOVED = "installed", "updated", "removed"


@dataclass(frozen=True, slots=True)
class Goal:
    """What a checkpoint is to be brought to.

    Attributes:
        name: the template's name.
        value: of the member `response_template`; `MISSING`: there is to be none.
        done: the status after the file has been written.
        title, text: what a commit or pull request says.
        report: how the template was verified.
    """

    name: str
    value: Any
    done: str
    title: str
    text: str = ""
    report: Report | None = None

    @property
    def digest(self) -> str:
        """Of the value; the one that `proposals` puts into a description."""
        return digest_of(proposals.NO_TEMPLATE if self.value is MISSING else self.value)

    def holds(self, value: Any) -> bool:
        """Is this value of the member the wanted one?"""
        if self.value is MISSING or value is MISSING:
            return self.value is value
        return digest_of(value) == self.digest

    def applied(self, config: bytes) -> bytes:
        """The file, brought to it."""
        return without_member(config, KEY) if self.value is MISSING else with_member(config, KEY, self.value)


class Refused(Exception):
    """A reason in the checkpoint not to do it, and what is known by then."""

    def __init__(self, detail: str, goal: Goal | None = None, pr_url: str | None = None) -> None:
        super().__init__(detail)
        self.goal, self.pr_url = goal, pr_url


class Wish(Protocol):
    """What the caller wants."""

    @property
    def name(self) -> str:
        """The template's name, as far as it is known without a checkpoint."""

    @property
    def force(self) -> bool:
        """Also against the reasons that a person may overrule."""

    def goal(self, checkpoint: Checkpoint) -> Goal:
        """What this checkpoint is to be brought to, not verified yet. Raises Refused if it can't be said."""

    def check(self, checkpoint: Checkpoint, goal: Goal, is_ours: Callable[[str], bool]) -> Goal:
        """The goal with its text and report. Raises Refused if it must not be. `is_ours` knows of a digest."""


@dataclass(slots=True)
class Install:
    """To have a template: the one `given`, by name and content, or the one that fits."""

    given: tuple[str, Any] | None
    force: bool
    verify: bool
    _reports: dict[str, Report] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.given[0] if self.given is not None else ""

    def goal(self, checkpoint: Checkpoint) -> Goal:
        if self.given is not None:
            name, value = self.given
        else:
            found = checkpoint.fitting()
            if found is None:
                raise Refused("no template of the registry is known to fit; name one")
            name, value = found.name, found.template.to_dict()
        replaces = checkpoint.response_template is not MISSING
        return Goal(name, value, UPDATED if replaces else INSTALLED, proposals.title_of(name, replaces=replaces))

    def check(self, checkpoint: Checkpoint, goal: Goal, is_ours: Callable[[str], bool]) -> Goal:
        there = checkpoint.response_template
        replaces = there is not MISSING
        if replaces and not self.force and not _is_known(there) and not is_ours(digest_of(there)):
            raise Refused("it has a response template already, and not one of ours; force replaces it", goal)
        report = self._report(checkpoint, goal) if self.verify else None
        goal = replace(goal, report=report, text=proposals.text_of(goal.name, goal.value, report, replaces=replaces))
        if report is not None and not report.ok and not self.force:
            failed = report.failures[0]
            raise Refused(f"the template does not fit: {failed.name}: {failed.detail}", goal)
        return goal

    def _report(self, checkpoint: Checkpoint, goal: Goal) -> Report:
        """Verified once for the same configuration and chat templates, however often the repository is looked at."""
        key = digest_of([checkpoint.config.hex(), dict(checkpoint.chat_templates), goal.value])
        if key not in self._reports:
            self._reports[key] = verify_checkpoint(checkpoint, goal.name, goal.value)
        return self._reports[key]


@dataclass(frozen=True, slots=True)
class Remove:
    """To have none."""

    name: str = ""
    force: bool = True

    def goal(self, checkpoint: Checkpoint) -> Goal:
        there = checkpoint.response_template
        return Goal("" if there is MISSING else name_of(there), MISSING, REMOVED, proposals.REMOVAL_TITLE)

    def check(self, checkpoint: Checkpoint, goal: Goal, is_ours: Callable[[str], bool]) -> Goal:
        return replace(goal, text=proposals.removal_text(goal.name))


def _is_known(value: Any) -> bool:
    """Is it a template of the registry, as it is now or was in an earlier version (`earlier` in its metadata)?"""
    digest = digest_of(value)
    entries = [get_template(name) for name in list_templates()]
    return any(
        digest == digest_of(entry.template.to_dict()) or digest in entry.meta.get("earlier", ()) for entry in entries
    )
