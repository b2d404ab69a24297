"""A Hub on the loopback interface, for the real `huggingface_hub` client, which finds it by HF_ENDPOINT.

The client reads HF_ENDPOINT when it is imported, so `conftest.py` sets it to a free port before that, and the hub
listens there (a second hub at the same time listens elsewhere: pass its `url` on as `endpoint`, or use `environment`).

    with LoopbackHub() as hub:
        token = hub.add_user("ann")
        hub.add_repo("ann/model", {"tokenizer_config.json": b"{}"})
        HfApi(endpoint=hub.url, token=token).model_info("ann/model")

What it does: whoami, model info and listing by author, `resolve` (HEAD, GET, ranges; through the `resolve-cache`
redirect for regular files and a host that must not see the token for LFS files), tree (in pages), paths-info, refs,
commits, preupload, LFS upload (basic), commits with `parentCommit` or as a new pull request, discussions and pull
requests with all that can be done to them, auth-check, redirects of renamed repos, gated, disabled and private repos,
tokens that only read, repos without discussions. The state is in `hub_repos`.

It is strict: a request that the Hub refuses is refused with the status and headers that the client tells errors apart
by. Source: the installed client (what it sends, what it expects, which errors it tells apart) and the public
description of the Hub's API; where neither says what happens, it refuses.

What it leaves out: Xet (an LFS upload needs HF_HUB_DISABLE_XET=1 on clients that have `hf_xet`), multipart LFS uploads,
datasets, spaces, buckets and jobs, creating, moving and deleting repos, branches and tags, squashing, compressed
responses, YAML checks of README.md, filters and sort orders of the listing other than `author`, real rate limits,
granting access to gated repos, organisations as anything but a second namespace of a user.

Faults can be switched on (`Faults`): a share of all requests fails in one of the ways of `FAULTS`, before or after the
state has changed. Another writer can be let in before each commit (`hub.before_commit`).
"""

from __future__ import annotations

import base64
import binascii
import collections
import contextlib
import hashlib
import json
import os
import random
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from hub_repos import MAIN, MAX_REGULAR, Blob, Commit, Discussion, Refused, Repo, User, iso

# --- faults --------------------------------------------------------------------------------------------------------

# What can happen to a request. Those after `|` happen when the request has been carried out: the state has changed, and
# the client can't know.
FAULTS = (
    *("429", "500", "502", "reset", "slow"),
    *("lost", "500-after", "truncated"),
)


class Faults:
    """Which requests fail: `rate` of them (0 to 1), in the ways of `kinds`, drawn with `seed`.

    Args:
        retry_after: what a 429 says, in seconds.
        delay: how long a slow request takes, in seconds.
        only: if given, a regex that METHOD and path must match for a request to fail.
    """

    def __init__(
        self,
        rate: float,
        kinds: Sequence[str] = FAULTS,
        *,
        seed: int = 0,
        retry_after: int = 0,
        delay: float = 0.3,
        only: str = "",
    ) -> None:
        unknown = set(kinds) - set(FAULTS)
        if unknown:
            raise ValueError(f"no such faults: {sorted(unknown)}")
        self.rate, self.kinds, self.retry_after, self.delay = rate, tuple(kinds), retry_after, delay
        self.happened: collections.Counter[str] = collections.Counter()
        self._only, self._random, self._lock = re.compile(only), random.Random(seed), threading.Lock()

    def draw(self, method: str, path: str) -> str:
        """What happens to this request; empty for nothing."""
        if not self._only.search(f"{method} {path}"):
            return ""
        with self._lock:
            if self._random.random() >= self.rate:
                return ""
            kind = self._random.choice(self.kinds)
            self.happened[kind] += 1
            return kind


class OneAfterAnother(Faults):
    """The given faults for the first requests that match `only`, in this order, and none afterwards."""

    def __init__(self, *kinds: str, only: str = "", retry_after: int = 0, delay: float = 0.3) -> None:
        super().__init__(1.0, kinds, only=only, retry_after=retry_after, delay=delay)
        self._left = list(kinds)

    def draw(self, method: str, path: str) -> str:
        if not self._only.search(f"{method} {path}"):
            return ""
        with self._lock:
            kind = self._left.pop(0) if self._left else ""
            self.happened.update([kind] if kind else [])
            return kind


