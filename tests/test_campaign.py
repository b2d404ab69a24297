"""A campaign without a Hub: which repos, what is retried, the state file, several runs at once.

What installs is a function of the test; the whole way through the loopback Hub is in `test_push_command.py`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from response_templates import campaign, list_templates
from response_templates.campaign import Campaign, Outcome, Patience, State, is_transient, retry_after
from response_templates.errors import CampaignError, UnknownTemplateError

SETTINGS = {"endpoint": "http://hub", "how": "pull request"}


@dataclass
class Result:
    """What an install says."""

    status: str = "proposed"
    template_name: str | None = "qwen3"
    detail: str = ""
    pr_url: str | None = "http://hub/a/b/discussions/1"
    diff: str = "+x"
    transient: bool = False
    retry_after: float | None = None


class Response:
    def __init__(self, status: int, **headers: str) -> None:
        self.status_code = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class HTTPFailure(Exception):
    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"status {status}")
        self.response = Response(status, **headers)


class Scripted:
    """An install that answers each repo's tries in turn (an exception is raised), the last one ever after."""

    def __init__(self, **answers: list[Any]) -> None:
        self.calls: list[str] = []
        self._answers = answers
        self._lock = threading.Lock()

    def __call__(self, repo: str) -> Result:
        with self._lock:
            self.calls.append(repo)
            answers = self._answers.get(repo, [Result()])
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Waits(list[float]):
    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., list[Outcome]]]:
    def work(install: Callable[[str], Any], repos: list[str], **options: Any) -> list[Outcome]:
        options.setdefault("patience", Patience(sleep=Waits()))
        options.setdefault("jobs", 1)
        return list(Campaign(install, locks=tmp_path / "locks", **options).run(repos))

    return work


# --- which repos ---------------------------------------------------------------------------------------------------


def test_a_list_of_repos_is_read(tmp_path: Path) -> None:
    path = tmp_path / "repos.txt"
    path.write_bytes("\ufeff# all of ours\r\na/b\r\n\r\n  c/d   # the old one\nA/B\n".encode())
    assert campaign.unique(campaign.repos_in_file(path)) == ["a/b", "c/d"]
    with pytest.raises(CampaignError, match="none"):
        campaign.repos_in_file(tmp_path / "none")


def test_the_registry_lists_repos() -> None:
    qwen = campaign.repos_of_registry("qwen3")
    assert "Qwen/Qwen3-8B" in qwen
    assert set(qwen) < set(campaign.repos_of_registry("all"))
    with pytest.raises(UnknownTemplateError):
        campaign.repos_of_registry("qwen33")


def test_every_repo_of_the_registry_is_a_name_on_the_hub() -> None:
    from huggingface_hub.utils import validate_repo_id

    for name in list_templates():
        for repo in campaign.repos_of_registry(name):
            validate_repo_id(repo)


