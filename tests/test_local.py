"""A file on this machine is replaced as a whole, whatever happens in between."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from response_templates import local
from response_templates.local import replace_file

OLD, NEW = b"old" * 1000, b"new and longer" * 1000
POSIX = pytest.mark.skipif(os.name != "posix", reason="permissions and signals as POSIX has them")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_bytes(OLD)
    return path


def test_the_content_is_replaced_and_nothing_is_left_over(path: Path) -> None:
    replace_file(path, NEW)
    assert path.read_bytes() == NEW
    assert list(path.parent.iterdir()) == [path]


@POSIX
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o660, 0o755, 0o444])
def test_permissions_are_kept(path: Path, mode: int) -> None:
    path.chmod(mode)
    replace_file(path, NEW)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@POSIX
def test_a_link_is_replaced_and_what_it_points_to_is_not_written_to(path: Path, tmp_path: Path) -> None:
    blob = path.rename(tmp_path / "blob")
    blob.chmod(0o640)
    path.symlink_to(blob.name)
    replace_file(path, NEW)
    assert (path.read_bytes(), path.is_symlink()) == (NEW, False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert blob.read_bytes() == OLD


@POSIX
def test_another_name_of_the_same_file_keeps_the_old_content(path: Path, tmp_path: Path) -> None:
    os.link(path, tmp_path / "other name")
    replace_file(path, NEW)
    assert (tmp_path / "other name").read_bytes() == OLD


def test_what_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "none", NEW)
    assert list(tmp_path.iterdir()) == []


STEPS = ("fsync", "chmod", "replace")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()], ids=["full", "stop"])
def test_what_fails_leaves_the_old_file_alone(
    path: Path, step: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(local.os, step, fail)
    with pytest.raises(type(error)):
        replace_file(path, NEW)
    assert path.read_bytes() == OLD
    assert list(path.parent.iterdir()) == [path]


ENDLESS = """
import pathlib, sys
from response_templates.local import replace_file
path, new = pathlib.Path(sys.argv[1]), [b"a" * 3_000_000, b"b" * 2_000_000]
replace_file(path, new[0])
print("begun", flush=True)
while True:
    for content in reversed(new):
        replace_file(path, content)
"""
KILLS = 6


@POSIX
def test_a_process_that_is_killed_leaves_the_old_or_the_new_file(path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(local.__file__).parent.parent)}
    for turn in range(KILLS):
        command = [sys.executable, "-c", ENDLESS, str(path)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            time.sleep(0.003 * turn)
            process.send_signal(signal.SIGKILL)
        assert path.read_bytes() in (b"a" * 3_000_000, b"b" * 2_000_000)


def test_who_reads_meanwhile_sees_the_old_or_the_new_file(path: Path) -> None:
    seen: set[bytes] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for content in [NEW, OLD] * 20:
        replace_file(path, content)
    done.set()
    reader.join()
    assert seen <= {OLD, NEW}