# --- the hub -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back: a status, headers, a body."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """What came in. `path` is as it was sent, percent escapes and all."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes
    user: User | None = None

    def option(self, name: str) -> str:
        return self.query.get(name, [""])[-1]

    def flag(self, name: str) -> bool:
        return self.option(name).lower() in {"1", "true"}

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise Refused(400, f"the body is not JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class Logged:
    """A request that was answered: what it asked, the status (0: the connection was cut), the fault, whose it was."""

    method: str
    path: str
    status: int
    fault: str
    user: str


class LoopbackHub:
    """The Hub; a context manager that serves while it is open.

    Attributes:
        repos: by their present name.
        renamed: old names and what they are called now.
        faults: what goes wrong; None for nothing.
        before_commit: called with the repo before a commit is looked at: another writer's chance.
        log: every request, in the order of their answers.
        page: how many entries a page of a listing has (models and tree; discussions have `discussion_page`).
    """

    def __init__(self, *, faults: Faults | None = None, page: int = 1000, discussion_page: int = 10) -> None:
        self.repos: dict[str, Repo] = {}
        self.renamed: dict[str, str] = {}
        self.users: dict[str, User] = {}
        self.stored: dict[str, bytes] = {}  # LFS objects, by their SHA-256
        self.faults = faults
        self.before_commit: Callable[[Repo], None] | None = None
        self.log: list[Logged] = []
        self.page, self.discussion_page = page, discussion_page
        self._server = _server(_handler(self))
        self.port: int = self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def storage_url(self) -> str:
        """Where LFS objects are: the same server under another name, hence another host to the client."""
        return f"http://localhost:{self.port}/storage"

    def __enter__(self) -> LoopbackHub:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._server.hang_up()

    def add_user(self, name: str, *, role: str = "write", orgs: Sequence[str] = ()) -> str:
        """A user; the token to come with."""
        token = f"hf_{hashlib.sha256(f'{name} {role}'.encode()).hexdigest()[:34]}"
        self.users[token] = User(name, token, role, tuple(orgs))
        return token

    def add_repo(self, name: str, files: Mapping[str, bytes] | None = None, **kind: Any) -> Repo:
        """A repo; `kind` as `Repo` takes it."""
        repo = self.repos[name] = Repo(name, files, **kind)
        self.stored.update({blob.sha256: blob.content for blob in repo.head.files.values() if blob.lfs})
        return repo

    def rename(self, old: str, new: str) -> None:
        repo = self.repos[new] = self.repos.pop(old)
        repo.name = new
        self.renamed[old] = new

    def environment(self, token: str | None, home: str | os.PathLike[str]) -> dict[str, str]:
        """Variables for a process that shall see this Hub, logged in as `token`'s user, its cache in `home`.

        The login is a file as `hf auth login` writes it, not a variable.
        """
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
        os.makedirs(home, exist_ok=True)
        if token is not None:
            with open(os.path.join(home, "token"), "w", encoding="utf-8") as file:
                file.write(token)
        hub = {"HF_ENDPOINT": self.url, "HF_HOME": os.fspath(home), "HF_HUB_DISABLE_TELEMETRY": "1"}
        return {**kept, **hub, "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1,localhost"}

    # --- who may do what

    def caller(self, headers: Mapping[str, str]) -> User | None:
        given = headers.get("Authorization")
        if given is None:
            return None
        user = self.users.get(given.removeprefix("Bearer "))
        if user is None or not given.startswith("Bearer "):
            raise Refused(401, "Invalid credentials in Authorization header")
        return user

    def seen(self, request: Request, name: str) -> Repo:
        """The repo, if the caller may know of it."""
        repo = self.repos.get(unquote(name))
        user = request.user
        hidden = repo is not None and repo.private and not (user and user.owns(repo))
        if repo is None or hidden:
            if user is None:
                raise Refused(401, "Invalid username or password.", "RepoNotFound")
            raise Refused(404, "Repository not found", "RepoNotFound")
        if repo.disabled:
            raise Refused(403, "Access to this resource is disabled.")
        return repo

    def opened(self, request: Request, name: str) -> Repo:
        """The repo, if the caller may read its files."""
        repo, user = self.seen(request, name), request.user
        if repo.gated and not (user and (user.owns(repo) or user.name in repo.readers)):
            message = f"Access to model {repo.name} is restricted"
            if user is None:
                raise Refused(401, f"{message}. You must be authenticated to access it.", "GatedRepo")
            raise Refused(403, f"{message} and you are not in the authorized list.", "GatedRepo")
        return repo

    def writer(self, request: Request, name: str) -> tuple[Repo, User]:
        """The repo and its reader, whose token may write something somewhere."""
        repo, user = self.opened(request, name), request.user
        if user is None:
            raise Refused(401, "Invalid username or password.")
        if user.role != "write":
            raise Refused(403, "you must use a write token to upload to a repository.")
        return repo, user

    def may_push(self, repo: Repo, user: User, ref: str) -> None:
        if user.owns(repo):
            return
        pull_request = next((item for item in repo.pull_requests() if item.ref == ref), None)
        if pull_request is None:
            raise Refused(403, "pass `create_pr=1` as a query parameter to create a Pull Request")
        if pull_request.author != user.name:
            raise Refused(403, "You don't have the rights to push to this Pull Request")

    def may_discuss(self, repo: Repo) -> None:
        if repo.discussions_off:
            raise Refused(403, "Discussions are disabled for this repo")

    def location(self, request: Request, name: str) -> str | None:
        """Where a renamed repo's page is now."""
        now = self.renamed.get(unquote(name))
        if now is None or unquote(name) in self.repos:
            return None
        query = "&".join(f"{quote(key)}={quote(value)}" for key, values in request.query.items() for value in values)
        return request.path.replace(name, now, 1) + (f"?{query}" if query else "")


# --- the pages -----------------------------------------------------------------------------------------------------

Page = Callable[..., Answer]
_PAGES: list[tuple[str, re.Pattern[str], Page]] = []
_REPO = r"(?P<repo>[^/]+(?:/[^/]+)?)"
_MODEL = rf"/api/models/{_REPO}"


def _page(method: str, pattern: str) -> Callable[[Page], Page]:
    def register(page: Page) -> Page:
        _PAGES.append((method, re.compile(pattern), page))
        return page

    return register


def answer(hub: LoopbackHub, request: Request) -> Answer:
    """The first page that fits answers; a repo that has another name now is told as a redirect."""
    method = "GET" if request.method == "HEAD" else request.method
    for verb, pattern, page in _PAGES:
        found = pattern.fullmatch(request.path) if verb == method else None
        if found is None:
            continue
        parts = {key: value for key, value in found.groupdict().items() if value is not None}
        target = hub.location(request, parts["repo"]) if "repo" in parts else None
        if target is not None:
            return Answer(307, b"Temporary Redirect", {"Location": target})
        return page(hub, request, **parts)
    raise Refused(404, f"no such page: {request.method} {request.path}")


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})