# --- what is retried -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (HTTPFailure(429), True),
        (HTTPFailure(408), True),
        (HTTPFailure(500), True),
        (HTTPFailure(503), True),
        (HTTPFailure(400), False),
        (HTTPFailure(401), False),
        (HTTPFailure(403), False),
        (HTTPFailure(404), False),
        (HTTPFailure(412), False),
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (json.JSONDecodeError("cut off", "{", 1), True),
        (ValueError("a bad name"), False),
        (FileNotFoundError(), False),
        (KeyError("x"), False),
    ],
)
def test_what_passes(error: Exception, expected: bool) -> None:
    assert is_transient(error) is expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"Retry_After": "7"}, 7),
        ({"Retry_After": "0"}, 0),
        ({"Retry_After": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"RateLimit": '"api";r=0;t=55'}, 55),
        ({"RateLimit": '"api";r=3;t=55'}, None),
        ({"RateLimit": '"api";r=0;t=55', "Retry_After": "4"}, 4),
    ],
)
def test_what_the_server_asks_for(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after(HTTPFailure(429, **headers)) == expected


def test_a_wait_doubles_and_is_as_long_as_asked(run: Callable[..., list[Outcome]]) -> None:
    waits = Waits()
    patience = Patience(attempts=5, first=2.0, longest=100.0, sleep=waits)
    failures = [
        HTTPFailure(500),
        HTTPFailure(429, Retry_After="60"),
        HTTPFailure(502),
        HTTPFailure(429, Retry_After="900"),
    ]
    (outcome,) = run(Scripted(a=[*failures, Result()]), ["a"], patience=patience)
    assert (outcome.status, outcome.attempts) == ("proposed", 5)
    assert 1 <= waits[0] <= 2
    assert waits[1] == 60
    assert 4 <= waits[2] <= 8
    assert waits[3] == 100


def test_retries_come_to_an_end(run: Callable[..., list[Outcome]]) -> None:
    install = Scripted(a=[HTTPFailure(500)], b=[Result("failed", transient=True)])
    outcomes = run(install, ["a", "b"], patience=Patience(attempts=3, sleep=Waits()))
    assert [(item.status, item.transient, item.attempts) for item in outcomes] == [("failed", True, 3)] * 2
    assert install.calls == ["a"] * 3 + ["b"] * 3


def test_what_does_not_pass_is_not_retried_and_the_rest_goes_on(run: Callable[..., list[Outcome]]) -> None:
    install = Scripted(a=[HTTPFailure(403)], b=[ValueError("odd")], c=[Result("refused", detail="no tokenizer")])
    outcomes = {item.repo: item for item in run(install, ["a", "b", "c", "d"])}
    assert {name: item.status for name, item in outcomes.items()} == {
        "a": "failed",
        "b": "failed",
        "c": "refused",
        "d": "proposed",
    }
    assert outcomes["b"].detail == "odd"
    assert sorted(install.calls) == ["a", "b", "c", "d"]


def test_a_renamed_repo_is_done_under_its_name_of_today(run: Callable[..., list[Outcome]]) -> None:
    install = Scripted()
    outcomes = run(install, ["old", "new"], canonical=lambda repo: "new")
    assert install.calls == ["new", "new"]
    assert [(item.repo, item.renamed) for item in outcomes] == [("old", "new"), ("new", None)]


def test_who_cannot_say_the_name_leaves_it(run: Callable[..., list[Outcome]]) -> None:
    answers = iter([HTTPFailure(500), HTTPFailure(404)])

    def canonical(repo: str) -> str:
        raise next(answers)

    install = Scripted()
    (outcome,) = run(install, ["a"], canonical=canonical)
    assert (install.calls, outcome.attempts) == (["a"], 2)


# --- several at once -----------------------------------------------------------------------------------------------


def test_jobs_run_at_the_same_time(run: Callable[..., list[Outcome]]) -> None:
    together = threading.Barrier(3, timeout=30)

    def install(repo: str) -> Result:
        together.wait()
        return Result()

    assert len(run(install, ["a", "b", "c"], jobs=3)) == 3


def test_runs_take_turns_at_a_repo(tmp_path: Path) -> None:
    inside, most = [0], [0]
    lock = threading.Lock()

    def install(repo: str) -> Result:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        threading.Event().wait(0.02)
        with lock:
            inside[0] -= 1
        return Result()

    def work() -> None:
        list(Campaign(install, locks=tmp_path, jobs=2).run(["a/b", "A/B"]))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_a_stop_finishes_what_is_begun(tmp_path: Path) -> None:
    with State(tmp_path / "s", SETTINGS) as state:
        install = Scripted(a=[HTTPFailure(500)])
        work = Campaign(install, state=state, locks=tmp_path / "l", jobs=1, patience=Patience(attempts=9, first=60))
        threading.Timer(0.2, work.stop).start()
        outcomes = list(work.run(["a", "b"]))
    assert [(item.repo, item.status) for item in outcomes] == [("a", "failed")]
    assert set(install.calls) == {"a"}


# --- the state file ------------------------------------------------------------------------------------------------


def test_what_is_settled_is_not_done_again(tmp_path: Path, run: Callable[..., list[Outcome]]) -> None:
    path = tmp_path / "state.jsonl"
    with State(path, SETTINGS) as state:
        install = Scripted(a=[Result()], b=[HTTPFailure(403)], c=[HTTPFailure(500)])
        first = run(install, ["a", "b", "c"], state=state)
    with State(path, SETTINGS) as state:
        install = Scripted()
        second = {item.repo: item for item in run(install, ["a", "b", "c", "d"], state=state)}
    assert install.calls == ["c", "d"]
    assert [second[name].earlier for name in "abcd"] == [True, True, False, False]
    assert second["a"].url == first[0].url
    with State(path, SETTINGS) as state:
        install = Scripted()
        run(install, ["a", "b"], state=state, again=True)
    assert install.calls == ["b"]


def test_where_a_run_was_killed_is_known(tmp_path: Path, run: Callable[..., list[Outcome]]) -> None:
    path = tmp_path / "state.jsonl"
    with State(path, SETTINGS) as state:
        state.begin("a")
    with State(path, SETTINGS) as state:
        outcomes = run(Scripted(a=[Result("unchanged")]), ["a", "b"], state=state)
    assert [item.cut_off for item in outcomes] == [True, False]


@settings(max_examples=60)
@given(cut=st.integers(0, 2000), more=st.booleans())
def test_a_state_file_that_is_cut_off_anywhere_is_taken_up(
    tmp_path_factory: pytest.TempPathFactory, cut: int, more: bool
) -> None:
    path = tmp_path_factory.mktemp("state") / "state.jsonl"
    outcomes = [Outcome(f"o/r{number}", "proposed", "qwen3", "ü" * number, f"http://h/{number}") for number in range(5)]
    with State(path, SETTINGS) as state:
        for outcome in outcomes:
            state.begin(outcome.repo)
            state.end(outcome)
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    lines = whole[:cut].count(b"\n") + (whole[cut : cut + 1] == b"\n")  # a line may lack only its end
    with State(path, SETTINGS) as state:
        assert list(state.settled) == [item.repo for item in outcomes[: max(0, lines - 1) // 2]]
        if more:
            state.end(Outcome("x/y", "refused"))
    with State(path, SETTINGS) as state:
        assert ("x/y" in state.settled) is more
        known = [state.settled[item.repo] for item in outcomes if item.repo in state.settled]
        assert [(item.detail, item.url) for item in known] == [(o.detail, o.url) for o in outcomes[: len(known)]]


def test_a_state_file_has_one_run_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    with State(path, SETTINGS), pytest.raises(CampaignError, match="another run"):
        State(path, SETTINGS)
    with State(path, SETTINGS):
        pass


def test_another_campaign_s_state_is_not_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    with State(path, SETTINGS):
        pass
    with pytest.raises(CampaignError, match="how was 'pull request' and is 'commit'"):
        State(path, {**SETTINGS, "how": "commit"})
    other = tmp_path / "notes.txt"
    other.write_text("my notes\n")
    with pytest.raises(CampaignError, match="not a state file"):
        State(other, SETTINGS)
    assert other.read_text() == "my notes\n"


# --- what is said --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", ["hf_" + "aB3" * 11, "eyJhbGciOi.of-another_shape"])
def test_no_token_is_said_or_kept(
    tmp_path: Path, run: Callable[..., list[Outcome]], monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", secret)
    path = tmp_path / "state.jsonl"
    with State(path, SETTINGS) as state:
        install = Scripted(a=[ValueError(f"Bearer {secret} is no good")], b=[Result("failed", detail=f"<{secret}>")])
        outcomes = run(install, ["a", "b"], state=state)
    campaign.write_report(tmp_path / "r.json", outcomes, SETTINGS, complete=True)
    for text in (path.read_text(), (tmp_path / "r.json").read_text(), str(outcomes)):
        assert secret not in text
        assert "hf_***" in text


def test_the_report(tmp_path: Path) -> None:
    outcomes = [
        Outcome("a/b", "proposed", "qwen3", url="http://h/1", diff="+x"),
        Outcome("c/d", "failed", detail="403"),
    ]
    campaign.write_report(tmp_path / "new" / "r.json", outcomes, SETTINGS, complete=True)
    assert json.loads((tmp_path / "new" / "r.json").read_text()) == {
        "settings": SETTINGS,
        "complete": True,
        "counts": {"proposed": 1, "failed": 1},
        "repos": [
            {"repo": "a/b", "status": "proposed", "template": "qwen3", "url": "http://h/1", "attempts": 1},
            {"repo": "c/d", "status": "failed", "detail": "403", "attempts": 1},
        ],
    }
    (tmp_path / "folder").mkdir()
    with pytest.raises(CampaignError, match="folder"):
        campaign.write_report(tmp_path / "folder", outcomes, SETTINGS, complete=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "new"]
