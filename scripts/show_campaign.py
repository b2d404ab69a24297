"""Shows what a campaign does on a Hub that fails: 200 repos, faults on every twentieth request, another writer.

    python scripts/show_campaign.py faults                    # one run
    python scripts/show_campaign.py killed --kills 20         # killed with SIGKILL at random moments, and taken up
    python scripts/show_campaign.py two                       # two runs at once, each with a state file of its own
    python scripts/show_campaign.py faults --python OTHER     # the campaign under another Python (and huggingface_hub)

The Hub is the one of the tests (`tests/loopback_hub.py`), on the loopback interface; the client is the real one. Each
repo is compared, in the end, with what must have become of it. Prints a line of JSON, and a row of the table in
docs/campaign.md; ends with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import hub_fleet  # noqa: E402
from loopback_hub import Faults, LoopbackHub, Rival, tokens_in  # noqa: E402

VERSIONS = "import huggingface_hub, transformers; print(huggingface_hub.__version__, transformers.__version__)"
PROGRAM = "import sys; from response_templates.cli import main; sys.argv[0] = 'response-templates'; main()"


class Show:
    """A Hub with a fleet, and a desk from which it is served."""

    def __init__(self, hub: LoopbackHub, folder: Path, arguments: argparse.Namespace) -> None:
        self.hub, self.folder, self.python = hub, folder, arguments.python
        self.members = hub_fleet.fleet(arguments.repos)
        self.chance = random.Random(arguments.seed)
        self.kills, self.jobs = arguments.kills, arguments.jobs
        self.token = hub.add_user(hub_fleet.ME)
        hub_fleet.populate(hub, self.members)
        hub.faults = Faults(0.05, seed=arguments.seed, retry_after=1)
        hub.before_commit = Rival(0.2, seed=arguments.seed)

    def start(self, desk: str) -> subprocess.Popen[bytes]:
        place = self.folder / desk
        environment = {
            **self.hub.environment(self.token, place / "home"),
            "PYTHONPATH": str(ROOT / "src"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }
        names = "\n".join(member.asked for member in self.members)
        (place / "repos.txt").write_text(names, encoding="utf-8")
        options = ["--file", "repos.txt", "--report", "report.json", "--jobs", str(self.jobs), "--retries", "9"]
        with (place / "log").open("ab") as log:
            return subprocess.Popen(
                [self.python, "-c", PROGRAM, "push", *options],
                cwd=place,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wrong(self, desks: Sequence[str]) -> list[str]:
        """What is wrong in the end."""
        found = hub_fleet.faults_in(self.hub, self.members)
        found += [f"token at the storage host: {entry.path}" for entry in tokens_in(self.hub.log)]
        for desk in desks:
            files = [path for path in (self.folder / desk).rglob("*") if path.is_file() and path.name != "token"]
            found += [f"token in {path}" for path in files if self.token.encode() in path.read_bytes()]
            found += hub_fleet.wrong_rows(self.members, self.rows(desk))
        return found

    def rows(self, desk: str) -> dict[str, dict[str, Any]]:
        report = json.loads((self.folder / desk / "report.json").read_text(encoding="utf-8"))
        return {row["repo"]: row for row in report["repos"]}

    def commits(self) -> int:
        return sum(entry.method == "POST" and "/commit/" in entry.path for entry in self.hub.log)

    # -- the scenes

    def faults(self) -> tuple[list[str], dict[str, Any]]:
        self.start("one").wait()
        return ["one"], {}

    def killed(self) -> tuple[list[str], dict[str, Any]]:
        """Each kill comes at a random moment after a few more commits, or after a random time if there are none."""
        done, share = 0, max(2, 2 * len(self.members) // (self.kills + 1))
        while done < self.kills:
            process = self.start("one")
            goal, end = self.commits() + self.chance.randint(1, share), time.monotonic() + self.chance.uniform(3, 40)
            while process.poll() is None and self.commits() < goal and time.monotonic() < end:
                time.sleep(0.02)
            time.sleep(self.chance.uniform(0, 0.5))
            if process.poll() is not None:
                break
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            done += 1
        self.start("one").wait()
        cut_off = sum(bool(row.get("cut_off")) for row in self.rows("one").values())
        return ["one"], {"kills": done, "repos that were cut off": cut_off}

    def two(self) -> tuple[list[str], dict[str, Any]]:
        for process in [self.start("one"), self.start("two")]:
            process.wait()
        return ["one", "two"], {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", choices=["faults", "killed", "two"])
    parser.add_argument("--repos", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", default=sys.executable, help="runs the campaign")
    arguments = parser.parse_args()
    versions = subprocess.run([arguments.python, "-c", VERSIONS], capture_output=True, text=True, check=True).stdout
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, LoopbackHub() as hub:
        show = Show(hub, Path(folder), arguments)
        desks, more = getattr(show, arguments.scene)()
        wrong = show.wrong(desks)
        result = {
            "scene": arguments.scene,
            "huggingface_hub, transformers": versions.split(),
            "repos": len(show.members),
            "requests": len(hub.log),
            "faults": dict(hub.faults.happened) if hub.faults else {},
            "commits of others": hub.before_commit.commits if isinstance(hub.before_commit, Rival) else 0,
            "outcomes": {desk: dict(Counter(row["status"] for row in show.rows(desk).values())) for desk in desks},
            **more,
            "seconds": round(time.monotonic() - begun),
            "wrong": wrong,
        }
    print(json.dumps(result))
    print(_row(result, arguments.seed))
    return 1 if wrong else 0


def _row(result: dict[str, Any], seed: int) -> str:
    """The result as a row of the table in docs/campaign.md."""
    outcomes = "; ".join(
        ", ".join(f"{count} {status}" for status, count in sorted(each.items())) for each in result["outcomes"].values()
    )
    cells = [
        f"`{result['scene']} --seed {seed}`",
        " / ".join(result["huggingface_hub, transformers"]),
        f"{result['requests']:,}",
        sum(result["faults"].values()),
        result["commits of others"],
        result.get("kills", "–"),
        outcomes,
        len(result["wrong"]),
    ]
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    raise SystemExit(main())
