"""A template is put onto a checkpoint, in a folder or on the Hub: once, as it should be, and nothing else changes."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from huggingface_hub import constants
from hypothesis import HealthCheck, given, settings
from transformers import AutoTokenizer

import plugin_helpers
import response_templates
from hub_helpers import (
    CHAT_TEMPLATE,
    CONFIG,
    CONFIG_BYTES,
    KEY,
    OLDER,
    TEMPLATE,
    WRONG,
    Waits,
    log_in,
    no_waiting,
    writes,
    written,
)
from hub_repos import Blob, Repo
from json_files import FILES
from loopback_hub import LoopbackHub, OneAfterAnother, Rival
from response_templates import TemplateError, UnknownTemplateError, get_template
from response_templates import hub as hub_module
from response_templates.errors import CheckpointError, ConfigError, InputTypeError, InstallError
from response_templates.hub import Result, install_template, read_template, remove_template
from response_templates.json_edit import with_member
from response_templates.proposals import marks_in

pytestmark = pytest.mark.skipif(constants.HF_HUB_OFFLINE, reason="the client is set to offline")

INSTALLED_BYTES = with_member(CONFIG_BYTES, KEY, written(TEMPLATE))
ANOTHERS = with_member(CONFIG_BYTES, "somebody", "else's")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LoopbackHub]:
    """ann is logged in."""
    with LoopbackHub() as server:
        log_in(monkeypatch, tmp_path / "home", server.add_user("ann"))
        yield server


@pytest.fixture
def repo(hub: LoopbackHub) -> Repo:
    """Somebody else's: ann can only propose."""
    return hub.add_repo("eve/m", {CONFIG: CONFIG_BYTES, "model.safetensors": b"\0" * 100, "tokenizer.json": b"{}"})


@pytest.fixture
def own(hub: LoopbackHub) -> Repo:
    return hub.add_repo("ann/m", {CONFIG: CONFIG_BYTES})


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    return no_waiting(monkeypatch)


def install(target: Any = "eve/m", template: Any = TEMPLATE, **options: Any) -> Result:
    """Not verified, which takes a process; that is for the tests that are about it."""
    return install_template(target, template, **{"verify": False, **options})


def only_request(repo: Repo) -> Any:
    (found,) = repo.pull_requests(only_open=True)
    return found


# --- a pull request ------------------------------------------------------------------------------------------------


def test_a_pull_request_changes_the_one_member_and_says_what_it_is(hub: LoopbackHub, repo: Repo) -> None:
    result = install_template("eve/m", TEMPLATE)
    request = only_request(repo)
    assert (result.status, result.ok, result.pr_url) == ("proposed", True, f"{hub.url}/eve/m/discussions/1")
    assert repo.read(CONFIG) == CONFIG_BYTES
    assert repo.changes(request).keys() == {CONFIG}
    assert repo.read(CONFIG, request.ref) == INSTALLED_BYTES
    text = request.events[0]["data"]["latest"]["raw"]
    assert request.title == "Add a response template (custom)"
    assert result.report is not None
    assert result.report.table() in text
    assert result.report.ok
    assert len(marks_in(text)) == 1


def test_only_small_files_are_fetched(hub: LoopbackHub, repo: Repo) -> None:
    install("eve/m", None)
    resolved = {entry.path.rsplit("/", 1)[-1] for entry in hub.log if "/resolve" in entry.path}
    assert resolved == {CONFIG}


def test_the_diff_is_the_added_lines(hub: LoopbackHub, repo: Repo) -> None:
    lines = install("eve/m", dry_run=True).diff.splitlines()
    assert [line for line in lines if line.startswith("-")] == [f"--- a/{CONFIG}"]
    assert sum(line.startswith("+") for line in lines) > 10
    assert "\\ No newline at end of file" in lines


def test_done_twice_is_done_once(hub: LoopbackHub, repo: Repo) -> None:
    first = install()
    before = writes(hub)
    again = install()
    assert (again.status, again.pr_url) == ("unchanged", first.pr_url)
    assert writes(hub) == before


