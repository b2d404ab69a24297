"""Response templates onto checkpoints, in local folders and on the Hub: verified first, and nothing else is changed.

    from response_templates.hub import install_template
    print(install_template("me/my-model"))         # a pull request
    print(install_template("checkpoints/mine"))    # the file in the folder

How a repository is brought to a state
    It is looked at (the newest commit, our own pull requests), and from that one step follows: nothing, a pull request,
    a commit, or a commit on our pull request. If the step fails in a way that leaves open whether it happened, or if
    somebody else was faster, the repository is looked at again: what had happened after all is found there. So nothing
    is done twice, and a run that was killed can simply be started again.

Invariant: what a reason in the repository or the network prevents is a `Result`; only wrong arguments raise.
Bound: `remote.PATIENCE`, for each request and for the looks at a repository.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import remote
from .checkpoints import KEY, Checkpoint, Folder, files_of, is_folder, read_checkpoint
from .errors import CheckpointError, ConfigError, InputTypeError, InstallError, NoTokenizerError, UnsettledError
from .goals import INSTALLED, REMOVED, UPDATED, Goal, Install, Refused, Remove, Wish
from .json_edit import MISSING, members_of
from .local import replace_file
from .proposals import SUBJECT, Mark, marks_in
from .remote import CONFIG, Proposal, Repo, Snapshot
from .template import load_template
from .verifying import Report, TemplateChoice, named, verify

__all__ = ["Report", "Result", "install_template", "read_template", "remove_template", "verify"]

PROPOSED, UNCHANGED, REFUSED, FAILED = "proposed", "unchanged", "refused", "failed"


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it.

    Attributes:
        target: the repository or folder, as it was given.
        status: `installed` (written, or committed), `proposed` (a pull request), `updated` (an older template or pull
            request of ours), `removed`, `unchanged` (it was so already), `refused` (not done, for a reason that lies in
            the checkpoint; `force` may help), `failed` (it could not be done).
        template_name: the template's name in the registry, or where it came from.
        detail: a sentence for people.
        pr_url: the pull request, if there is one.
        diff: what changes in `tokenizer_config.json`, as a unified diff.
        report: how the template was verified; None if it was not.
        dry_run: nothing was done; `status` says what would be.
        transient: it failed for a reason that may pass.
        retry_after: how long the Hub asks to wait, in seconds; None if it doesn't say.
    """

    target: str
    status: str
    template_name: str
    detail: str
    pr_url: str | None = None
    diff: str = ""
    report: Report | None = None
    dry_run: bool = False
    transient: bool = False
    retry_after: float | None = None

    @property
    def ok(self) -> bool:
        """The checkpoint has the template (or doesn't, if it was to be removed), or will if the request is merged."""
        return self.status not in (REFUSED, FAILED)

    def raise_for_status(self) -> Result:
        """This result, if all is well. Raises InstallError if not."""
        if not self.ok:
            raise InstallError(f"{self.target}: {self.detail}", result=self)
        return self

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON data."""
        return {
            "target": self.target,
            "status": self.status,
            "template": self.template_name,
            "detail": self.detail,
            "pr_url": self.pr_url,
            "diff": self.diff,
            "report": self.report.to_dict() if self.report is not None else None,
            "dry_run": self.dry_run,
        }

    def __str__(self) -> str:
        return f"{self.target}: {self.status}: {self.detail}"


def install_template(
    target: str | os.PathLike[str],
    template: TemplateChoice | None = None,
    *,
    create_pr: bool = True,
    revision: str | None = None,
    token: str | bool | None = None,
    dry_run: bool = False,
    force: bool = False,
    verify: bool = True,
) -> Result:
    """Add a response template to a checkpoint, if it fits.

    Args:
        target: a folder, or the id of a model repository on the Hub.
        template: a name of the registry, a dict, a path or a `ResponseTemplate`; by default the one that fits.
        create_pr: on the Hub, open a pull request; otherwise commit.
        revision: the branch that is changed; by default the main one. (`refs/pr/N` with `create_pr=False` adds to a
            pull request.)
        token: as `huggingface_hub` takes it; by default its own login.
        dry_run: only say what would be done.
        force: also where the verification fails, somebody else's template is there, or a pull request of ours was
            closed.
        verify: try the template on the checkpoint first.

    Returns:
        What came of it. Whatever is wrong with the checkpoint, the repository or the network is told there.

    Raises:
        TemplateError: `template` is not valid.
        UnknownTemplateError: the registry has no template of that name.
        InputTypeError: an argument is of the wrong kind.
    """
    wish = Install(_given(template), force, verify)
    return _bring_about(wish, target, _How(revision, _checked_token(token), create_pr, dry_run))


def remove_template(
    target: str | os.PathLike[str],
    *,
    create_pr: bool = True,
    revision: str | None = None,
    token: str | bool | None = None,
    dry_run: bool = False,
) -> Result:
    """Take the response template out of a checkpoint: the file is then as it was before `install_template`.

    Arguments, result and errors are as for `install_template`.
    """
    return _bring_about(Remove(), target, _How(revision, _checked_token(token), create_pr, dry_run))


def read_template(
    target: str | os.PathLike[str], *, revision: str | None = None, token: str | bool | None = None
) -> Any:
    """The response template of a checkpoint, as it is there (it need not be valid); None if there is none.

    Raises:
        CheckpointError: the checkpoint cannot be read.
        ConfigError: its `tokenizer_config.json` is not a JSON object.
    """
    found = read_checkpoint(files_of(_checked(target), revision, _checked_token(token))).response_template
    return None if found is MISSING else found


def _checked(target: Any) -> Any:
    if not isinstance(target, (str, os.PathLike)):
        raise InputTypeError(f"a checkpoint is a folder or the id of a repository, not {type(target).__name__}")
    return target


def _checked_token(token: Any) -> Any:
    """A token that cannot be one would come back in the HTTP library's complaint, so it does not get that far."""
    if isinstance(token, str) and not re.fullmatch(r"[!-~]+", token):
        raise InputTypeError("the token has characters that no token has (a line end, perhaps)")
    return token


