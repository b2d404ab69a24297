"""The state behind the loopback Hub: repos with a history as git has it, discussions and pull requests, users.

Nothing here knows HTTP. Object names are git's own (blobs, trees and commits hash as git hashes them), because the
client compares a file's blob name with what it is about to upload. What the Hub refuses is a `Refused`, which carries
the status and the two error headers.

Invariant: a commit never changes; a repo changes only under its lock, so that two writers never both win.
"""

from __future__ import annotations

import difflib
import fnmatch
import hashlib
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

MAX_REGULAR = 10 * 1024 * 1024  # bytes; a larger file must be LFS
MAIN = "main"
_EPOCH = datetime(2026, 1, 1, tzinfo=timezone.utc)
_SHORT = re.compile(r"[0-9a-f]{7,40}")


class Refused(Exception):
    """The Hub says no.

    Attributes:
        status: of the HTTP response.
        message: for people; the body's `error` and the header X-Error-Message.
        code: for programs; the header X-Error-Code, or empty.
        commit: the commit that was asked, for X-Repo-Commit.
    """

    def __init__(self, status: int, message: str, code: str = "", commit: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.commit = status, message, code, commit


# --- objects, named as git names them ------------------------------------------------------------------------------


def _git_name(kind: str, data: bytes) -> str:
    return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data).hexdigest()


@dataclass(frozen=True, slots=True)
class Blob:
    """A file's content; `lfs` if git holds only a pointer to it."""

    content: bytes
    lfs: bool = False

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def pointer(self) -> bytes:
        lines = ("version https://git-lfs.github.com/spec/v1", f"oid sha256:{self.sha256}", f"size {len(self.content)}")
        return "".join(f"{line}\n" for line in lines).encode()

    @property
    def name(self) -> str:
        """Git's name of what git holds."""
        return _git_name("blob", self.pointer if self.lfs else self.content)

    @property
    def etag(self) -> str:
        return self.sha256 if self.lfs else self.name


Files = Mapping[str, Blob]


def tree_name(files: Files) -> str:
    """Git's name of the tree that holds these files (paths relative to the tree)."""
    entries: dict[str, tuple[str, str, str]] = {}
    folders: dict[str, dict[str, Blob]] = {}
    for path, blob in files.items():
        first, slash, rest = path.partition("/")
        if slash:
            folders.setdefault(first, {})[rest] = blob
        else:
            entries[first] = ("100644", first, blob.name)
    for name, inside in folders.items():
        entries[f"{name}/"] = ("40000", name, tree_name(inside))  # git sorts a folder as if its name ended in a slash
    data = b"".join(
        f"{mode} {name}\0".encode() + bytes.fromhex(oid) for _, (mode, name, oid) in sorted(entries.items())
    )
    return _git_name("tree", data)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: all files after it, and where it came from."""

    name: str
    files: Files
    parents: tuple[str, ...]
    author: str
    title: str
    body: str
    date: datetime


@dataclass(frozen=True, slots=True)
class User:
    """Who a token belongs to. `role` is the token's: `read` or `write`."""

    name: str
    token: str
    role: str = "write"
    orgs: tuple[str, ...] = ()

    def owns(self, repo: Repo) -> bool:
        return repo.namespace in (self.name, *self.orgs)


# --- discussions ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Discussion:
    """A discussion, or a pull request, whose commits are at `refs/pr/NUMBER`.

    Attributes:
        base: the commit that the pull request started from; None for a plain discussion.
        status: `open`, `draft`, `closed` or `merged`.
    """

    number: int
    title: str
    author: str
    created: datetime
    base: str | None = None
    status: str = "open"
    merge_commit: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_pull_request(self) -> bool:
        return self.base is not None

    @property
    def is_open(self) -> bool:
        return self.status in ("open", "draft")

    @property
    def ref(self) -> str:
        return f"refs/pr/{self.number}"


def iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def checked_title(title: Any) -> str:
    if not isinstance(title, str) or not 3 <= len(title.strip()) <= 200:
        raise Refused(400, "the title must be 3 to 200 characters long")
    return title.strip()


# --- repos ---------------------------------------------------------------------------------------------------------


