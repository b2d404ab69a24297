"""What the Hub says comes out as one kind of error that says what it means; what passes is tried again."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from hub_helpers import CONFIG, CONFIG_BYTES, Waits, log_in, no_waiting, writes
from loopback_hub import LoopbackHub, OneAfterAnother, Rival
from response_templates import remote
from response_templates.errors import CheckpointError, UnsettledError
from response_templates.remote import Repo, Snapshot

pytestmark = pytest.mark.skipif(constants.HF_HUB_OFFLINE, reason="the client is set to offline")

SOURCES = str(Path(remote.__file__).parent.parent)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LoopbackHub]:
    """With the repository `ann/m`; ann is logged in."""
    with LoopbackHub() as server:
        server.add_repo("ann/m", {CONFIG: CONFIG_BYTES, "model.safetensors": b"\0" * 100})
        log_in(monkeypatch, tmp_path / "home", server.add_user("ann"))
        yield server


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    return no_waiting(monkeypatch)


def commit(snapshot: Snapshot, *, create_pr: bool = False) -> str | None:
    return snapshot.repo.commit(snapshot, b"{}", "Title", "Text", create_pr=create_pr)


# --- what there is -------------------------------------------------------------------------------------------------


def test_a_snapshot_stays_at_its_commit(hub: LoopbackHub) -> None:
    snapshot = Repo("ann/m").snapshot()
    Rival(1.0, path=CONFIG)(hub.repos["ann/m"])
    assert (snapshot.commit, snapshot.name) != (hub.repos["ann/m"].head.name, "")
    assert snapshot.files == {CONFIG, "model.safetensors"}
    assert snapshot.read(CONFIG) == CONFIG_BYTES
    assert snapshot.read("chat_template.jinja") is None
    assert Repo("ann/m").snapshot().read(CONFIG) != CONFIG_BYTES


def test_a_renamed_repository_has_its_new_name(hub: LoopbackHub) -> None:
    hub.rename("ann/m", "ann/new")
    snapshot = Repo("ann/m").snapshot()
    assert snapshot.name == "ann/new"
    assert snapshot.read(CONFIG) == CONFIG_BYTES


def test_the_user_is_asked_for_once(hub: LoopbackHub) -> None:
    assert [Repo("ann/m").user() for _ in range(3)] == ["ann"] * 3
    assert [entry.path for entry in hub.log].count("/api/whoami-v2") == 1


def test_only_ones_own_pull_requests_are_seen_oldest_first(hub: LoopbackHub) -> None:
    snapshot, ann = Repo("ann/m").snapshot(), Repo("ann/m")
    other = Repo("ann/m", token=hub.add_user("bob"))
    for repo in (ann, other, ann):
        repo.commit(snapshot, b"{}", "Title", "Text", create_pr=True)
    hub.repos["ann/m"].open_discussion(author="ann", title="Hello", body="no pull request")
    assert [(each.number, each.ref, each.is_open) for each in ann.proposals("ann/m", "ann")] == [
        (1, "refs/pr/1", True),
        (3, "refs/pr/3", True),
    ]
    ann.close("ann/m", 1, "Enough.")
    assert [each.status for each in ann.proposals("ann/m", "ann")] == ["closed", "open"]


def test_a_description_is_changed_only_where_it_differs(hub: LoopbackHub) -> None:
    repo = Repo("ann/m")
    commit(repo.snapshot(), create_pr=True)
    (proposal,) = repo.proposals("ann/m", "ann")
    assert repo.opening("ann/m", 1).text == "Text"
    repo.describe("ann/m", proposal, "New title", "New text")
    (proposal,) = repo.proposals("ann/m", "ann")
    assert (proposal.title, repo.opening("ann/m", 1).text) == ("New title", "New text")
    before = writes(hub)
    repo.describe("ann/m", proposal, "New title", "New text")
    assert writes(hub) == before


def test_messages_of_commits(hub: LoopbackHub) -> None:
    commit(Repo("ann/m").snapshot())
    messages = list(Repo("ann/m").messages("ann/m", "main"))
    assert messages[0] == "Title\nText"
    assert "initial commit" in messages[1]


# --- a commit ------------------------------------------------------------------------------------------------------


def test_a_commit_on_another_state_is_not_made(hub: LoopbackHub) -> None:
    snapshot = Repo("ann/m").snapshot()
    Rival(1.0)(hub.repos["ann/m"])
    with pytest.raises(UnsettledError, match="somebody else changed ann/m"):
        commit(snapshot)
    assert hub.repos["ann/m"].read(CONFIG) == CONFIG_BYTES


@pytest.mark.parametrize("fault", ["lost", "500-after", "truncated", "reset", "500", "429"])
def test_a_commit_whose_answer_fails_is_not_sent_again(hub: LoopbackHub, fault: str) -> None:
    snapshot = Repo("ann/m").snapshot()
    hub.faults = OneAfterAnother(*[fault] * 20, only="POST .*/commit/")
    with pytest.raises(UnsettledError) as caught:
        commit(snapshot)
    assert caught.value.transient
    done = len(hub.repos["ann/m"].history(hub.repos["ann/m"].head)) - 1
    assert done == (1 if fault in ("lost", "500-after", "truncated") else 0)


def test_a_commit_says_where_its_pull_request_is(hub: LoopbackHub) -> None:
    assert commit(Repo("ann/m").snapshot(), create_pr=True) == f"{hub.url}/ann/m/discussions/1"
    assert commit(Repo("ann/m").snapshot()) is None


# --- what is tried again -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["429", "500", "502", "reset", "truncated", "lost"])
def test_what_passes_is_tried_again(hub: LoopbackHub, fault: str) -> None:
    hub.faults = OneAfterAnother(fault, fault)
    assert Repo("ann/m").snapshot().read(CONFIG) == CONFIG_BYTES


def test_a_rate_limit_says_how_long(hub: LoopbackHub, waits: Waits) -> None:
    hub.faults = OneAfterAnother("429", only="GET /api/models", retry_after=7)
    Repo("ann/m").snapshot()
    assert waits.asked == [7.0]


@pytest.mark.parametrize(
    ("fault", "what"), [("429", "rate limit.*7 seconds"), ("502", "status 502"), ("reset", "connection .* failed")]
)
def test_what_does_not_pass_fails_in_the_end(hub: LoopbackHub, waits: Waits, fault: str, what: str) -> None:
    hub.faults = OneAfterAnother(*[fault] * 99, only="GET /api/models", retry_after=7)
    with pytest.raises(CheckpointError, match=what) as caught:
        Repo("ann/m").snapshot()
    assert caught.value.transient
    assert caught.value.retry_after == (7 if fault == "429" else None)
    assert len(waits.asked) == remote.PATIENCE.attempts - 1


# --- what is refused -----------------------------------------------------------------------------------------------


def _gated(hub: LoopbackHub) -> Any:
    hub.add_repo("eve/gated", {CONFIG: b"{}"}, gated=True)
    return Repo("eve/gated").snapshot().read(CONFIG)


def _private(hub: LoopbackHub) -> Any:
    hub.add_repo("eve/private", private=True)
    return Repo("eve/private").snapshot()


def _disabled(hub: LoopbackHub) -> Any:
    hub.add_repo("eve/disabled", disabled=True)
    return Repo("eve/disabled").snapshot()


def _not_mine(hub: LoopbackHub) -> Any:
    hub.add_repo("eve/m", {CONFIG: CONFIG_BYTES})
    return commit(Repo("eve/m").snapshot())


def _read_only(hub: LoopbackHub) -> Any:
    return commit(Repo("ann/m", token=hub.add_user("ann", role="read")).snapshot())


def _no_discussions(hub: LoopbackHub) -> Any:
    hub.add_repo("eve/quiet", {CONFIG: CONFIG_BYTES}, discussions_off=True)
    return commit(Repo("eve/quiet").snapshot(), create_pr=True)


REFUSALS: dict[str, tuple[Callable[[LoopbackHub], Any], str]] = {
    "gated": (_gated, "eve/gated is gated"),
    "private": (_private, "no repository eve/private, or this login may not see it"),
    "disabled": (_disabled, "disabled"),
    "not one's own": (_not_mine, "may not do that on eve/m"),
    "a token that only reads": (_read_only, "may not do that on ann/m"),
    "no discussions": (_no_discussions, "Discussions are disabled"),
    "no repository": (lambda hub: Repo("ann/none").snapshot(), "no repository ann/none"),
    "no revision": (lambda hub: Repo("ann/m", "v9").snapshot(), "no such revision"),
    "no login": (lambda hub: Repo("ann/m", token=False).user(), "nobody is logged in"),
    "an unknown login": (lambda hub: Repo("ann/m", token="hf_" + "x" * 30).snapshot(), "hf auth login"),
    "no id of a repository": (lambda hub: Repo("a/b/c/d").snapshot(), "neither a folder nor the id"),
}


@pytest.mark.parametrize(("ask", "what"), REFUSALS.values(), ids=REFUSALS)
def test_what_is_refused_is_said_plainly_and_not_tried_again(
    hub: LoopbackHub, waits: Waits, ask: Callable[[LoopbackHub], Any], what: str
) -> None:
    with pytest.raises(CheckpointError, match=re.escape(what)) as caught:
        ask(hub)
    assert not caught.value.transient
    assert waits.asked == []


def test_the_offline_mode_is_named(hub: LoopbackHub, tmp_path: Path) -> None:
    """In a process of its own, since the client reads the variable when it is imported."""
    environment = {**hub.environment(None, tmp_path / "offline"), "HF_HUB_OFFLINE": "1", "PYTHONPATH": SOURCES}
    code = "from response_templates.hub import install_template; print(install_template('ann/m', 'qwen3'))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "ann/m: failed: the Hub's offline mode is on (HF_HUB_OFFLINE)\n"


def test_no_error_and_no_repr_has_the_token(hub: LoopbackHub) -> None:
    token = hub.add_user("bob")
    repo = Repo("ann/m", token=token)
    assert token not in repr(repo)
    snapshot = repo.snapshot()
    hub.users.clear()
    for call in (repo.user, repo.snapshot, lambda: commit(snapshot)):
        with contextlib.suppress(UnsettledError), pytest.raises(CheckpointError) as caught:
            call()
        assert token not in f"{caught.value!r} {caught.value.__cause__!r}"


def test_what_is_no_error_of_the_client_is_not_hidden(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", broken)
    with pytest.raises(ZeroDivisionError):
        Repo("ann/m").snapshot()