def _given(template: TemplateChoice | None) -> tuple[str, Any] | None:
    """The name of the template that was given, and its content as JSON. Raises if it is not valid."""
    if template is None:
        return None
    name, source = named(template)
    return name, load_template(source).to_dict()


# --- how it is brought about -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _How:
    """Where on the Hub, as whom, and whether at all."""

    revision: str | None
    token: str | bool | None
    create_pr: bool
    dry_run: bool


def _bring_about(wish: Wish, target: Any, how: _How) -> Result:
    """The result, whatever happens; the one place where errors become results."""
    result = Result(str(_checked(target)), FAILED, wish.name, "", dry_run=how.dry_run)
    try:
        if is_folder(target):
            return _in_folder(wish, Path(target), result)
        on_hub = _OnHub(wish, Repo(str(target), how.revision, how.token), how)
        return remote.PATIENCE.persist(lambda: on_hub.step(result), lambda error: isinstance(error, UnsettledError))
    except Refused as refused:
        name, report = (refused.goal.name, refused.goal.report) if refused.goal else (wish.name, None)
        return replace(
            result,
            status=REFUSED,
            template_name=name,
            detail=str(refused),
            pr_url=refused.pr_url,
            report=report,
        )
    except (ConfigError, NoTokenizerError) as error:
        return replace(result, status=REFUSED, detail=str(error))
    except CheckpointError as error:
        return replace(result, detail=str(error), transient=error.transient, retry_after=error.retry_after)
    except OSError as error:  # of this machine: a folder that may not be read, a full disk under the Hub's cache
        return replace(result, detail=f"cannot read {target}: {error.strerror or error}")


def _in_folder(wish: Wish, root: Path, result: Result) -> Result:
    checkpoint = read_checkpoint(Folder(root))
    goal = wish.goal(checkpoint)
    result = replace(result, template_name=goal.name)
    if goal.holds(checkpoint.response_template):
        return replace(result, status=UNCHANGED, detail=_already(goal))
    goal = wish.check(checkpoint, goal, lambda digest: False)
    content = goal.applied(checkpoint.config)
    if not result.dry_run:
        _write(root / CONFIG, checkpoint.config, content)
    done = _said(result, goal.done, f"{goal.name} in {root / CONFIG}")
    return replace(done, diff=_diff(checkpoint.config, content), report=goal.report)