def test_an_older_pull_request_of_ours_is_updated_in_place(hub: LoopbackHub, repo: Repo) -> None:
    install("eve/m", OLDER)
    request = only_request(repo)
    repo.commit({"README.md": Blob(b"thanks")}, author="eve", title="And a word", ref=request.ref)
    result = install()
    assert (result.status, only_request(repo).number) == ("updated", request.number)
    assert repo.read(CONFIG, request.ref) == INSTALLED_BYTES
    assert repo.read("README.md", request.ref) == b"thanks"
    assert [mark.digest for mark in marks_in(request.events[0]["data"]["latest"]["raw"])] == [
        mark.digest for mark in marks_in(repo.resolve(request.ref).body)
    ]
    assert install().status == "unchanged"


def test_a_pull_request_of_somebody_else_is_left(hub: LoopbackHub, repo: Repo) -> None:
    body = "Edited by hand."
    changes = {CONFIG: Blob(INSTALLED_BYTES)}
    others, _ = repo.open_pull_request(changes, author="bob", title="Add a response template (custom)", body=body)
    mine, _ = repo.open_pull_request(changes, author="ann", title="My response template", body=body)  # by hand, too
    assert install().status == "proposed"
    assert [each.number for each in repo.pull_requests(only_open=True)] == [others.number, mine.number, 3]


def test_a_pull_request_of_ours_that_was_closed_is_not_opened_again(hub: LoopbackHub, repo: Repo) -> None:
    install()
    repo.set_status(only_request(repo), "eve", "closed")
    before = writes(hub)
    result = install()
    assert (result.status, result.pr_url) == ("refused", f"{hub.url}/eve/m/discussions/1")
    assert "force" in result.detail
    assert writes(hub) == before
    assert install(force=True).status == "proposed"
    assert only_request(repo).number == 2


def test_a_pull_request_that_cannot_be_merged_any_more_is_replaced(hub: LoopbackHub, repo: Repo) -> None:
    install()
    repo.commit({CONFIG: Blob(ANOTHERS)}, author="eve", title="A change")
    assert install(dry_run=True).status == "proposed"
    assert install().status == "proposed"
    assert only_request(repo).number == 2
    assert repo.conflicts(only_request(repo)) == []
    assert repo.read(CONFIG, "refs/pr/2") == with_member(ANOTHERS, KEY, written(TEMPLATE))
    assert install().status == "unchanged"


def test_what_was_merged_is_ours_and_may_be_updated(hub: LoopbackHub, repo: Repo) -> None:
    install("eve/m", get_template("qwen3").template)
    repo.merge(only_request(repo), "eve")
    assert install("eve/m", "qwen3").status == "unchanged"
    result = install()
    assert result.status == "proposed"
    assert only_request(repo).title == "Update the response template (custom)"


def test_to_remove_can_be_proposed_too(hub: LoopbackHub, repo: Repo) -> None:
    assert remove_template("eve/m").status == "unchanged"
    repo.commit({CONFIG: Blob(INSTALLED_BYTES)}, author="eve", title="By hand")
    assert remove_template("eve/m").status == "proposed"
    assert repo.read(CONFIG, only_request(repo).ref) == CONFIG_BYTES
    assert remove_template("eve/m").status == "unchanged"


# --- a commit ------------------------------------------------------------------------------------------------------


def test_a_commit_and_back(hub: LoopbackHub, own: Repo) -> None:
    result = install("ann/m", create_pr=False)
    assert (result.status, result.pr_url) == ("installed", None)
    assert own.read(CONFIG) == INSTALLED_BYTES
    assert read_template("ann/m") == written(TEMPLATE)
    assert len(own.history(own.head)) == 2
    assert install("ann/m", create_pr=False).status == "unchanged"
    assert remove_template("ann/m", create_pr=False).status == "removed"
    assert own.read(CONFIG) == CONFIG_BYTES
    assert read_template("ann/m") is None
    assert remove_template("ann/m", create_pr=False).status == "unchanged"
    assert not own.pull_requests()


def test_what_a_commit_of_ours_brought_is_updated(hub: LoopbackHub, own: Repo) -> None:
    install("ann/m", OLDER, create_pr=False)
    assert install("ann/m", create_pr=False).status == "updated"
    assert own.read(CONFIG) == INSTALLED_BYTES