def _paged(hub: LoopbackHub, request: Request, entries: Sequence[Any]) -> Answer:
    """A page of a listing, with a link to the next one."""
    limit = min(int(request.option("limit") or hub.page), hub.page)
    start = int(request.option("cursor") or 0)
    headers = {}
    if start + limit < len(entries):
        kept = [(key, value) for key, values in request.query.items() if key != "cursor" for value in values]
        query = "&".join(f"{quote(key)}={quote(value)}" for key, value in [*kept, ("cursor", str(start + limit))])
        headers["Link"] = f'<{hub.url}{request.path}?{query}>; rel="next"'
    return _json(entries[start : start + limit], headers=headers)


# reading


@_page("GET", "/api/whoami-v2")
def _whoami(hub: LoopbackHub, request: Request) -> Answer:
    user = request.user
    if user is None:
        raise Refused(401, "Invalid username or password.")
    token = {"type": "access_token", "accessToken": {"displayName": "test", "role": user.role}}
    orgs = [{"type": "org", "name": name, "fullname": name, "roleInOrg": "write"} for name in user.orgs]
    return _json(
        {"type": "user", "id": user.name, "name": user.name, "fullname": user.name, "orgs": orgs, "auth": token}
    )


@_page("GET", "/api/models")
def _models(hub: LoopbackHub, request: Request) -> Answer:
    known = set(request.query) - {"author", "limit", "cursor", "full", "expand", "sort", "direction"}
    if known:
        raise Refused(400, f"this Hub does not filter by {sorted(known)}")
    user, author = request.user, request.option("author")
    found = [repo for repo in hub.repos.values() if not author or repo.namespace.lower() == author.lower()]
    found = [repo for repo in found if not repo.disabled and (not repo.private or (user and user.owns(repo)))]
    return _paged(hub, request, [_listed(repo) for repo in found])


def _listed(repo: Repo) -> dict[str, Any]:
    return {
        "_id": hashlib.sha1(repo.name.encode()).hexdigest()[:24],
        "id": repo.name,
        "modelId": repo.name,
        "author": repo.namespace,
        "private": repo.private,
        "gated": "manual" if repo.gated else False,
        "downloads": 0,
        "likes": 0,
        "tags": ["transformers"],
        "library_name": "transformers",
        "createdAt": iso(repo.history(repo.head)[-1].date),
    }


@_page("GET", _MODEL + "/auth-check")
def _auth_check(hub: LoopbackHub, request: Request, repo: str) -> Answer:
    hub.opened(request, repo)
    return Answer(200, b"OK")


@_page("GET", _MODEL + "/refs")
def _refs(hub: LoopbackHub, request: Request, repo: str) -> Answer:
    refs = hub.seen(request, repo).refs.items()
    branches = [{"name": ref, "ref": f"refs/heads/{ref}", "targetCommit": at} for ref, at in refs if "/" not in ref]
    found: dict[str, Any] = {"branches": branches, "converts": [], "tags": []}
    if request.flag("include_prs"):
        pulls = [(ref, at) for ref, at in refs if ref.startswith("refs/pr/")]
        found["pullRequests"] = [{"name": ref[5:], "ref": ref, "targetCommit": at} for ref, at in pulls]
    return _json(found)


