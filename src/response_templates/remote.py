"""A model repository on the Hub, through `huggingface_hub`: what is asked of it, and what its errors mean.

Each request that changes nothing is tried again when the Hub says to wait (429 with `Retry-After`), has a fault of its
own (5xx) or the connection drops, as `PATIENCE` has it. A commit is not tried again here: if its answer is lost, nobody
knows whether it was made. Whoever commits looks at the repository again first.

Invariant: every error of the client comes out as a `CheckpointError` that says what it means, without the token.
Works with huggingface_hub 0.30 and later (over requests), 1.x (httpx) and 2.x. Bound: `PATIENCE`, for each request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from .errors import CheckpointError, UnsettledError
from .patience import Patience, is_transient, retry_after

T = TypeVar("T")

CONFIG = "tokenizer_config.json"
NO_LOGIN = "nobody is logged in to the Hub; run `hf auth login`"
PATIENCE = Patience()
_CONFLICT = frozenset({409, 412})


@dataclass(frozen=True, slots=True)
class Proposal:
    """A pull request of one's own."""

    number: int
    title: str
    status: str
    url: str

    @property
    def ref(self) -> str:
        """Where its commits are."""
        return f"refs/pr/{self.number}"

    @property
    def is_open(self) -> bool:
        return self.status in ("open", "draft")


@dataclass(frozen=True, slots=True)
class Opening:
    """What a pull request begins with, and whether it can be merged.

    Attributes:
        comment: the id of its first comment; empty if there is none.
        text: that comment, the pull request's description.
        conflicts: the main branch has changed since in a way that it cannot be merged.
    """

    comment: str
    text: str
    conflicts: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A revision of a repository: its files are those of the commit `commit`, whatever happens to the branch."""

    repo: Repo
    name: str  # as the Hub has it now: renamed repositories lead on
    commit: str
    files: frozenset[str]

    def read(self, file: str) -> bytes | None:
        """A file's content; None if there is none."""
        path = self.path(file)
        return path.read_bytes() if path is not None else None

    def path(self, file: str) -> Path | None:
        """Where the file is on this machine now (in the Hub's cache); None if there is none."""
        return self.repo.fetch(self.name, file, self.commit) if file in self.files else None


@dataclass(frozen=True, slots=True)
class Repo:
    """A model repository.

    Attributes:
        name: its id, as the user wrote it.
        revision: a branch, tag or commit; None: the main branch.
        token: as `huggingface_hub` takes it: None for its own login.
    """

    name: str
    revision: str | None = None
    token: str | bool | None = field(default=None, repr=False)

    @property
    def api(self) -> Any:
        return _api(self.token)

    def snapshot(self, revision: str | None = None) -> Snapshot:
        """The newest commit of `revision` (of the repository's own, if left out), and what files it has."""
        wanted = revision or self.revision
        info = self._ask(lambda: self.api.model_info(self.name, revision=wanted))
        if getattr(info, "disabled", False):
            raise CheckpointError(f"{self.name} is disabled on the Hub")
        files = frozenset(entry.rfilename for entry in info.siblings or ())
        return Snapshot(self, info.id or self.name, str(info.sha), files)

    def fetch(self, name: str, file: str, commit: str) -> Path | None:
        """The file at that commit, in the cache; None if there is none."""
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        def download() -> Path | None:
            try:
                return Path(self.api.hf_hub_download(name, file, revision=commit))
            except LocalEntryNotFoundError:  # it means that the Hub could not be asked
                raise
            except EntryNotFoundError:
                return None

        return self._ask(download)

    def user(self) -> str:
        """Who is logged in. Raises CheckpointError if nobody is."""
        from huggingface_hub import constants, get_token

        token = self.token if isinstance(self.token, str) else get_token() if self.token is not False else None
        if token is None:
            raise CheckpointError(NO_LOGIN)
        return _user(token, constants.ENDPOINT)

    def proposals(self, name: str, author: str) -> list[Proposal]:
        """The pull requests that `author` has made, oldest first."""

        def ask() -> list[Any]:
            return list(self.api.get_repo_discussions(name, author=author, discussion_type="pull_request"))

        found = [each for each in self._ask(ask) if each.is_pull_request and each.author == author]
        made = [Proposal(int(each.num), each.title, each.status, each.url) for each in found]
        return sorted(made, key=lambda proposal: proposal.number)

    def opening(self, name: str, number: int) -> Opening:
        """What the pull request with this number begins with."""
        details = self._ask(lambda: self.api.get_discussion_details(name, number))
        comments = [(event.id, event.content) for event in details.events if event.type == "comment"]
        comment, text = next(iter(comments), ("", ""))
        return Opening(comment, text, bool(details.conflicting_files))

    def describe(self, name: str, proposal: Proposal, title: str, text: str) -> None:
        """Give a pull request this title and this first comment."""
        if proposal.title != title:
            self._ask(lambda: self.api.rename_discussion(name, proposal.number, new_title=title))
        old = self.opening(name, proposal.number)
        if old.comment and old.text != text:
            self._ask(lambda: self.api.edit_discussion_comment(name, proposal.number, old.comment, new_content=text))

    def close(self, name: str, number: int, why: str) -> None:
        """Close a pull request."""
        self._ask(lambda: self.api.change_discussion_status(name, number, new_status="closed", comment=why))

    def messages(self, name: str, revision: str) -> Iterator[str]:
        """Titles and texts of the commits that led to a revision, newest first."""
        for commit in self._ask(lambda: self.api.list_repo_commits(name, revision=revision)):
            yield f"{commit.title}\n{commit.message}"

    def commit(
        self, snapshot: Snapshot, content: bytes, title: str, text: str, *, create_pr: bool, revision: str | None = None
    ) -> str | None:
        """Commit `content` as the tokenizer's configuration on top of `snapshot`; returns the pull request's URL.

        Raises:
            UnsettledError: it is unknown whether the commit was made, or somebody else's came first.
            CheckpointError: it was not made.
        """
        from huggingface_hub import CommitOperationAdd

        def send() -> Any:
            return self.api.create_commit(
                snapshot.name,
                [CommitOperationAdd(CONFIG, content)],
                commit_message=title,
                commit_description=text,
                revision=revision or self.revision,
                create_pr=create_pr,
                parent_commit=snapshot.commit,
            )

        try:
            made = _translated(self.name, send)
        except CheckpointError as error:
            if error.transient:
                raise UnsettledError(str(error), transient=True, retry_after=error.retry_after) from error
            raise
        url = getattr(made, "pr_url", None)
        return str(url) if url else None

    def _ask(self, request: Callable[[], T]) -> T:
        return PATIENCE.persist(lambda: _translated(self.name, request))