def test_a_commit_can_go_onto_a_pull_request(hub: LoopbackHub, own: Repo) -> None:
    request, _ = own.open_pull_request({CONFIG: Blob(ANOTHERS)}, author="bob", title="A change", body="Hello.")
    assert install("ann/m", create_pr=False, revision=request.ref).status == "installed"
    assert own.read(CONFIG, request.ref) == with_member(ANOTHERS, KEY, written(TEMPLATE))
    assert own.read(CONFIG) == CONFIG_BYTES
    assert read_template("ann/m", revision=request.ref) == written(TEMPLATE)


def test_a_configuration_in_lfs(hub: LoopbackHub) -> None:
    attributes = b"*.json filter=lfs diff=lfs merge=lfs -text\n"
    repo = hub.add_repo("ann/lfs", {".gitattributes": attributes, CONFIG: CONFIG_BYTES})
    assert install("ann/lfs", create_pr=False).status == "installed"
    assert repo.read(CONFIG) == INSTALLED_BYTES
    assert repo.head.files[CONFIG].lfs


# --- somebody else's template --------------------------------------------------------------------------------------


@pytest.mark.parametrize("theirs", [OLDER, "no template at all", {"start_anchor": 1}])
def test_somebody_elses_template_is_left_unless_forced(hub: LoopbackHub, own: Repo, theirs: Any) -> None:
    before = with_member(CONFIG_BYTES, KEY, theirs)
    own.commit({CONFIG: Blob(before)}, author="ann", title="By hand")
    result = install("ann/m", create_pr=False)
    assert (result.status, own.read(CONFIG)) == ("refused", before)
    assert "force" in result.detail
    assert read_template("ann/m") == theirs
    assert install("ann/m", create_pr=False, force=True).status == "updated"
    assert read_template("ann/m") == written(TEMPLATE)


# --- a dry run -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("login", [True, False], ids=["logged in", "nobody"])
@pytest.mark.parametrize("create_pr", [True, False], ids=["request", "commit"])
def test_a_dry_run_says_what_would_be(
    hub: LoopbackHub, own: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, login: bool, create_pr: bool
) -> None:
    if not login:
        log_in(monkeypatch, tmp_path / "nobody", None)
    result = install("ann/m", create_pr=create_pr, dry_run=True)
    assert (result.status, result.dry_run, result.ok) == ("proposed" if create_pr else "installed", True, True)
    assert result.detail.startswith("would ")
    assert result.diff
    assert writes(hub) == []


def test_a_dry_run_knows_of_the_pull_requests(hub: LoopbackHub, repo: Repo) -> None:
    install("eve/m", OLDER)
    before = writes(hub)
    assert install(dry_run=True).detail.startswith("would update our pull request")
    assert install("eve/m", OLDER, dry_run=True).status == "unchanged"
    assert remove_template("eve/m", dry_run=True).status == "unchanged"
    assert writes(hub) == before