@_page("GET", _MODEL + r"/commits/(?P<revision>.+)")
def _commits(hub: LoopbackHub, request: Request, repo: str, revision: str) -> Answer:
    found = hub.seen(request, repo)
    history = found.history(found.resolve(unquote(revision)))
    rows = [
        {
            "id": commit.name,
            "title": commit.title,
            "message": commit.body,
            "authors": [{"user": commit.author, "avatar": ""}],
            "date": iso(commit.date),
        }
        for commit in history
    ]
    return _paged(hub, request, rows)


@_page("GET", _MODEL + r"/tree/(?P<revision>[^/]+)(?:/(?P<path>.+))?")
def _tree(hub: LoopbackHub, request: Request, repo: str, revision: str, path: str = "") -> Answer:
    commit = hub.seen(request, repo).resolve(unquote(revision))
    folder = unquote(path).strip("/")
    rows = _listing(commit, folder, request.flag("recursive"))
    if folder and not rows:
        raise Refused(404, f"{folder} does not exist on {unquote(revision)}", "EntryNotFound", commit.name)
    return _paged(hub, request, rows)


def _listing(commit: Commit, folder: str, recursive: bool) -> list[dict[str, Any]]:
    start = f"{folder}/" if folder else ""
    rows, folders = [], set()
    for path in sorted(commit.files):
        if not path.startswith(start):
            continue
        inside = path[len(start) :].split("/")
        folders |= {
            start + "/".join(inside[:depth]) for depth in range(1, len(inside) if recursive else min(2, len(inside)))
        }
        if recursive or len(inside) == 1:
            rows.append(_file(path, commit.files[path]))
    return [*(_folder(path) for path in sorted(folders)), *rows]


def _file(path: str, blob: Blob) -> dict[str, Any]:
    row: dict[str, Any] = {"type": "file", "oid": blob.name, "size": len(blob.content), "path": path}
    if blob.lfs:
        row["lfs"] = {"oid": blob.sha256, "size": len(blob.content), "pointerSize": len(blob.pointer)}
    return row


def _folder(path: str) -> dict[str, Any]:
    return {"type": "directory", "oid": hashlib.sha1(path.encode()).hexdigest(), "size": 0, "path": path}


@_page("POST", _MODEL + r"/paths-info/(?P<revision>.+)")
def _paths_info(hub: LoopbackHub, request: Request, repo: str, revision: str) -> Answer:
    commit = hub.seen(request, repo).resolve(unquote(revision))
    if "json" in request.headers.get("Content-Type", ""):
        paths = request.json().get("paths", [])
    else:
        paths = parse_qs(request.body.decode()).get("paths", [])
    rows = [_file(path, commit.files[path]) for path in paths if path in commit.files]
    folders = {path for path in paths if any(name.startswith(f"{path}/") for name in commit.files)}
    return _json([*rows, *(_folder(path) for path in sorted(folders))])


@_page("GET", rf"/{_REPO}/resolve/(?P<revision>refs/pr/\d+|[^/]+)/(?P<path>.+)")
def _resolve(hub: LoopbackHub, request: Request, repo: str, revision: str, path: str) -> Answer:
    found = hub.opened(request, repo)
    commit = found.resolve(unquote(revision))
    blob = _entry(commit, unquote(path))
    linked = {
        "X-Repo-Commit": commit.name,
        "X-Linked-Size": str(len(blob.content)),
        "X-Linked-Etag": f'"{blob.etag}"',
        "Accept-Ranges": "bytes",
    }
    if blob.lfs:
        return Answer(302, b"Found", {**linked, "Location": f"{hub.storage_url}/{blob.sha256}"})
    etag = quote(f'"{blob.etag}"')
    target = f"/api/resolve-cache/models/{found.name}/{commit.name}/{path}?etag={etag}"
    return Answer(307, b"Temporary Redirect", {**linked, "Location": target})


@_page("GET", rf"/api/resolve-cache/models/{_REPO}/(?P<revision>[0-9a-f]{{40}})/(?P<path>.+)")
def _cached(hub: LoopbackHub, request: Request, repo: str, revision: str, path: str) -> Answer:
    commit = hub.opened(request, repo).resolve(revision)
    blob = _entry(commit, unquote(path))
    name = unquote(path).rsplit("/", 1)[-1]
    headers = {
        "ETag": f'"{blob.etag}"',
        "X-Repo-Commit": commit.name,
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Disposition": f"inline; filename*=UTF-8''{quote(name)}; filename=\"{quote(name)}\";",
    }
    return _ranged(request, blob.content, headers)


