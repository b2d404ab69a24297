"""Commands as processes of their own that need not import everything anew: one process has imported it, and forks.

What a command is run with (arguments, folder, variables, standard output and error) is its own; it can be signalled
and killed like any process. Only what is read while importing is common to all: here the Hub's address and the folder
of the login.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FORKS = hasattr(os, "fork")

# The process that forks. It has no threads, so a fork is safe. Lines of JSON go in and out, one each.
PROGRAM = """
import json, os, runpy, sys, traceback

for name in json.loads(sys.argv[1]):
    try:
        __import__(name)
    except ImportError:  # what an older library does not have
        pass

def run(order):
    os.setsid()
    os.chdir(order["folder"])
    os.environ.update(order["variables"])
    for path, number in ((os.devnull, 0), (order["out"], 1), (order["err"], 2)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), number)
    sys.argv = order["arguments"]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

for line in sys.stdin:
    order = json.loads(line)
    if "poll" in order:
        pid, status = os.waitpid(order["poll"], os.WNOHANG)
        answer = os.waitstatus_to_exitcode(status) if pid else None
    else:
        answer = os.fork() or run(order)
    print(json.dumps(answer), flush=True)
"""


class Started:
    """A command that was started; as `subprocess.Popen` as far as the tests need it."""

    def __init__(self, warm: WarmProcess, pid: int, out: Path, err: Path) -> None:
        self.pid, self.returncode = pid, None
        self._warm, self._out, self._err = warm, out, err

    returncode: int | None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._warm.ask({"poll": self.pid})
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill_all(self) -> None:
        """With what it has started itself."""
        os.killpg(self.pid, signal.SIGKILL)

    def communicate(self, timeout: float) -> tuple[str, str]:
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                self.kill_all()
                raise TimeoutError(f"it has not ended after {timeout} seconds")
            time.sleep(0.01)
        return self._out.read_text(encoding="utf-8"), self._err.read_text(encoding="utf-8")


class WarmProcess:
    """The process that forks; a context manager. `modules` are imported once, under `variables`."""

    def __init__(self, modules: Sequence[str], variables: Mapping[str, str], folder: Path) -> None:
        self._numbers, self._folder = itertools.count(), folder
        folder.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, json.dumps(list(modules))],
            env=dict(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> WarmProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def ask(self, order: Mapping[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, arguments: Sequence[str], folder: Path, variables: Mapping[str, str]) -> Started:
        """Run a script: its path and arguments."""
        number = next(self._numbers)
        out, err = (self._folder / f"{number}.{name}" for name in ("out", "err"))
        order = {"arguments": list(arguments), "folder": str(folder), "variables": dict(variables)}
        return Started(self, self.ask({**order, "out": str(out), "err": str(err)}), out, err)
