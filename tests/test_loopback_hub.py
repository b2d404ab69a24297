"""The loopback Hub, through the real `huggingface_hub` client of whatever version is installed."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    constants,
    hf_hub_download,
    snapshot_download,
)
from huggingface_hub.errors import (
    BadRequestError,
    DisabledRepoError,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from hub_repos import Blob, Repo, tree_name
from loopback_hub import LoopbackHub, OneAfterAnother, Rival, tokens_in

pytestmark = pytest.mark.skipif(constants.HF_HUB_OFFLINE, reason="the client is set to offline")

CONFIG = "tokenizer_config.json"
FILES = {CONFIG: b'{"a": 1}\n', "README.md": b"# m\n", "sub/x.txt": b"x", "sub/deep/y.txt": b"y"}


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as server:
        yield server


@pytest.fixture
def repo(hub: LoopbackHub) -> Repo:
    return hub.add_repo("ann/m", FILES)


@pytest.fixture
def ann(hub: LoopbackHub) -> HfApi:
    """The owner of `ann/m`."""
    return HfApi(endpoint=hub.url, token=hub.add_user("ann"))


@pytest.fixture
def bob(hub: LoopbackHub) -> HfApi:
    """Somebody else."""
    return HfApi(endpoint=hub.url, token=hub.add_user("bob"))


def add(content: bytes, path: str = CONFIG) -> list[CommitOperationAdd]:
    return [CommitOperationAdd(path, content)]


def status_of(raised: pytest.ExceptionInfo[HfHubHTTPError]) -> int:
    return raised.value.response.status_code


# --- reading -------------------------------------------------------------------------------------------------------


def test_whoami(hub: LoopbackHub, ann: HfApi) -> None:
    assert ann.whoami()["name"] == "ann"
    with pytest.raises(Exception, match="Invalid user token") as raised:  # an error of requests, on 0.x
        HfApi(endpoint=hub.url).whoami("hf_wrong")
    assert status_of(raised) == 401


def test_model_info(repo: Repo, ann: HfApi) -> None:
    info = ann.model_info("ann/m", files_metadata=True)
    assert info.sha == repo.head.name
    assert {item.rfilename: item.size for item in info.siblings} == {path: len(text) for path, text in FILES.items()}
    assert ann.model_info("ann/m", revision=info.sha[:9]).sha == info.sha
    with pytest.raises(RevisionNotFoundError):
        ann.model_info("ann/m", revision="nope")
    with pytest.raises(RepositoryNotFoundError):
        ann.model_info("ann/other")


def test_listing_by_author(hub: LoopbackHub, ann: HfApi, bob: HfApi) -> None:
    hub.page = 4
    for number in range(10):
        hub.add_repo(f"ann/m{number}", private=number == 3)
    hub.add_repo("bob/m")
    assert [info.id for info in ann.list_models(author="ann")] == [f"ann/m{number}" for number in range(10)]
    assert len(list(bob.list_models(author="ann"))) == 9
    assert len(list(bob.list_models(author="ann", limit=5))) == 5


def test_download_is_cached_by_etag(hub: LoopbackHub, repo: Repo, tmp_path: Path) -> None:
    def get(path: str, **more: str) -> bytes:
        return Path(hf_hub_download("ann/m", path, endpoint=hub.url, cache_dir=tmp_path, **more)).read_bytes()

    assert get(CONFIG) == FILES[CONFIG] == get(CONFIG, revision=repo.head.name)
    bodies = [entry for entry in hub.log if entry.method == "GET"]
    assert get(CONFIG) == FILES[CONFIG]
    assert [entry for entry in hub.log if entry.method == "GET"] == bodies
    assert get("sub/deep/y.txt") == b"y"
    with pytest.raises(EntryNotFoundError):
        get("none.json")
    first = repo.head.name
    repo.commit({CONFIG: Blob(b"{}")}, author="ann", title="new")
    assert get(CONFIG) == b"{}"
    assert get(CONFIG, revision=first) == FILES[CONFIG]


def test_a_stored_file_is_behind_another_host(hub: LoopbackHub, ann: HfApi, tmp_path: Path) -> None:
    content = bytes(range(256)) * 40
    hub.add_repo("ann/m", {"model.bin": content, ".gitattributes": b"*.big filter=lfs -text\n", "a.big": b"text"})
    for path, expected in (("model.bin", content), ("a.big", b"text")):
        assert Path(ann.hf_hub_download("ann/m", path, cache_dir=tmp_path)).read_bytes() == expected
    assert any(entry.path.startswith("/storage/") for entry in hub.log)
    assert not list(tokens_in(hub.log))
    (info,) = ann.get_paths_info("ann/m", ["a.big", "none"])
    assert info.lfs is not None and info.lfs.size == 4


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize("page", [1, 2, 1000])
def test_tree(hub: LoopbackHub, repo: Repo, ann: HfApi, page: int, recursive: bool) -> None:
    hub.page = page
    found = {item.path for item in ann.list_repo_tree("ann/m", recursive=recursive)}
    assert found == ({*FILES, "sub", "sub/deep"} if recursive else {CONFIG, "README.md", "sub"})
    inside = {item.path for item in ann.list_repo_tree("ann/m", "sub", recursive=recursive)}
    assert inside == ({"sub/x.txt", "sub/deep", "sub/deep/y.txt"} if recursive else {"sub/x.txt", "sub/deep"})
    with pytest.raises(EntryNotFoundError):
        list(ann.list_repo_tree("ann/m", "nothing"))
    assert ann.file_exists("ann/m", CONFIG)
    assert not ann.file_exists("ann/m", "none")


def test_snapshot(hub: LoopbackHub, repo: Repo, tmp_path: Path) -> None:
    folder = Path(snapshot_download("ann/m", endpoint=hub.url, cache_dir=tmp_path))
    assert {path: (folder / path).read_bytes() for path in FILES} == FILES


def test_names_are_gits_own(tmp_path: Path) -> None:
    repo = Repo("ann/m", FILES)
    for path, content in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    git = ["git", "-C", str(tmp_path)]
    try:
        subprocess.run([*git, "init", "-q"], check=True)
    except OSError:
        pytest.skip("there is no git")
    subprocess.run([*git, "add", "."], check=True)
    written = subprocess.run([*git, "write-tree"], check=True, capture_output=True, text=True).stdout.strip()
    assert tree_name(repo.head.files) == written


# --- who may what --------------------------------------------------------------------------------------------------


def test_private_gated_disabled(hub: LoopbackHub, ann: HfApi, bob: HfApi, tmp_path: Path) -> None:
    anybody = HfApi(endpoint=hub.url, token=False)
    hub.add_repo("ann/secret", FILES, private=True)
    hub.add_repo("ann/gated", FILES, gated=True, readers=["carl"])
    hub.add_repo("ann/off", FILES, disabled=True)
    carl = HfApi(endpoint=hub.url, token=hub.add_user("carl"))
    assert ann.model_info("ann/secret").private
    for api in (bob, anybody):
        with pytest.raises(RepositoryNotFoundError):
            api.model_info("ann/secret")
        assert api.model_info("ann/gated").gated == "manual"
        with pytest.raises(GatedRepoError) as raised:
            api.hf_hub_download("ann/gated", CONFIG, cache_dir=tmp_path / "a")
        assert status_of(raised) == (403 if api is bob else 401)
        with pytest.raises(DisabledRepoError):
            api.model_info("ann/off")
    with pytest.raises(GatedRepoError):
        bob.create_commit("ann/gated", add(b"{}"), commit_message="change", create_pr=True)
    assert carl.hf_hub_download("ann/gated", CONFIG, cache_dir=tmp_path / "b")
    with pytest.raises((DisabledRepoError, LocalEntryNotFoundError)):
        ann.hf_hub_download("ann/off", CONFIG, cache_dir=tmp_path / "c")


def test_only_the_owner_pushes(hub: LoopbackHub, repo: Repo, ann: HfApi, bob: HfApi) -> None:
    with pytest.raises(HfHubHTTPError, match="create_pr=1") as raised:
        bob.create_commit("ann/m", add(b"{}"), commit_message="change")
    assert status_of(raised) == 403
    reader = HfApi(endpoint=hub.url, token=hub.add_user("ann", role="read"))
    with pytest.raises(HfHubHTTPError, match="write token") as raised:
        reader.create_commit("ann/m", add(b"{}"), commit_message="change", create_pr=True)
    with pytest.raises(HfHubHTTPError) as raised:
        HfApi(endpoint=hub.url, token=False).create_commit("ann/m", add(b"{}"), commit_message="change")
    assert status_of(raised) == 401
    hub.add_repo("acme/m", FILES)
    member = HfApi(endpoint=hub.url, token=hub.add_user("mia", orgs=["acme"]))
    member.create_commit("acme/m", add(b"{}"), commit_message="change")
    assert hub.repos["acme/m"].read(CONFIG) == b"{}"
    assert len(repo.commits) == 1


def test_a_renamed_repo(hub: LoopbackHub, repo: Repo, ann: HfApi, bob: HfApi, tmp_path: Path) -> None:
    hub.rename("ann/m", "ann/new")
    assert ann.model_info("ann/m").id == "ann/new"
    assert Path(bob.hf_hub_download("ann/m", CONFIG, cache_dir=tmp_path)).read_bytes() == FILES[CONFIG]
    ann.create_commit("ann/m", add(b"{}"), commit_message="change")
    bob.create_commit("ann/m", add(b"[]"), commit_message="change", create_pr=True)
    assert repo.read(CONFIG) == b"{}"
    assert repo.read(CONFIG, "refs/pr/1") == b"[]"
    assert [item.repo_id for item in bob.get_repo_discussions("ann/m")] == ["ann/new"]


# --- writing -------------------------------------------------------------------------------------------------------


def test_commit(repo: Repo, ann: HfApi) -> None:
    before = repo.head.name
    done = ann.create_commit(
        "ann/m", add(b"{}"), commit_message="change", commit_description="why", parent_commit=before
    )
    assert (done.oid, repo.read(CONFIG)) == (repo.head.name, b"{}")
    assert repo.read(CONFIG, before) == FILES[CONFIG]
    assert next((item.title, item.message) for item in ann.list_repo_commits("ann/m")) == ("change", "why")
    ann.create_commit("ann/m", [CommitOperationDelete("README.md")], commit_message="delete")
    assert "README.md" not in repo.head.files
    with pytest.raises(EntryNotFoundError):
        ann.create_commit("ann/m", [CommitOperationDelete("README.md")], commit_message="delete")


def test_a_commit_in_between_is_noticed(hub: LoopbackHub, repo: Repo, ann: HfApi) -> None:
    hub.before_commit = Rival(1.0)
    with pytest.raises(HfHubHTTPError, match="A commit has happened since") as raised:
        ann.create_commit("ann/m", add(b"{}"), commit_message="change", parent_commit=repo.head.name)
    assert status_of(raised) == 412
    assert repo.read(CONFIG) == FILES[CONFIG]
    ann.create_commit("ann/m", add(b"{}"), commit_message="change")
    assert repo.read("README.md") == b"# m\n\nmore\n\nmore\n"
    assert repo.read(CONFIG) == b"{}"


def test_what_has_not_changed_is_not_committed(repo: Repo, ann: HfApi) -> None:
    done = ann.create_commit("ann/m", add(FILES[CONFIG]), commit_message="change")
    assert done.oid == repo.head.name
    assert len(repo.commits) == 1


def test_a_large_file_goes_to_storage(hub: LoopbackHub, repo: Repo, tmp_path: Path) -> None:
    # hf_xet, where it is installed, is switched off as the hub's docstring says; the client reads that when imported
    code = (
        "from huggingface_hub import HfApi\n"
        "HfApi().upload_file(path_or_fileobj=b'\\0\\1' * 99, path_in_repo='w.bin', repo_id='ann/m')\n"
        "print(HfApi().hf_hub_download('ann/m', 'w.bin'))\n"
    )
    done = run_python(code, hub, hub.add_user("ann"), tmp_path)
    assert Path(done.strip()).read_bytes() == repo.read("w.bin") == b"\0\1" * 99
    assert repo.head.files["w.bin"].lfs
    assert not list(tokens_in(hub.log))


def file(path: str, content: str) -> dict[str, object]:
    return {"key": "file", "value": {"path": path, "content": content, "encoding": "base64"}}


HEADER = {"key": "header", "value": {"summary": "s"}}
BAD_COMMITS = {
    "no header": [file("a", "")],
    "no summary": [{"key": "header", "value": {"summary": " "}}, file("a", "")],
    "no operation": [HEADER],
    "unknown operation": [HEADER, {"key": "x", "value": {"path": "a"}}],
    "not base64": [HEADER, file("a", "*")],
    "outside": [HEADER, file("../a", "")],
    "absolute": [HEADER, file("/a", "")],
    "binary": [HEADER, file("a", "AAAA")],
    "too large": [HEADER, file("a", "IiIi" * 3_600_000)],
    "not a parent": [{"key": "header", "value": {"summary": "s", "parentCommit": "main"}}, file("a", "")],
    "not stored": [HEADER, {"key": "lfsFile", "value": {"path": "a", "algo": "sha256", "oid": "0" * 64}}],
}


@pytest.mark.parametrize("name", BAD_COMMITS)
def test_what_is_not_a_commit_is_refused(hub: LoopbackHub, repo: Repo, name: str) -> None:
    body = "\n".join(json.dumps(line) for line in BAD_COMMITS[name])
    connection = http.client.HTTPConnection("127.0.0.1", hub.port)
    headers = {"Authorization": f"Bearer {hub.add_user('ann')}", "Content-Type": "application/x-ndjson"}
    connection.request("POST", "/api/models/ann/m/commit/main", body, headers)
    response = connection.getresponse()
    assert (response.status, bool(json.loads(response.read())["error"])) == (400, True)
    assert len(repo.commits) == 1
    connection.close()


# --- pull requests -------------------------------------------------------------------------------------------------


def test_a_pull_request(repo: Repo, ann: HfApi, bob: HfApi) -> None:
    base = repo.head.name
    done = bob.create_commit(
        "ann/m",
        add(b'{"a": 2}\n'),
        commit_message="title",
        commit_description="body",
        create_pr=True,
        parent_commit=base,
    )
    assert (done.pr_url, done.pr_num, done.pr_revision) == (f"{bob.endpoint}/ann/m/discussions/1", 1, "refs/pr/1")
    (listed,) = bob.get_repo_discussions(
        "ann/m", discussion_type="pull_request", discussion_status="open", author="bob"
    )
    assert (listed.title, listed.author, listed.git_reference, listed.url) == ("title", "bob", "refs/pr/1", done.pr_url)
    assert repo.head.name == base
    assert repo.read(CONFIG, "refs/pr/1") == b'{"a": 2}\n'
    details = bob.get_discussion_details("ann/m", 1)
    assert [event.type for event in details.events] == ["comment", "commit"]
    assert details.events[0].content == "body"
    assert '-{"a": 1}\n+{"a": 2}\n' in details.diff
    assert (details.conflicting_files, details.target_branch) == ([], "refs/heads/main")
    bob.create_commit("ann/m", add(b"{}"), commit_message="again", revision="refs/pr/1")
    assert repo.read(CONFIG, "refs/pr/1") == b"{}"
    with pytest.raises(HfHubHTTPError):
        bob.merge_pull_request("ann/m", 1)
    ann.merge_pull_request("ann/m", 1)
    assert repo.read(CONFIG) == b"{}"
    assert bob.get_discussion_details("ann/m", 1).merge_commit_oid == repo.head.name
    with pytest.raises(HfHubHTTPError):
        bob.create_commit("ann/m", add(b"[]"), commit_message="again", revision="refs/pr/1")


def test_a_pull_request_from_an_older_commit(hub: LoopbackHub, repo: Repo, ann: HfApi, bob: HfApi) -> None:
    base = repo.head.name
    hub.before_commit = Rival(1.0, path=CONFIG, edit=lambda content: b"{}")
    bob.create_commit("ann/m", add(b"[]"), commit_message="title", create_pr=True, parent_commit=base)
    hub.before_commit = None
    assert bob.get_discussion_details("ann/m", 1).conflicting_files == [CONFIG]
    with pytest.raises(HfHubHTTPError) as raised:
        ann.merge_pull_request("ann/m", 1)
    assert status_of(raised) == 409


def test_discussions_come_in_pages(repo: Repo, ann: HfApi, bob: HfApi) -> None:
    for number in range(13):
        bob.create_discussion("ann/m", f"title {number}")
    ann.create_pull_request("ann/m", "a draft", description="d")
    assert [item.num for item in bob.get_repo_discussions("ann/m")] == list(range(14, 0, -1))
    assert [item.status for item in bob.get_repo_discussions("ann/m", author="ann")] == ["draft"]
    bob.change_discussion_status("ann/m", 3, "closed", comment="no more")
    assert [item.num for item in bob.get_repo_discussions("ann/m", discussion_status="closed")] == [3]
    assert 3 not in {item.num for item in bob.get_repo_discussions("ann/m", discussion_status="open")}


def test_what_can_be_done_to_a_discussion(repo: Repo, ann: HfApi, bob: HfApi) -> None:
    comment = bob.create_discussion("ann/m", "title", description="d").events[0]
    assert bob.edit_discussion_comment("ann/m", 1, comment.id, "e").content == "e"
    with pytest.raises(HfHubHTTPError):
        ann.edit_discussion_comment("ann/m", 1, comment.id, "f")
    assert bob.rename_discussion("ann/m", 1, "another").new_title == "another"
    ann.comment_discussion("ann/m", 1, "well")
    details = ann.get_discussion_details("ann/m", 1)
    assert (details.title, [event.type for event in details.events]) == (
        "another",
        ["comment", "title-change", "comment"],
    )
    with pytest.raises(HfHubHTTPError):
        bob.get_discussion_details("ann/m", 2)
    with pytest.raises(BadRequestError):
        bob.create_discussion("ann/m", "x" * 201)


def test_a_repo_without_discussions(hub: LoopbackHub, ann: HfApi, bob: HfApi) -> None:
    hub.add_repo("ann/quiet", FILES, discussions_off=True)
    for call in (
        lambda: list(bob.get_repo_discussions("ann/quiet")),
        lambda: bob.create_discussion("ann/quiet", "title"),
    ):
        with pytest.raises(HfHubHTTPError) as raised:
            call()
        assert status_of(raised) == 403
    with pytest.raises(HfHubHTTPError):
        bob.create_commit("ann/quiet", add(b"{}"), commit_message="title", create_pr=True)


# --- faults --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["429", "500", "502", "reset", "lost", "500-after", "truncated"])
def test_a_fault_is_seen(hub: LoopbackHub, repo: Repo, ann: HfApi, kind: str) -> None:
    hub.faults = OneAfterAnother(kind, only="POST .*/commit/", retry_after=7)
    with pytest.raises(Exception) as raised:  # its class depends on the client
        ann.create_commit("ann/m", add(b"{}"), commit_message="change")
    assert hub.faults.happened == {kind: 1}
    response = getattr(raised.value, "response", None)
    expected = {"429": 429, "500": 500, "502": 502, "500-after": 500}.get(kind)
    assert (response.status_code if response is not None else None) == expected
    if kind == "429":
        assert response.headers["Retry-After"] == "7"
    carried_out = kind in {"lost", "500-after", "truncated"}
    assert repo.read(CONFIG) == (b"{}" if carried_out else FILES[CONFIG])
    ann.create_commit("ann/m", add(b"[]"), commit_message="change")
    assert repo.read(CONFIG) == b"[]"


def test_a_slow_request_is_carried_out(hub: LoopbackHub, repo: Repo, ann: HfApi) -> None:
    hub.faults = OneAfterAnother("slow", only="POST .*/commit/", delay=0.05)
    ann.create_commit("ann/m", add(b"{}"), commit_message="change")
    assert (repo.read(CONFIG), hub.faults.happened) == (b"{}", {"slow": 1})


# --- a process that knows only HF_ENDPOINT -------------------------------------------------------------------------


def run_python(code: str, hub: LoopbackHub, token: str | None, home: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env=hub.environment(token, home), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_endpoint_and_the_login_come_from_the_environment(hub: LoopbackHub, repo: Repo, tmp_path: Path) -> None:
    code = "from huggingface_hub import HfApi; api = HfApi(); print(api.whoami()['name'], api.model_info('ann/m').sha)"
    assert run_python(code, hub, hub.add_user("bob"), tmp_path).split() == ["bob", repo.head.name]