def test_without_a_login_nothing_is_proposed(
    hub: LoopbackHub, repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log_in(monkeypatch, tmp_path / "nobody", None)
    for result in (install(), install(create_pr=False)):
        assert result.status == "failed"
        assert "hf auth login" in result.detail


# --- the check -----------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_not_proposed_unless_forced(hub: LoopbackHub, repo: Repo) -> None:
    result = install_template("eve/m", WRONG)
    assert (result.status, repo.pull_requests()) == ("refused", [])
    assert "does not fit" in result.detail
    assert result.report is not None
    assert result.report.failures
    assert install_template("eve/m", WRONG, force=True).status == "proposed"
    text = only_request(repo).events[0]["data"]["latest"]["raw"]
    assert "Not all of it passed" in text


def test_what_was_not_verified_says_so(hub: LoopbackHub, repo: Repo) -> None:
    result = install_template("eve/m", WRONG, verify=False)
    assert (result.status, result.report) == ("proposed", None)
    assert "It was not verified" in only_request(repo).events[0]["data"]["latest"]["raw"]


def config_with(**members: Any) -> bytes:
    return json.dumps({"model_max_length": 8, **members}, indent=2).encode()


SOURCE = CHAT_TEMPLATE.encode()
PLACES: dict[str, Mapping[str, bytes]] = {
    "the configuration": {CONFIG: config_with(chat_template=CHAT_TEMPLATE)},
    "a list in the configuration": {
        CONFIG: config_with(chat_template=[{"name": "default", "template": CHAT_TEMPLATE}])
    },
    "chat_template.jinja": {CONFIG: config_with(chat_template="{{ old }}"), "chat_template.jinja": SOURCE},
    "additional_chat_templates": {CONFIG: config_with(), "additional_chat_templates/tool_use.jinja": SOURCE},
}


@pytest.mark.parametrize("files", PLACES.values(), ids=PLACES)
def test_the_chat_template_is_found_in_each_of_its_places(hub: LoopbackHub, files: Mapping[str, bytes]) -> None:
    hub.add_repo("ann/places", files)
    result = install_template("ann/places", None, create_pr=False)
    assert (result.status, result.template_name) == ("installed", "qwen3")
    assert result.report is not None
    assert result.report.ok


# --- others at the same time ---------------------------------------------------------------------------------------


def theirs_first(hub: LoopbackHub, content: bytes, times: int = 1) -> Rival:
    """Somebody else changes the configuration before our commit, so often."""
    left = iter(range(times))
    rival = Rival(1.0, path=CONFIG, edit=lambda old: content)

    def before(repo: Repo) -> None:
        if next(left, None) is not None:
            rival(repo)

    hub.before_commit = before
    return rival


def test_a_change_in_between_is_kept(hub: LoopbackHub, own: Repo) -> None:
    theirs_first(hub, ANOTHERS)
    assert install("ann/m", create_pr=False).status == "installed"
    assert own.read(CONFIG) == with_member(ANOTHERS, KEY, written(TEMPLATE))


def test_a_change_between_look_and_pull_request_leaves_one_that_can_be_merged(hub: LoopbackHub, repo: Repo) -> None:
    theirs_first(hub, ANOTHERS)
    result = install()
    request = only_request(repo)
    assert (result.status, result.pr_url) == ("proposed", f"{hub.url}/eve/m/discussions/{request.number}")
    assert repo.conflicts(request) == []
    assert repo.read(CONFIG, request.ref) == with_member(ANOTHERS, KEY, written(TEMPLATE))


def test_a_change_in_between_that_damages_the_file_ends_it(hub: LoopbackHub, own: Repo) -> None:
    theirs_first(hub, b"{oops")
    result = install("ann/m", create_pr=False)
    assert (result.status, own.read(CONFIG)) == ("refused", b"{oops")
    assert "line 1" in result.detail


def test_the_template_of_somebody_faster_is_left(hub: LoopbackHub, own: Repo) -> None:
    theirs_first(hub, with_member(CONFIG_BYTES, KEY, OLDER))
    assert install("ann/m", create_pr=False).status == "refused"
    assert read_template("ann/m") == OLDER


def test_who_is_always_faster_wins(hub: LoopbackHub, own: Repo, waits: Waits) -> None:
    hub.before_commit = Rival(1.0)
    result = install("ann/m", create_pr=False)
    assert (result.status, result.transient, own.read(CONFIG)) == ("failed", True, CONFIG_BYTES)
    assert len(waits.asked) == 3


@pytest.mark.parametrize("fault", ["lost", "500-after", "truncated", "reset", "429", "502"])
@pytest.mark.parametrize("create_pr", [True, False], ids=["request", "commit"])
def test_an_answer_that_is_lost_makes_nothing_twice(hub: LoopbackHub, own: Repo, fault: str, create_pr: bool) -> None:
    hub.faults = OneAfterAnother(fault, only="POST .*/commit/")
    result = install("ann/m", create_pr=create_pr)
    assert result.status == ("proposed" if create_pr else "installed")
    assert len(own.pull_requests()) == create_pr
    assert own.read(CONFIG, only_request(own).ref if create_pr else "main") == INSTALLED_BYTES
    assert len(own.history(own.head)) == (1 if create_pr else 2)


class Later(OneAfterAnother):
    """The fault comes to the request with this number."""

    def __init__(self, number: int, fault: str) -> None:
        super().__init__(fault)
        self.number = number

    def draw(self, method: str, path: str) -> str:
        self.number -= 1
        return super().draw(method, path) if self.number < 0 else ""


def test_each_answer_may_be_lost_once(hub: LoopbackHub, repo: Repo) -> None:
    install("eve/m", OLDER)
    plain = len(hub.log)
    install()
    for number in range(len(hub.log) - plain):
        repo.commit({CONFIG: Blob(CONFIG_BYTES)}, author="ann", title="Back", ref="refs/pr/1")
        wanted = TEMPLATE if number % 2 else OLDER
        hub.faults = Later(number, "lost")
        result = install("eve/m", wanted)
        hub.faults = None
        assert result.ok, (number, result)
        assert install("eve/m", wanted).status == "unchanged"
        assert read_template("eve/m", revision=only_request(repo).ref) == written(wanted)
        assert len(repo.pull_requests()) == 1


def meeting(size: int) -> Callable[[Repo], None]:
    """Nobody's first commit is looked at before everybody's has come."""
    barrier = threading.Barrier(size)

    def before(repo: Repo) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            barrier.wait(timeout=5)
            barrier.abort()

    return before


@pytest.mark.parametrize("create_pr", [True, False], ids=["request", "commit"])
def test_two_at_once_come_to_one(hub: LoopbackHub, own: Repo, create_pr: bool) -> None:
    hub.before_commit = meeting(2)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(install, "ann/m", create_pr=create_pr) for _ in range(2)]
    results = [run.result() for run in runs]
    assert all(result.ok for result in results)
    assert len(own.history(own.head)) == (1 if create_pr else 2)
    if create_pr:
        assert {result.pr_url for result in results} == {f"{hub.url}/ann/m/discussions/{only_request(own).number}"}
        assert own.read(CONFIG, only_request(own).ref) == INSTALLED_BYTES
    else:
        assert own.read(CONFIG) == INSTALLED_BYTES