@_page("GET", r"/storage/(?P<sha>[0-9a-f]{64})")
def _storage(hub: LoopbackHub, request: Request, sha: str) -> Answer:
    if "Authorization" in request.headers:
        raise Refused(400, "Only one auth mechanism allowed: a signed URL came with an Authorization header")
    if sha not in hub.stored:
        raise Refused(404, "NoSuchKey")
    return _ranged(request, hub.stored[sha], {"ETag": f'"{sha}"', "Content-Type": "binary/octet-stream"})


def _entry(commit: Commit, path: str) -> Blob:
    if path not in commit.files:
        raise Refused(404, "Entry not found", "EntryNotFound", commit.name)
    return commit.files[path]


def _ranged(request: Request, content: bytes, headers: Mapping[str, str]) -> Answer:
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
    headers = {**headers, "Accept-Ranges": "bytes"}
    if asked is None:
        return Answer(200, content, headers)
    start, end = int(asked[1]), min(int(asked[2] or len(content) - 1), len(content) - 1)
    if start > end:
        return Answer(416, b"", {**headers, "Content-Range": f"bytes */{len(content)}"})
    span = {"Content-Range": f"bytes {start}-{end}/{len(content)}"}
    return Answer(206, content[start : end + 1], {**headers, **span})


# discussions


@_page("GET", _MODEL + "/discussions")
def _discussions(hub: LoopbackHub, request: Request, repo: str) -> Answer:
    found = hub.seen(request, repo)
    hub.may_discuss(found)
    kind, status, author = request.option("type"), request.option("status"), request.option("author")
    if kind not in {"", "all", "discussion", "pull_request"} or status not in {"", "all", "open", "closed"}:
        raise Refused(400, "type is one of all, discussion, pull_request; status one of all, open, closed")
    items = sorted(found.discussions.values(), key=lambda item: -item.number)
    if kind in {"discussion", "pull_request"}:
        items = [item for item in items if item.is_pull_request == (kind == "pull_request")]
    if status in {"open", "closed"}:
        items = [item for item in items if item.is_open == (status == "open")]
    if author:
        items = [item for item in items if item.author == author]
    start = int(request.option("p") or 0) * hub.discussion_page
    return _json(
        {
            "discussions": [_summary(found, item) for item in items[start : start + hub.discussion_page]],
            "count": len(items),
            "start": start,
            "numClosedDiscussions": sum(not item.is_open for item in found.discussions.values()),
        }
    )


def _summary(repo: Repo, item: Discussion) -> dict[str, Any]:
    return {
        "num": item.number,
        "title": item.title,
        "author": {"name": item.author, "type": "user"},
        "createdAt": iso(item.created),
        "status": item.status,
        "repo": {"name": repo.name, "type": "model"},
        "repoOwner": {"name": repo.namespace},
        "isPullRequest": item.is_pull_request,
        "pinned": False,
        "numComments": sum(event["type"] == "comment" for event in item.events),
    }


@_page("POST", _MODEL + "/discussions")
def _new_discussion(hub: LoopbackHub, request: Request, repo: str) -> Answer:
    found, user = hub.writer(request, repo)
    hub.may_discuss(found)
    asked = request.json()
    body = asked.get("description")
    if not isinstance(body, str) or not body:
        raise Refused(400, "description must be a string that is not empty")
    base = found.head.name if asked.get("pullRequest") else None
    item = found.open_discussion(author=user.name, title=asked.get("title"), body=body, base=base)
    return _json({"num": item.number, "pullRequest": item.is_pull_request})


@_page("GET", _MODEL + r"/discussions/(?P<number>\d+)")
def _discussion(hub: LoopbackHub, request: Request, repo: str, number: str) -> Answer:
    found = hub.seen(request, repo)
    hub.may_discuss(found)
    with found.lock:
        item = _numbered(found, number)
        shown = {**_summary(found, item), "events": item.events}
        if item.is_pull_request:
            shown["changes"] = {"base": f"refs/heads/{MAIN}"}
            if item.merge_commit:
                shown["changes"]["mergeCommitId"] = item.merge_commit
            shown["filesWithConflicts"] = found.conflicts(item) if item.is_open else []
            if request.flag("diff"):
                shown["diff"] = found.diff(item)
        return _json(shown)


@_page("POST", _MODEL + r"/discussions/(?P<number>\d+)/(?P<what>comment|title|status|merge)")
def _discuss(hub: LoopbackHub, request: Request, repo: str, number: str, what: str) -> Answer:
    found, user = hub.writer(request, repo)
    hub.may_discuss(found)
    item = _numbered(found, number)
    asked = request.json() if request.body else {}
    if what == "comment":
        if not isinstance(asked.get("comment"), str) or not asked["comment"].strip():
            raise Refused(400, "comment must be a string that is not empty")
        return _json({"newMessage": found.comment(item, user.name, asked["comment"])})
    if not user.owns(found) and (what == "merge" or user.name != item.author):
        raise Refused(403, "You don't have the rights to do this")
    if what == "title":
        return _json({"newTitle": found.retitle(item, user.name, asked.get("title", ""))})
    if what == "merge":
        found.merge(item, user.name)
        return _json({"success": True})
    if asked.get("status") not in {"open", "closed"}:
        raise Refused(400, "status is open or closed")
    if asked.get("comment"):
        found.comment(item, user.name, asked["comment"])
    return _json({"newStatus": found.set_status(item, user.name, asked["status"])})


