"""Run the property tests on many random examples and say how many of each there were.

    python scripts/nightly.py [--examples 20000] [-k EXPRESSION]

Exit status 0: every property held. The minimal failing example of one that did not is printed, with the line that
replays it. Needs the `test` extra. Takes some minutes for 1,000 examples and grows linearly with their number.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ("tests/test_properties.py", "tests/test_native_parity.py")
# Hypothesis prints one such line for each phase of a test, under the test's name.
NAME = re.compile(r"^\S+::(\w+)\S*:$", re.MULTILINE)
COUNTS = re.compile(r"(\d+) passing(?: examples?)?, (\d+) failing(?: examples?)?,(?: and)? (\d+) invalid")


def main() -> int:
    """Run, and return the exit status."""
    arguments = argparse.ArgumentParser(description="property tests on many random examples")
    arguments.add_argument("--examples", type=int, default=20_000, help="for each property (default 20000)")
    arguments.add_argument("-k", dest="only", help="only the properties that this pytest expression selects")
    options = arguments.parse_args()
    status, output = run(options.examples, options.only)
    if status:
        print(output)
    print(summary(output))
    print("every property held" if status == 0 else "FAILED: see above")
    return status


def run(examples: int, only: str | None) -> tuple[int, str]:
    """Pytest's exit status and output with `examples` for each property."""
    command = [sys.executable, "-m", "pytest", "-q", "--hypothesis-show-statistics", "-p", "no:cacheprovider", *TESTS]
    environment = {
        **os.environ,
        "RESPONSE_TEMPLATES_EXAMPLES": str(examples),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [*command, *(["-k", only] if only else [])],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def summary(output: str) -> str:
    """A line for each property: examples that held, failed, and were not valid."""
    names = list(NAME.finditer(output))
    ends = [name.start() for name in names[1:]] + [len(output)]
    lines = [f"{'property':72} {'held':>8} {'failed':>8} {'invalid':>8}"]
    for name, end in zip(names, ends, strict=True):
        counts = [tuple(map(int, found.groups())) for found in COUNTS.finditer(output, name.end(), end)]
        held, failed, invalid = (sum(count[i] for count in counts) for i in range(3))
        lines.append(f"{name[1]:72} {held:8} {failed:8} {invalid:8}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