# --- in transformers -----------------------------------------------------------------------------------------------


@pytest.fixture
def model(hub: LoopbackHub, tmp_path: Path) -> Iterator[Repo]:
    """A repository with a whole tokenizer; the plugin is installed."""
    plugin_helpers.byte_level(chat_template=CHAT_TEMPLATE).save_pretrained(tmp_path / "model")
    response_templates.install()
    yield hub.add_repo("ann/model", {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()})
    response_templates.uninstall()


MESSAGE = {
    "role": "assistant",
    "reasoning_content": "They ask for the weather.",
    "tool_calls": [{"type": "function", "function": {"name": "weather", "arguments": {"city": "Lima"}}}],
}


@pytest.mark.parametrize("create_pr", [True, False], ids=["request", "commit"])
def test_transformers_loads_what_was_pushed(hub: LoopbackHub, model: Repo, tmp_path: Path, create_pr: bool) -> None:
    result = install_template("ann/model", "qwen3", create_pr=create_pr)
    assert result.ok
    assert result.report is not None
    assert {check.name: check.status for check in result.report.checks}["ids"] == "passed"
    revision = only_request(model).ref if create_pr else "main"
    tokenizer = AutoTokenizer.from_pretrained("ann/model", revision=revision, cache_dir=tmp_path / "cache")
    assert tokenizer.response_template == get_template("qwen3").template.to_dict()
    chat = [{"role": "user", "content": "Weather?"}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    whole = tokenizer.apply_chat_template([*chat, MESSAGE], tokenize=False)
    assert tokenizer.parse_response(whole.removeprefix(prompt), prefix=prompt) == MESSAGE


def test_it_is_what_save_pretrained_writes(hub: LoopbackHub, model: Repo, tmp_path: Path) -> None:
    install("ann/model", create_pr=False)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    tokenizer.response_template = TEMPLATE
    tokenizer.save_pretrained(tmp_path / "saved")
    assert read_template(tmp_path / "saved") == read_template("ann/model")


# --- what cannot be done -------------------------------------------------------------------------------------------


def _files(hub: LoopbackHub, files: Mapping[str, bytes], **kind: Any) -> str:
    hub.add_repo("eve/x", files, **kind)
    return "eve/x"


REASONS: dict[str, tuple[Callable[[LoopbackHub], str], str, str]] = {
    "gated": (lambda hub: _files(hub, {CONFIG: b"{}"}, gated=True), "failed", "gated"),
    "disabled": (lambda hub: _files(hub, {CONFIG: b"{}"}, disabled=True), "failed", "disabled"),
    "private": (lambda hub: _files(hub, {CONFIG: b"{}"}, private=True), "failed", "no repository eve/x"),
    "no discussions": (lambda hub: _files(hub, {CONFIG: b"{}"}, discussions_off=True), "failed", "Discussions are dis"),
    "not there": (lambda hub: "eve/none", "failed", "no repository eve/none"),
    "no id": (lambda hub: "a/b/c", "failed", "neither a folder nor the id"),
    "no tokenizer": (lambda hub: _files(hub, {"README.md": b"hi"}), "refused", f"no {CONFIG}"),
    "not JSON": (lambda hub: _files(hub, {CONFIG: b"{'a': 1}"}), "refused", "line 1, column 2"),
    "a list": (lambda hub: _files(hub, {CONFIG: b"[]"}), "refused", "not a JSON object"),
}


@pytest.mark.parametrize(("make", "status", "what"), REASONS.values(), ids=REASONS)
def test_what_cannot_be_done_is_a_result_that_says_why(
    hub: LoopbackHub, make: Callable[[LoopbackHub], str], status: str, what: str
) -> None:
    target = make(hub)
    result = install(target)
    assert (result.target, result.status, result.ok) == (target, status, False)
    assert what in result.detail
    assert writes(hub) == []
    with pytest.raises(InstallError, match=target) as caught:
        result.raise_for_status()
    assert caught.value.result is result
    if what != "Discussions are dis":
        with pytest.raises((CheckpointError, ConfigError)):
            read_template(target)


def test_a_renamed_repository_is_followed_and_named(hub: LoopbackHub, repo: Repo) -> None:
    hub.rename("eve/m", "eve/new")
    result = install("eve/m")
    assert (result.target, result.status, result.pr_url) == ("eve/m", "proposed", f"{hub.url}/eve/new/discussions/1")
    assert "eve/new" in result.detail
    assert install("eve/m").status == "unchanged"


def test_a_rate_limit_that_stays_is_told_with_its_time(hub: LoopbackHub, repo: Repo) -> None:
    hub.faults = OneAfterAnother(*["429"] * 99, retry_after=9)
    result = install()
    assert (result.status, result.transient, result.retry_after) == ("failed", True, 9)


def test_a_result_as_data(hub: LoopbackHub, repo: Repo) -> None:
    result = install_template("eve/m", TEMPLATE)
    data = json.loads(json.dumps(result.to_dict()))
    assert {key: data[key] for key in ("target", "status", "template", "dry_run")} == {
        "target": "eve/m",
        "status": "proposed",
        "template": "custom",
        "dry_run": False,
    }
    assert data["report"]["ok"] is True
    assert str(result) == f"eve/m: proposed: {result.detail}"
    assert result.raise_for_status() is result


def test_the_token_is_in_nothing_that_is_sent_or_told(hub: LoopbackHub, repo: Repo) -> None:
    token = hub.add_user("bob")
    told = [install("eve/m", token=token), install("eve/m", token=token), install("eve/none", token=token)]
    assert token not in repr(told)
    assert token not in repr([each.events for each in repo.pull_requests()])
    assert token not in repr([(each.title, each.body) for each in repo.commits.values()])


WRONG_ARGUMENTS: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
    "target": (lambda: install(7), InputTypeError),
    "target to remove": (lambda: remove_template(None), InputTypeError),  # type: ignore[arg-type]
    "target to read": (lambda: read_template(b"eve/m"), InputTypeError),  # type: ignore[arg-type]
    "token": (lambda: install("eve/m", token="hf_secret\n"), InputTypeError),
    "name": (lambda: install("eve/m", "no-such-family"), UnknownTemplateError),
    "template": (lambda: install("eve/m", {"fields": {}}), TemplateError),
}