@_page("POST", _MODEL + r"/discussions/(?P<number>\d+)/comment/(?P<key>[0-9a-f]+)/edit")
def _edit_comment(hub: LoopbackHub, request: Request, repo: str, number: str, key: str) -> Answer:
    found, user = hub.writer(request, repo)
    text = request.json().get("content")
    if not isinstance(text, str) or not text:
        raise Refused(400, "content must be a string that is not empty")
    return _json({"updatedComment": found.edit_comment(_numbered(found, number), key, user.name, text)})


def _numbered(repo: Repo, number: str) -> Discussion:
    if int(number) not in repo.discussions:
        raise Refused(404, "Discussion not found")
    return repo.discussions[int(number)]


# writing


@_page("POST", _MODEL + r"/preupload/(?P<revision>.+)")
def _preupload(hub: LoopbackHub, request: Request, repo: str, revision: str) -> Answer:
    found, user = hub.writer(request, repo)
    ref = unquote(revision)
    commit = found.resolve(ref)
    if not request.flag("create_pr"):
        hub.may_push(found, user, ref)
    asked = request.json().get("files")
    if not isinstance(asked, list) or not asked:
        raise Refused(400, "files must be a list that is not empty")
    modes = []
    for file in asked:
        path = _checked_path(file.get("path"))
        if not isinstance(file.get("size"), int) or not isinstance(file.get("sample"), str):
            raise Refused(400, f"{path}: size (int) and sample (base64) are needed")
        lfs = found.is_lfs(path, _decoded(file["sample"], path), commit.files, file["size"])
        row = {"path": path, "uploadMode": "lfs" if lfs else "regular", "shouldIgnore": False}
        if path in commit.files:
            row["oid"] = commit.files[path].etag
        modes.append(row)
    return _json({"files": modes})


@_page("POST", rf"/{_REPO}\.git/info/lfs/objects/batch")
def _lfs_batch(hub: LoopbackHub, request: Request, repo: str) -> Answer:
    hub.writer(request, repo)
    asked = request.json()
    if asked.get("operation") != "upload" or asked.get("hash_algo") != "sha256":
        raise Refused(400, "only uploads by SHA-256")
    if "basic" not in asked.get("transfers", ()):
        raise Refused(501, "this Hub knows only the basic transfer")
    rows = [{"oid": item["oid"], "size": item["size"]} for item in asked["objects"]]
    for row in rows:
        if row["oid"] not in hub.stored:
            row["actions"] = {"upload": {"href": f"{hub.storage_url}/{row['oid']}"}}
    return _json({"transfer": "basic", "objects": rows})


@_page("PUT", r"/storage/(?P<sha>[0-9a-f]{64})")
def _store(hub: LoopbackHub, request: Request, sha: str) -> Answer:
    if "Authorization" in request.headers:
        raise Refused(400, "Only one auth mechanism allowed: a signed URL came with an Authorization header")
    if hashlib.sha256(request.body).hexdigest() != sha:
        raise Refused(400, "The content does not have this SHA-256")
    hub.stored[sha] = request.body
    return Answer()


@_page("POST", _MODEL + r"/commit/(?P<revision>.+)")
def _commit(hub: LoopbackHub, request: Request, repo: str, revision: str) -> Answer:
    found, user = hub.writer(request, repo)
    ref, create = unquote(revision), request.flag("create_pr")
    if create:
        hub.may_discuss(found)
        if ref != MAIN:
            raise Refused(400, f"a pull request starts from {MAIN}, not from {ref}")
    else:
        hub.may_push(found, user, ref)
        _checked_ref(found, ref)
    if "application/x-ndjson" not in request.headers.get("Content-Type", ""):
        raise Refused(415, "a commit is sent as application/x-ndjson")
    if hub.before_commit is not None:
        hub.before_commit(found)
    with found.lock:
        header, operations = _payload(request.body)
        parent = header.get("parentCommit")
        base = found.resolve(parent or MAIN) if create else found.resolve(ref)
        changes = dict(_operation(hub, found, base, operation) for operation in operations)
        said = {"author": user.name, "title": header["summary"], "body": header.get("description") or ""}
        if create:
            checked = said["title"] if len(said["title"]) <= 200 else f"{said['title'][:197]}..."
            pull_request, made = found.open_pull_request(changes, **{**said, "title": checked}, parent=parent)
        else:
            made = found.commit(changes, **said, ref=ref, parent=parent)
    url = f"{hub.url}/{found.name}"
    done = {"success": True, "commitOid": made.name, "commitUrl": f"{url}/commit/{made.name}", "hookOutput": ""}
    if create:
        done["pullRequestUrl"] = f"{url}/discussions/{pull_request.number}"
    return _json(done)