def _api(token: str | bool | None) -> Any:
    from huggingface_hub import HfApi

    from . import __version__

    return HfApi(token=token, library_name="response-templates", library_version=__version__)


@lru_cache(maxsize=64)
def _user(token: str, endpoint: str) -> str:
    """Asked once, since the Hub answers this only now and then. (`endpoint` is where the client asks.)"""
    who = PATIENCE.persist(lambda: _translated(endpoint, lambda: _api(token).whoami()))
    return str(who["name"])


# --- what errors mean ----------------------------------------------------------------------------------------------


def _translated(name: str, request: Callable[[], T]) -> T:
    try:
        return request()
    except CheckpointError:
        raise
    except Exception as error:
        meant = _meaning(name, error)
        if meant is None:
            raise
        raise meant from error


def _meaning(name: str, error: BaseException) -> CheckpointError | None:
    """What an exception of the client means; None if it is none of the client's."""
    from huggingface_hub import errors

    chain = list(_chain(error))
    for each in chain:
        response = getattr(each, "response", None)
        if isinstance(each, errors.HfHubHTTPError) and response is not None:
            return _of_answer(name, each, int(response.status_code))
        if isinstance(each, errors.OfflineModeIsEnabled):
            return CheckpointError("the Hub's offline mode is on (HF_HUB_OFFLINE)")
        if isinstance(each, errors.LocalTokenNotFoundError):
            return CheckpointError(NO_LOGIN)
        if isinstance(each, errors.HFValidationError):
            return CheckpointError(f"{name!r} is neither a folder nor the id of a repository")
    for each in chain:
        if is_transient(each) or isinstance(each, errors.FileMetadataError):
            return CheckpointError(f"the connection to the Hub failed ({type(each).__name__})", transient=True)
        if isinstance(each, OSError) and "onsistency check failed" in str(each):
            return CheckpointError("a file came incomplete from the Hub", transient=True)
    if isinstance(error, errors.LocalEntryNotFoundError):
        return CheckpointError("a file could not be fetched from the Hub", transient=True)
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, and those that it came of."""
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        seen.append(at)
        at = at.__cause__ or at.__context__
    return iter(seen)


def _of_answer(name: str, error: Any, status: int) -> CheckpointError:
    if is_transient(error):
        wait = retry_after(error)
        what = "the Hub asks to wait (rate limit)" if status == 429 else f"the Hub has a fault (status {status})"
        later = f"; it says to try again in {wait:g} seconds" if wait is not None else ""
        return CheckpointError(what + later, transient=True, retry_after=wait)
    if status in _CONFLICT:
        return CheckpointError(f"somebody else changed {name} at the same time", transient=True)
    said = str(getattr(error, "server_message", None) or "").strip()
    return CheckpointError(_refusal(name, error, status) + (f" (the Hub says: {said})" if said else ""))


def _refusal(name: str, error: Any, status: int) -> str:
    from huggingface_hub import errors

    for kind, meaning in (
        (errors.GatedRepoError, f"{name} is gated, and this login has no access; ask for it on the model's page"),
        (errors.DisabledRepoError, f"{name} is disabled on the Hub"),
        (errors.RevisionNotFoundError, f"{name} has no such revision"),
        (errors.EntryNotFoundError, f"{name} has no such file"),
        (errors.RepositoryNotFoundError, f"there is no repository {name}, or this login may not see it"),
    ):
        if isinstance(error, kind):
            return meaning
    return {
        401: "the Hub does not know this login; run `hf auth login`",
        403: f"this login may not do that on {name}",
        404: f"the Hub has nothing of the kind at {name}",
    }.get(status, f"the Hub refused with status {status}")