@pytest.mark.parametrize(("call", "error"), WRONG_ARGUMENTS.values(), ids=WRONG_ARGUMENTS)
def test_wrong_arguments_raise(call: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        call()
    assert "hf_secret" not in str(caught.value)


# --- a folder ------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint"
    path.mkdir()
    (path / CONFIG).write_bytes(CONFIG_BYTES)
    return path


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES)
def test_any_file_comes_back_byte_for_byte(folder: Path, data: bytes) -> None:
    (folder / CONFIG).write_bytes(data)
    assert install(folder).status == "installed"
    assert read_template(folder) == written(TEMPLATE)
    assert install(folder).status == "unchanged"
    assert remove_template(folder).status == "removed"
    assert (folder / CONFIG).read_bytes() == data


@pytest.mark.parametrize("kind", [str, Path])
def test_a_folder_and_back(folder: Path, kind: Any) -> None:
    result = install_template(kind(folder), TEMPLATE)
    assert (result.status, (folder / CONFIG).read_bytes()) == ("installed", INSTALLED_BYTES)
    assert result.report is not None
    assert read_template(kind(folder)) == written(TEMPLATE)
    assert install(kind(folder)).status == "unchanged"
    assert remove_template(kind(folder)).status == "removed"
    assert (folder / CONFIG).read_bytes() == CONFIG_BYTES
    assert remove_template(kind(folder)).status == "unchanged"
    assert sorted(path.name for path in folder.iterdir()) == [CONFIG]