def _checked_ref(repo: Repo, ref: str) -> None:
    """A commit goes onto a branch, or onto a pull request that is open."""
    repo.resolve(ref)
    if ref not in repo.refs:
        raise Refused(400, f"{ref} is not a branch")
    pull_request = next((item for item in repo.pull_requests() if item.ref == ref), None)
    if pull_request is not None and not pull_request.is_open:
        raise Refused(403, f"this pull request is {pull_request.status}")


def _payload(body: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    try:
        header, *operations = [json.loads(line) for line in body.splitlines() if line]
    except ValueError as error:
        raise Refused(400, f"the body is not lines of JSON: {error}") from error
    if header.get("key") != "header":
        raise Refused(400, "the first line must be the header")
    value = header["value"]
    if not isinstance(value.get("summary"), str) or not value["summary"].strip():
        raise Refused(400, "summary is not allowed to be empty")
    parent = value.get("parentCommit")
    if parent is not None and not re.fullmatch(r"[0-9a-f]{7,40}", str(parent)):
        raise Refused(400, f"parentCommit {parent!r} is not the name of a commit")
    if not operations:
        raise Refused(400, "a commit needs an operation")
    return value, operations


def _operation(hub: LoopbackHub, repo: Repo, base: Commit, operation: Mapping[str, Any]) -> tuple[str, Blob | None]:
    """A line of a commit: the path, and what is there afterwards."""
    key, value = operation.get("key"), operation.get("value", {})
    path = _checked_path(value.get("path"))
    if key == "file":
        if value.get("encoding", "utf-8") == "base64":
            content = _decoded(value["content"], path)
        else:
            content = value["content"].encode("utf-8")
        if len(content) > MAX_REGULAR:
            raise Refused(400, f"Your push was rejected because {path} is larger than 10 MiB. Please use LFS.")
        if b"\0" in content[:8000]:
            raise Refused(400, f"Your push was rejected because {path} is binary. Please use LFS.")
        return path, Blob(content)
    if key == "lfsFile":
        if value.get("algo") != "sha256" or value.get("oid") not in hub.stored:
            raise Refused(400, f"{path}: an LFS pointer to an object that was not uploaded")
        content = hub.stored[value["oid"]]
        if value.get("size", len(content)) != len(content):
            raise Refused(400, f"{path}: the LFS object has another size")
        return path, Blob(content, lfs=True)
    if key == "deletedFile":
        if path not in base.files:
            raise Refused(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
        return path, None
    raise Refused(400, f"unknown operation {key!r}")


def _checked_path(path: Any) -> str:
    if not isinstance(path, str) or not path:
        raise Refused(400, "a path must be a string that is not empty")
    parts = path.split("/")
    if any(part in {"", ".", "..", ".git"} for part in parts) or "\0" in path:
        raise Refused(400, f"{path!r} is not a path inside the repo")
    return path


def _decoded(text: str, path: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused(400, f"{path}: the content is not base64") from error


# the most general last


@_page("GET", _MODEL + r"(?:/revision/(?P<revision>.+))?")
def _model(hub: LoopbackHub, request: Request, repo: str, revision: str = MAIN) -> Answer:
    found = hub.seen(request, repo)
    commit = found.resolve(unquote(revision))
    files = sorted(commit.files.items())
    shown = {
        **_listed(found),
        "sha": commit.name,
        "lastModified": iso(commit.date),
        "disabled": found.disabled,
        "siblings": [_sibling(path, blob, request.flag("blobs")) for path, blob in files],
        "spaces": [],
        "usedStorage": sum(len(blob.content) for _, blob in files),
    }
    expand = request.query.get("expand")
    if expand:
        shown = {key: value for key, value in shown.items() if key in {"_id", "id", *expand}}
    return _json(shown)


def _sibling(path: str, blob: Blob, with_blobs: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"rfilename": path}
    if with_blobs:
        row |= {"size": len(blob.content), "blobId": blob.name}
        if blob.lfs:
            row["lfs"] = {"sha256": blob.sha256, "size": len(blob.content), "pointerSize": len(blob.pointer)}
    return row


# --- the server ----------------------------------------------------------------------------------------------------


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End what clients kept open: the next hub at this port must not be taken for this one."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up (a test kills it) is nothing to report."""


def _server(handler: type[BaseHTTPRequestHandler]) -> _Server:
    """A server at HF_ENDPOINT if that is a port of this machine which is free, else at any port."""
    endpoint = urlsplit(os.environ.get("HF_ENDPOINT", ""))
    if endpoint.hostname == "127.0.0.1" and endpoint.port:
        with contextlib.suppress(OSError):
            return _Server((endpoint.hostname, endpoint.port), handler)
    return _Server(("127.0.0.1", 0), handler)


class _Cut(Exception):
    """The connection was cut on purpose."""


def _handler(hub: LoopbackHub) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        pass

    Handler.hub = hub
    return Handler


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: LoopbackHub
    timeout = 60

    def do_GET(self) -> None:
        self._serve()

    do_HEAD = do_POST = do_PUT = do_GET

    def log_message(self, *_: Any) -> None:
        """The hub has its own log."""

    def _serve(self) -> None:
        request = self._read()
        if request is None:
            return
        faults = self.hub.faults
        fault = faults.draw(request.method, request.path) if faults else ""
        try:
            given = self._answer_under(fault, faults, request)
        except _Cut:
            self._log(request, 0, fault)
            self._cut()
            return
        self._log(request, given.status, fault)
        self._send(request, given, truncated=fault == "truncated")

    def _read(self) -> Request | None:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            self.send_error(411)
            self.close_connection = True
            return None
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return Request(self.command, parts.path, parse_qs(parts.query, keep_blank_values=True), self.headers, body)

    def _answer_under(self, fault: str, faults: Faults | None, request: Request) -> Answer:
        """The answer, or what a fault makes of it."""
        if faults is None or not fault:
            return self._answer(request)
        if fault == "reset":
            raise _Cut
        if fault == "slow":
            time.sleep(faults.delay)
            return self._answer(request)
        if fault == "429":
            return _error(429, "Too Many Requests", {"Retry-After": str(faults.retry_after)})
        if fault in {"500", "502"}:
            return _error(int(fault), "Something went wrong")
        given = self._answer(request)
        if fault == "lost" or (fault == "truncated" and (request.method == "HEAD" or len(given.body) < 2)):
            raise _Cut
        return given if fault == "truncated" else _error(500, "Something went wrong")

    def _answer(self, request: Request) -> Answer:
        try:
            user = None if request.path.startswith("/storage/") else self.hub.caller(self.headers)
            return answer(
                self.hub, Request(request.method, request.path, request.query, request.headers, request.body, user)
            )
        except Refused as refused:
            headers = {"X-Error-Message": refused.message}
            if refused.code:
                headers["X-Error-Code"] = refused.code
            if refused.commit:
                headers["X-Repo-Commit"] = refused.commit
            return _error(refused.status, refused.message, headers)

    def _send(self, request: Request, given: Answer, *, truncated: bool) -> None:
        self.send_response(given.status)
        for name, value in given.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(given.body)))
        self.send_header("X-Request-Id", f"{request.method}-{len(self.hub.log)}")
        self.end_headers()
        if request.method == "HEAD":
            return
        self.wfile.write(given.body[: len(given.body) // 2] if truncated else given.body)
        if truncated:
            self.wfile.flush()
            self.close_connection = True

    def _log(self, request: Request, status: int, fault: str) -> None:
        with contextlib.suppress(Refused):
            user = self.hub.caller(self.headers)
            self.hub.log.append(Logged(request.method, request.path, status, fault, user.name if user else ""))
            return
        self.hub.log.append(Logged(request.method, request.path, status, fault, "?"))

    def _cut(self) -> None:
        """Cut the connection so that the other side sees a reset, not an end."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    return _json({"error": message}, status, headers)


# --- another writer ------------------------------------------------------------------------------------------------


class Rival:
    """Someone else who commits to `main` before a share of our commits: `hub.before_commit = Rival(0.2)`.

    Args:
        rate: of our commits, 0 to 1.
        path: the file that is edited.
        edit: from the old content to the new one.
    """

    def __init__(
        self,
        rate: float,
        *,
        path: str = "README.md",
        edit: Callable[[bytes], bytes] = lambda content: content + b"\nmore\n",
        seed: int = 0,
    ) -> None:
        self.path, self.edit, self.commits = path, edit, 0
        self._rate, self._random, self._lock = rate, random.Random(seed), threading.Lock()

    def __call__(self, repo: Repo) -> None:
        with self._lock:
            if self._random.random() >= self._rate:
                return
            self.commits += 1
            number = self.commits
        with repo.lock:
            before = repo.head.files.get(self.path)
            content = self.edit(before.content if before else b"")
            repo.commit({self.path: Blob(content)}, author=repo.namespace, title=f"Another change, number {number}")


def tokens_in(log: Sequence[Logged]) -> Iterator[Logged]:
    """The requests to the storage host that came with a token: there must be none."""
    return (entry for entry in log if entry.path.startswith("/storage/") and entry.user)
