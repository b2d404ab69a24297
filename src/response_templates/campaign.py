"""Many repos, one after another or several at once: each gets its template, or a reason why not.

What is done to one repo is `hub.install_template`, which may be repeated without harm. Here is what is around it: which
repos, in what order, what is retried and how long, and a state file from which a run that was killed is taken up again.

The state file
    Lines of JSON, only ever appended, each with one write that is on the disk before anything else happens. The first
    says what the campaign is (where, how, which template); `begin` comes before a repo is touched, `end` when it is
    settled. A line that was cut off is no line. So a killed run loses at most the knowledge of how the repos ended that
    it was working on: these are looked at again, and what is already there is found there.

Several runs at once
    A state file belongs to one run at a time. Runs with different state files on one machine take turns at a repo (a
    lock file for each); whoever comes second finds what the first one left. A repo under an old and a new name is one.

Invariant: a repo that has settled is not touched again; whatever happens to one repo, the others are done; no token is
in the state file, the report or a message. Bound: `Patience.attempts` tries for each repo, `jobs` repos at a time.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from .errors import CampaignError
from .patience import Patience as Patience
from .patience import is_transient as is_transient
from .patience import retry_after as retry_after
from .registry import get_template, list_templates

FORMAT = 1  # of the state file
GOOD = ("installed", "proposed", "updated", "unchanged")
BAD = ("refused", "failed")
SHORTEST_TOKEN = 8  # characters; what is shorter is no login, and may be part of a word
_TOKEN = re.compile(r"\b(?:hf|api_org)_[A-Za-z0-9]{8,}")
_COMMENT = re.compile(r"(?:^|\s)#.*")


class Installed(Protocol):
    """What `install` says of a repo (a `hub.Result`)."""

    @property
    def status(self) -> str: ...
    @property
    def template_name(self) -> str | None: ...
    @property
    def detail(self) -> str: ...
    @property
    def pr_url(self) -> str | None: ...
    @property
    def diff(self) -> str: ...


Install = Callable[[str], Installed]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a repo.

    Attributes:
        repo: as it was asked for.
        status: `installed` (committed), `proposed` (a new pull request), `updated` (an older one of ours), `unchanged`
            (it was there already), `refused` (the check failed, or there is no template), `failed`.
        template: the name of the template; None if there is none.
        detail: why, in a sentence.
        url: of the pull request.
        renamed: what the repo is called now, if that is another name.
        attempts: how many tries it took.
        transient: another try later may go better.
        cut_off: an earlier run was killed while it was at this repo; `unchanged` may be that run's doing.
        earlier: settled by an earlier run, so not touched in this one.
        diff: what changes in the file; in no report and no state file.
    """

    repo: str
    status: str
    template: str | None = None
    detail: str = ""
    url: str | None = None
    renamed: str | None = None
    attempts: int = 1
    transient: bool = False
    cut_off: bool = False
    earlier: bool = False
    diff: str = field(default="", repr=False)

    @property
    def good(self) -> bool:
        return self.status in GOOD

    def as_record(self) -> dict[str, Any]:
        """For the state file and the report: what is not empty, without the diff and this run's own marks."""
        left_out = {"diff", "earlier"}
        return {
            key: value for key, value in asdict(self).items() if value not in (None, "", False) and key not in left_out
        }


# --- which repos ---------------------------------------------------------------------------------------------------