def test_a_template_by_name_and_by_file(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(TEMPLATE), encoding="utf-8")
    result = install(folder, path)
    assert (result.template_name, read_template(folder)) == ("mine.json", written(TEMPLATE))
    assert install(folder, "qwen3", force=True).status == "updated"
    assert read_template(folder) == get_template("qwen3").template.to_dict()


def test_a_dry_run_writes_no_file(folder: Path) -> None:
    assert install(folder, dry_run=True).diff
    assert (folder / CONFIG).read_bytes() == CONFIG_BYTES


@pytest.mark.skipif(os.name != "posix", reason="links and permissions as POSIX has them")
def test_a_cache_of_links_is_not_written_through(folder: Path, tmp_path: Path) -> None:
    blob = (folder / CONFIG).rename(tmp_path / "blob")
    blob.chmod(0o640)
    (folder / CONFIG).symlink_to(blob)
    assert install(folder).status == "installed"
    assert (blob.read_bytes(), (folder / CONFIG).read_bytes()) == (CONFIG_BYTES, INSTALLED_BYTES)
    assert stat.S_IMODE((folder / CONFIG).stat().st_mode) == 0o640


def test_a_file_that_changes_meanwhile_is_not_overwritten(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def applied(goal: Any, config: bytes) -> bytes:
        (folder / CONFIG).write_bytes(ANOTHERS)
        return with_member(config, KEY, goal.value)

    monkeypatch.setattr(hub_module.Goal, "applied", applied)
    result = install(folder)
    assert (result.status, result.transient, (folder / CONFIG).read_bytes()) == ("failed", True, ANOTHERS)


def test_a_disk_that_is_full_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("response_templates.local.os.fsync", full)
    result = install(folder)
    assert (result.status, (folder / CONFIG).read_bytes()) == ("failed", CONFIG_BYTES)
    assert "No space left" in result.detail


def test_a_folder_that_may_not_be_read_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", denied)
    monkeypatch.setattr(Path, "iterdir", denied)
    result = install(folder)
    assert (result.status, "Permission denied" in result.detail) == ("failed", True)


def test_a_full_disk_under_the_cache_is_told(hub: LoopbackHub, own: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("huggingface_hub.HfApi.hf_hub_download", full)
    result = install("ann/m")
    assert (result.status, result.detail) == ("failed", "cannot read ann/m: No space left on device")


def test_folders_without_a_tokenizer_or_not_there(tmp_path: Path) -> None:
    assert install(tmp_path).status == "refused"
    assert install(tmp_path / "none").status == "failed"
    assert "no folder" in install(tmp_path / "none").detail