class Repo:
    """A model repo.

    Args:
        name: `NAMESPACE/NAME`.
        files: what its first commit holds.
        private: only its namespace sees it.
        gated: its files are only for its namespace and `readers`.
        disabled: nobody gets anything.
        discussions_off: nobody can open a discussion or a pull request.
    """

    def __init__(
        self,
        name: str,
        files: Mapping[str, bytes] | None = None,
        *,
        private: bool = False,
        gated: bool = False,
        disabled: bool = False,
        discussions_off: bool = False,
        readers: Iterable[str] = (),
    ) -> None:
        self.name, self.private, self.gated, self.disabled = name, private, gated, disabled
        self.discussions_off = discussions_off
        self.readers = set(readers)
        self.lock = threading.RLock()
        self.commits: dict[str, Commit] = {}
        self.refs: dict[str, str] = {}
        self.discussions: dict[int, Discussion] = {}
        self._ticks = 0
        first = {path: Blob(content) for path, content in (files or {}).items()}
        first = {path: Blob(blob.content, lfs=self.is_lfs(path, blob.content, first)) for path, blob in first.items()}
        self.refs[MAIN] = self._new_commit(first, (), self.namespace, "initial commit", "").name

    @property
    def namespace(self) -> str:
        return self.name.split("/")[0]

    @property
    def head(self) -> Commit:
        return self.commits[self.refs[MAIN]]

    def now(self) -> datetime:
        """A clock that ticks with each event: no two commits have the same date."""
        self._ticks += 1
        return _EPOCH + timedelta(seconds=self._ticks)

    # reading

    def resolve(self, revision: str) -> Commit:
        """The commit of a branch, a pull request's ref, or a commit's name (7 characters or more of it)."""
        for ref in (revision, revision.removeprefix("refs/heads/")):
            if ref in self.refs:
                return self.commits[self.refs[ref]]
        if _SHORT.fullmatch(revision):
            found = [name for name in self.commits if name.startswith(revision)]
            if len(found) == 1:
                return self.commits[found[0]]
        raise Refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def history(self, commit: Commit) -> list[Commit]:
        """The commit and what came before it, along first parents, newest first."""
        found = [commit]
        while found[-1].parents:
            found.append(self.commits[found[-1].parents[0]])
        return found

    def read(self, path: str, revision: str = MAIN) -> bytes:
        """A file's content, for tests to look at."""
        return self.resolve(revision).files[path].content

    def pull_requests(self, *, only_open: bool = False) -> list[Discussion]:
        found = [item for item in self.discussions.values() if item.is_pull_request]
        return [item for item in found if item.is_open] if only_open else found

    def is_lfs(self, path: str, content: bytes, files: Files, size: int | None = None) -> bool:
        """True if a file must go to LFS: by `.gitattributes`, for its size, or because it is binary."""
        attributes = files.get(".gitattributes")
        lines = attributes.content.decode("utf-8", "replace").splitlines() if attributes else []
        for words in filter(None, (line.split() for line in reversed(lines))):
            if fnmatch.fnmatchcase(path, words[0]) or fnmatch.fnmatchcase(path.rsplit("/", 1)[-1], words[0]):
                return "filter=lfs" in words[1:]
        return (len(content) if size is None else size) > MAX_REGULAR or b"\0" in content[:8000]

    # writing

    def commit(
        self,
        changes: Mapping[str, Blob | None],
        *,
        author: str,
        title: str,
        body: str = "",
        ref: str = MAIN,
        parent: str | None = None,
    ) -> Commit:
        """Put a commit on a branch or a pull request's ref; None as a blob deletes the file.

        `parent`: the commit (or the beginning of its name) that the ref must be at.
        """
        with self.lock:
            at = self.resolve(ref)
            if parent is not None and not at.name.startswith(parent):
                raise Refused(412, "A commit has happened since. Please refresh and try again.")
            made = self._new_commit(_changed(at.files, changes), (at.name,), author, title, body)
            self.refs[ref] = made.name
            discussion = self._of_ref(ref)
            if discussion is not None:
                self._event(discussion, "commit", author, {"subject": title, "oid": made.name})
            return made

    def open_pull_request(
        self,
        changes: Mapping[str, Blob | None],
        *,
        author: str,
        title: str,
        body: str = "",
        parent: str | None = None,
    ) -> tuple[Discussion, Commit]:
        """A pull request with one commit on top of `parent` (by default what `main` is now)."""
        with self.lock:
            base = self.head if parent is None else self.resolve(parent)
            if base not in self.history(self.head):
                raise Refused(400, f"{parent} is not a commit of {MAIN}")
            discussion = self.open_discussion(author=author, title=title, body=body, base=base.name)
            discussion.status = "open"
            return discussion, self.commit(changes, author=author, title=title, body=body, ref=discussion.ref)

    def open_discussion(self, *, author: str, title: str, body: str, base: str | None = None) -> Discussion:
        """A discussion; with a `base` commit a pull request, which is a draft as long as it has no commit."""
        with self.lock:
            title = checked_title(title)
            number = len(self.discussions) + 1
            made = Discussion(number, title, author, self.now(), base, "open" if base is None else "draft")
            self.discussions[number] = made
            if base is not None:
                self.refs[made.ref] = base
            self.comment(made, author, body)
            return made

    def comment(self, discussion: Discussion, author: str, text: str) -> dict[str, Any]:
        latest = {"raw": text, "html": text, "updatedAt": iso(self.now()), "author": {"name": author}}
        data = {"edited": False, "hidden": False, "editable": True, "numEdits": 0, "latest": latest, "history": []}
        return self._event(discussion, "comment", author, data)

    def edit_comment(self, discussion: Discussion, key: str, author: str, text: str) -> dict[str, Any]:
        with self.lock:
            found = [item for item in discussion.events if item["id"] == key and item["type"] == "comment"]
            if not found:
                raise Refused(404, "Comment not found")
            if found[0]["author"]["name"] != author:
                raise Refused(403, "You can only edit your own comments")
            data = found[0]["data"]
            data["history"].append(data["latest"])
            stamp = iso(self.now())
            data["latest"] = {"raw": text, "html": text, "updatedAt": stamp, "author": {"name": author}}
            data["edited"], data["numEdits"] = True, len(data["history"])
            return found[0]

    def retitle(self, discussion: Discussion, author: str, title: str) -> dict[str, Any]:
        with self.lock:
            old, discussion.title = discussion.title, checked_title(title)
            return self._event(discussion, "title-change", author, {"from": old, "to": discussion.title})

    def set_status(self, discussion: Discussion, author: str, status: str) -> dict[str, Any]:
        with self.lock:
            if discussion.status == "merged":
                raise Refused(400, "This pull request is merged")
            discussion.status = status
            return self._event(discussion, "status-change", author, {"status": status})

    def merge(self, discussion: Discussion, author: str) -> Commit:
        """Put the pull request's changes on `main`."""
        with self.lock:
            if not discussion.is_pull_request or not discussion.is_open:
                raise Refused(400, "This is not an open pull request")
            if self.conflicts(discussion):
                raise Refused(409, "This pull request has conflicts")
            tip = self.resolve(discussion.ref)
            made = self._new_commit(
                _changed(self.head.files, self.changes(discussion)),
                (self.head.name, tip.name),
                author,
                f"{discussion.title} (#{discussion.number})",
                "",
            )
            self.refs[MAIN] = discussion.merge_commit = made.name
            discussion.status = "merged"
            self._event(discussion, "status-change", author, {"status": "merged"})
            return made

    def changes(self, discussion: Discussion) -> dict[str, Blob | None]:
        """What a pull request does to its base: the new files by path, None for deleted ones."""
        assert discussion.base is not None
        return _difference(self.commits[discussion.base].files, self.resolve(discussion.ref).files)

    def conflicts(self, discussion: Discussion) -> list[str]:
        """The files that changed both in the pull request and on `main` since (differently)."""
        assert discussion.base is not None
        ours, theirs = self.changes(discussion), _difference(self.commits[discussion.base].files, self.head.files)
        return sorted(path for path in ours.keys() & theirs.keys() if ours[path] != theirs[path])

    def diff(self, discussion: Discussion) -> str:
        """The pull request as a unified diff."""
        assert discussion.base is not None
        before, lines = self.commits[discussion.base].files, []
        for path, blob in sorted(self.changes(discussion).items()):
            old, new = _lines(before.get(path)), _lines(blob)
            lines.append(f"diff --git a/{path} b/{path}\n")
            lines += difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
        return "".join(lines)

    def _new_commit(self, files: Files, parents: tuple[str, ...], author: str, title: str, body: str) -> Commit:
        date = self.now()
        stamp = f"{author} <{author}@users.noreply> {int(date.timestamp())} +0000"
        lines = [f"tree {tree_name(files)}", *(f"parent {parent}" for parent in parents)]
        lines += [f"author {stamp}", f"committer {stamp}", "", title, "", body]
        name = _git_name("commit", "\n".join(lines).encode())
        made = Commit(name, files, parents, author, title, body, date)
        self.commits[name] = made
        return made

    def _of_ref(self, ref: str) -> Discussion | None:
        return next((item for item in self.discussions.values() if item.is_pull_request and item.ref == ref), None)

    def _event(self, discussion: Discussion, kind: str, author: str, data: dict[str, Any]) -> dict[str, Any]:
        key = hashlib.sha1(f"{self.name}#{discussion.number}/{len(discussion.events)}".encode()).hexdigest()[:24]
        event = {"id": key, "type": kind, "createdAt": iso(self.now()), "author": {"name": author}, "data": data}
        discussion.events.append(event)
        return event


def _changed(files: Files, changes: Mapping[str, Blob | None]) -> dict[str, Blob]:
    after = dict(files)
    for path, blob in changes.items():
        if blob is None:
            after.pop(path, None)
        else:
            after[path] = blob
    return after


def _difference(before: Files, after: Files) -> dict[str, Blob | None]:
    paths = before.keys() | after.keys()
    return {path: after.get(path) for path in paths if before.get(path) != after.get(path)}


def _lines(blob: Blob | None) -> list[str]:
    if blob is None:
        return []
    return (blob.pointer if blob.lfs else blob.content).decode("utf-8", "replace").splitlines(keepends=True)