def repos_in_file(path: str | os.PathLike[str]) -> list[str]:
    """The repos that a text file lists, one a line; `#` begins a comment.

    Raises:
        CampaignError: the file cannot be read.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise CampaignError(f"cannot read the list of repos {os.fspath(path)!r}: {error}") from error
    return [name for line in lines if (name := _COMMENT.sub("", line).strip())]


def repos_of_registry(name: str) -> list[str]:
    """The models that the metadata of the template `name` list; of all templates if it is `all`.

    Raises:
        UnknownTemplateError: there is no such template.
    """
    names = list_templates() if name == "all" else [name]
    return [model for each in names for model in get_template(each).meta.get("models", ())]


def repos_of_author(author: str, *, token: str | bool | None = None, patience: Patience | None = None) -> list[str]:
    """The models of a user or an organisation.

    Raises:
        CampaignError: the Hub does not list them.
    """
    from huggingface_hub import HfApi

    def listed() -> list[str]:
        return [info.id for info in HfApi(token=token).list_models(author=author)]

    try:
        return (patience or Patience()).persist(listed)
    except Exception as error:  # of requests, httpx or the client itself, according to its version
        raise CampaignError(f"the models of {author!r} cannot be listed: {reason(error)}") from error


def unique(repos: Iterable[str]) -> list[str]:
    """The repos in their order, each once. (The Hub's names do not differ by case alone.)"""
    found: dict[str, str] = {}
    for repo in repos:
        name = repo.strip().strip("/")
        found.setdefault(name.lower(), name)
    return list(found.values())


# --- the state file ------------------------------------------------------------------------------------------------


class State:
    """The state file of one run; a context manager.

    Attributes:
        settled: the outcomes of earlier runs that are final, by repo.
        cut_off: the repos at which an earlier run was killed.

    Args:
        path: of the file, which is made if it isn't there.
        settings: what makes this campaign what it is; a file of another one is not taken up.

    Raises:
        CampaignError: another run has the file, it is of another campaign, or it is no state file.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self.settled: dict[str, Outcome] = {}
        self.cut_off: set[str] = set()
        self._lock = threading.Lock()
        self._owner = _owned(self.path)
        try:
            header = {"type": "campaign", "format": FORMAT, "settings": dict(settings)}
            known = self._read(_line(header))
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            if known is None:
                self._append(header)
            elif known != dict(settings):
                raise CampaignError(f"{self.path} is of another campaign: {_differences(known, settings)}")
        except BaseException:
            self._owner.release()
            raise

    def __enter__(self) -> State:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)
        self._owner.release()

    def begin(self, repo: str) -> None:
        self._append({"type": "begin", "repo": repo})

    def end(self, outcome: Outcome) -> None:
        self._append({"type": "end", **outcome.as_record()})

    def _append(self, record: Mapping[str, Any]) -> None:
        line = _line(record)
        with self._lock:
            if self._torn():
                line = b"\n" + line
            os.write(self._file, line)
            os.fsync(self._file)

    def _torn(self) -> bool:
        """True if the file ends in the middle of a line."""
        with self.path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"

    def _read(self, header: bytes) -> dict[str, Any] | None:
        """Take in the file; the settings that it was begun with, None if it is new (or was cut off in its `header`)."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CampaignError(f"cannot read the state file {self.path}: {error}") from error
        settings = None
        for record in filter(None, map(_record, content.splitlines())):
            kind = record.pop("type")
            if kind == "campaign":
                if record.get("format") != FORMAT:
                    raise CampaignError(f"{self.path} is of a version of this program that writes other state files")
                settings = record.get("settings")
            elif settings is not None:
                self._take(kind, record)
        if settings is None and not header.startswith(content):
            raise CampaignError(f"{self.path} is not a state file; it is left as it is")
        return settings

    def _take(self, kind: str, record: dict[str, Any]) -> None:
        repo = str(record.get("repo"))
        if kind == "begin":
            self.cut_off.add(repo)
        elif kind == "end":
            self.cut_off.discard(repo)
            known = {key: value for key, value in record.items() if key in Outcome.__dataclass_fields__}
            outcome = Outcome(**known)
            if outcome.transient:
                self.settled.pop(repo, None)
            else:
                self.settled[repo] = replace(outcome, earlier=True)


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record).encode("ascii") + b"\n"


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:  # cut off
        return None
    return record if isinstance(record, dict) and isinstance(record.get("type"), str) else None


def _owned(path: Path) -> Any:
    from filelock import FileLock, Timeout

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{path}.lock")
        lock.acquire(timeout=0)
    except Timeout as error:
        raise CampaignError(f"another run is using the state file {path}") from error
    except OSError as error:
        raise CampaignError(f"cannot write the state file {path}: {error}") from error
    return lock