def _write(path: Path, old: bytes, new: bytes) -> None:
    try:
        unchanged = path.read_bytes() == old
        if unchanged:
            replace_file(path, new)
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror or error}") from error
    if not unchanged:
        raise CheckpointError(f"somebody else changed {path} at the same time", transient=True)


@dataclass(frozen=True, slots=True)
class _Request:
    """A pull request of ours.

    Attributes:
        mark: what its description says it is about.
        conflicts: it cannot be merged any more.
        snapshot, config: its newest commit, and the file there; None if it is not open.
    """

    proposal: Proposal
    mark: Mark | None
    conflicts: bool
    snapshot: Snapshot | None = None
    config: bytes | None = None

    @property
    def value(self) -> Any:
        """Of the member `response_template`, as the request has it; `MISSING`, too, if the file is none."""
        try:
            return members_of(self.config or b"{}").get(KEY, MISSING)
        except ConfigError:
            return MISSING

    def is_about(self, goal: Goal) -> bool:
        return self.mark is not None and self.mark.digest == goal.digest


@dataclass(slots=True)
class _OnHub:
    """A repository. `sent`: what was sent without an answer; so what is found there may be our doing."""

    wish: Wish
    repo: Repo
    how: _How
    sent: Goal | None = None

    def step(self, result: Result) -> Result:
        """Look at the repository, and do what is to be done. Raises UnsettledError if it must be looked at again."""
        snapshot = self.repo.snapshot()
        checkpoint = read_checkpoint(snapshot)
        goal = self.wish.goal(checkpoint)
        result = replace(result, template_name=goal.name)
        if self.repo.name.lower() != snapshot.name.lower():
            result = replace(result, detail=f" (it is called {snapshot.name} now)")
        if goal.holds(checkpoint.response_template):
            if self.sent is not None and not self.how.create_pr:
                return _said(replace(result, report=self.sent.report), self.sent.done, goal.name)
            return replace(result, status=UNCHANGED, detail=_already(goal) + result.detail)
        if self.how.create_pr:
            return self._by_request(result, snapshot, checkpoint, goal)
        return self._by_commit(result, snapshot, checkpoint, goal)

    # -- a commit

    def _by_commit(self, result: Result, snapshot: Snapshot, checkpoint: Checkpoint, goal: Goal) -> Result:
        goal = self._checked(snapshot, checkpoint, goal)
        content = goal.applied(checkpoint.config)
        if not self.how.dry_run:
            self._send(snapshot, content, goal, create_pr=False)
        result = replace(result, diff=_diff(checkpoint.config, content), report=goal.report)
        return _said(result, goal.done, goal.name)

    # -- a pull request

    def _by_request(self, result: Result, snapshot: Snapshot, checkpoint: Checkpoint, goal: Goal) -> Result:
        requests = self._own_requests(snapshot)
        standing = [each for each in requests if each.proposal.is_open]
        usable = [each for each in standing if not each.conflicts]
        same = next((each for each in usable if goal.holds(each.value) and each.is_about(goal)), None)
        if same is not None:
            self._close_all_but(same, standing, snapshot)
            url = same.proposal.url
            status, report = (UNCHANGED, None) if self.sent is None else (PROPOSED, self.sent.report)
            detail = f"our pull request is open: {url}{result.detail}"
            return replace(result, status=status, detail=detail, pr_url=url, report=report)
        goal = self._checked(snapshot, checkpoint, goal)
        content = goal.applied(checkpoint.config)
        result = replace(result, diff=_diff(checkpoint.config, content), report=goal.report)
        if usable:
            return self._update(result, snapshot, goal, usable[0], standing)
        declined = next((each for each in requests if each.proposal.status == "closed" and each.is_about(goal)), None)
        if declined is not None and not self.wish.force:
            url = declined.proposal.url
            raise Refused(f"our pull request with this template was closed: {url}; force proposes it again", goal, url)
        return self._propose(result, snapshot, content, goal)

    def _propose(self, result: Result, snapshot: Snapshot, content: bytes, goal: Goal) -> Result:
        if self.how.dry_run:
            return _said(result, PROPOSED, goal.name)
        url = self._send(snapshot, content, goal, create_pr=True)
        standing = [each for each in self._own_requests(snapshot) if each.proposal.is_open]
        if any(each.conflicts and each.proposal.url == url for each in standing):
            self.sent = goal
            raise UnsettledError(f"somebody else changed {snapshot.name} at the same time", transient=True)
        # Whoever else proposed the same at the same moment comes to the same one.
        first = next((each for each in standing if goal.holds(each.value) and not each.conflicts), None)
        if first is not None:
            url = first.proposal.url
            self._close_all_but(first, standing, snapshot)
        return replace(_said(result, PROPOSED, f"{goal.name}: {url}"), pr_url=url)

    def _update(
        self, result: Result, snapshot: Snapshot, goal: Goal, oldest: _Request, standing: list[_Request]
    ) -> Result:
        """The oldest of our pull requests gets the new content, title and description; the others are closed."""
        url = oldest.proposal.url
        if not self.how.dry_run:
            if not goal.holds(oldest.value) and oldest.snapshot is not None and oldest.config is not None:
                content = goal.applied(oldest.config)
                self._send(oldest.snapshot, content, goal, create_pr=False, revision=oldest.proposal.ref)
            self.repo.describe(snapshot.name, oldest.proposal, goal.title, goal.text)
            self._close_all_but(oldest, standing, snapshot)
        return replace(_said(result, UPDATED, f"our pull request to {goal.name}: {url}"), pr_url=url)

    def _close_all_but(self, kept: _Request, standing: list[_Request], snapshot: Snapshot) -> None:
        for each in standing:
            if each is not kept and not self.how.dry_run:
                self.repo.close(snapshot.name, each.proposal.number, f"In favour of #{kept.proposal.number}.")

    # -- what it takes

    def _own_requests(self, snapshot: Snapshot) -> list[_Request]:
        """The pull requests of this package that the user has made, oldest first."""
        try:
            user = self.repo.user()
        except CheckpointError as error:
            if self.how.dry_run and not error.transient:
                return []  # to look is free; only a pull request needs somebody who makes it
            raise
        proposals = [each for each in self.repo.proposals(snapshot.name, user) if SUBJECT in each.title]
        requests = [self._request(snapshot, each) for each in proposals]
        return [each for each in requests if each.mark is not None]

    def _request(self, snapshot: Snapshot, proposal: Proposal) -> _Request:
        opening = self.repo.opening(snapshot.name, proposal.number)
        marks = marks_in(opening.text)
        mark = marks[-1] if marks else None
        if mark is None or not proposal.is_open:
            return _Request(proposal, mark, opening.conflicts)
        at = self.repo.snapshot(proposal.ref)
        return _Request(proposal, mark, opening.conflicts, at, at.read(CONFIG))

    def _checked(self, snapshot: Snapshot, checkpoint: Checkpoint, goal: Goal) -> Goal:
        def is_ours(digest: str) -> bool:
            """Did a commit of this package bring the template that is there?"""
            messages = self.repo.messages(snapshot.name, snapshot.commit)
            return any(mark.digest == digest for message in messages for mark in marks_in(message))

        return self.wish.check(checkpoint, goal, is_ours)

    def _send(
        self, snapshot: Snapshot, content: bytes, goal: Goal, *, create_pr: bool, revision: str | None = None
    ) -> str | None:
        try:
            return self.repo.commit(snapshot, content, goal.title, goal.text, create_pr=create_pr, revision=revision)
        except UnsettledError:
            self.sent = goal
            raise


# --- how it is told --------------------------------------------------------------------------------------------------


def _already(goal: Goal) -> str:
    return "there is no response template" if goal.value is MISSING else "the same template is there already"


_WOULD = {INSTALLED: "install", UPDATED: "update", REMOVED: "remove", PROPOSED: "propose"}


def _said(result: Result, status: str, what: str) -> Result:
    verb = f"would {_WOULD[status]}" if result.dry_run else status
    return replace(result, status=status, detail=f"{verb} {what}".rstrip() + result.detail)


def _diff(old: bytes, new: bytes) -> str:
    before, after = (data.decode("utf-8", "replace").splitlines(keepends=True) for data in (old, new))
    return "".join(_ended(line) for line in difflib.unified_diff(before, after, f"a/{CONFIG}", f"b/{CONFIG}"))


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