def _differences(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    keys = [key for key in {**known, **wanted} if known.get(key) != wanted.get(key)]
    return ", ".join(f"{key} was {known.get(key)!r} and is {wanted.get(key)!r}" for key in keys)


# --- the campaign --------------------------------------------------------------------------------------------------


class Campaign:
    """A run over many repos.

    Args:
        install: does one repo, by name; `hub.install_template` with all that is common to the repos. It may raise.
        state: remembers what is done; None to remember nothing (a dry run).
        patience: what is retried, and how.
        jobs: how many repos are worked on at the same time.
        canonical: what a repo is called now; it may raise, then the name that was given counts.
        locks: the folder of the lock files by which runs on this machine take turns.
        again: do also what an earlier run refused or failed for good.
    """

    def __init__(
        self,
        install: Install,
        *,
        state: State | None = None,
        patience: Patience | None = None,
        jobs: int = 4,
        canonical: Callable[[str], str] = str,
        locks: str | os.PathLike[str] | None = None,
        again: bool = False,
    ) -> None:
        self._install, self._state, self._canonical, self._jobs = install, state, canonical, jobs
        self._stopped = threading.Event()
        patience = patience or Patience()
        self._patience = patience if patience.sleep is not None else replace(patience, sleep=self._stopped.wait)
        self._locks = Path(locks) if locks is not None else locks_folder()
        self._again = again

    def stop(self) -> None:
        """Begin with no further repo. Those that are being worked on are finished."""
        self._stopped.set()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def run(self, repos: Iterable[str]) -> Iterator[Outcome]:
        """Work on the repos; each outcome as it comes, those of earlier runs first."""
        left = collections.deque[str]()
        for repo in unique(repos):
            known = self._known(repo)
            if known is not None:
                yield known
            else:
                left.append(repo)
        with ThreadPoolExecutor(max_workers=self._jobs, thread_name_prefix="campaign") as pool:
            running: set[Future[Outcome]] = set()
            try:
                while running or (left and not self.stopped):
                    while left and not self.stopped and len(running) < self._jobs:
                        running.add(pool.submit(self._settle, left.popleft()))
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            except BaseException:  # interrupted, or nobody wants the rest: the threads are to come to an end
                self.stop()
                raise

    def _known(self, repo: str) -> Outcome | None:
        known = self._state.settled.get(repo) if self._state is not None else None
        return None if known is None or (self._again and not known.good) else known

    def _settle(self, repo: str) -> Outcome:
        """Work on one repo until it is done, or there is no use in going on."""
        if self._state is not None:
            self._state.begin(repo)
        outcome = self._persist(repo)
        if self._state is not None:
            outcome = replace(outcome, cut_off=repo in self._state.cut_off)
            self._state.end(outcome)
        return outcome

    def _persist(self, repo: str) -> Outcome:
        attempt = 0
        while True:
            attempt += 1
            outcome, asked = self._try(repo)
            if not outcome.transient or attempt >= self._patience.attempts or self.stopped:
                return replace(outcome, attempts=attempt)
            self._patience.wait(attempt, asked)

    def _try(self, repo: str) -> tuple[Outcome, float | None]:
        """One try: what came of it, and how long the server asked to wait."""
        try:
            name = self._name(repo)
            with self._turn(name):
                result = self._install(name)
        except Exception as error:  # whatever it is, the other repos are to be done
            return Outcome(repo, "failed", detail=reason(error), transient=is_transient(error)), retry_after(error)
        outcome = Outcome(
            repo,
            result.status,
            template=result.template_name,
            detail=redacted(result.detail),
            url=result.pr_url,
            renamed=name if name != repo else None,
            transient=bool(getattr(result, "transient", False)),
            diff=redacted(result.diff or ""),
        )
        return outcome, retry_after(result)

    def _name(self, repo: str) -> str:
        """What the repo is called now. What else stands in the way is for `install` to say."""
        try:
            return self._canonical(repo)
        except Exception as error:
            if is_transient(error):
                raise
            return repo

    @contextlib.contextmanager
    def _turn(self, name: str) -> Iterator[None]:
        """Nobody else on this machine works on the repo meanwhile."""
        from filelock import FileLock

        self._locks.mkdir(parents=True, exist_ok=True)
        key = hashlib.sha256(f"{_endpoint()} {name.lower()}".encode()).hexdigest()[:32]
        with FileLock(self._locks / f"{key}.lock"):
            yield


def locks_folder() -> Path:
    """Where the lock files are: in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "response-templates" / "locks"


def canonical_name(repo: str, *, token: str | bool | None = None) -> str:
    """What the Hub calls the repo now: it redirects from an old name."""
    from huggingface_hub import HfApi

    return str(HfApi(token=token).model_info(repo, expand=["sha"]).id)


def _endpoint() -> str:
    from huggingface_hub import constants

    return str(constants.ENDPOINT)


# --- what is said --------------------------------------------------------------------------------------------------


def redacted(text: str) -> str:
    """The text without tokens: what looks like one, and the login's own, whatever it looks like."""
    from huggingface_hub import get_token

    own = get_token() or ""
    return _TOKEN.sub("hf_***", text.replace(own, "hf_***") if len(own) >= SHORTEST_TOKEN else text)


def reason(error: BaseException) -> str:
    """An error in a line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return redacted(text)


def counts(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many outcomes there are of each status, in the order of `GOOD` and `BAD`."""
    found = collections.Counter(outcome.status for outcome in outcomes)
    return {status: found[status] for status in (*GOOD, *BAD) if found[status]}


def write_report(
    path: str | os.PathLike[str], outcomes: Sequence[Outcome], settings: Mapping[str, Any], *, complete: bool
) -> None:
    """Write what came of the campaign as JSON; the file is there in full or not at all.

    Raises:
        CampaignError: the file cannot be written.
    """
    rows = [{**outcome.as_record(), **({"earlier": True} if outcome.earlier else {})} for outcome in outcomes]
    report = {"settings": dict(settings), "complete": complete, "counts": counts(outcomes), "repos": rows}
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(beside, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise CampaignError(f"cannot write the report {target}: {error}") from error
