"""A file on this machine is replaced as a whole: whoever looks, at any moment, sees the old one or the new one.

The new content is written beside the file, flushed to disk, and renamed over it. A symbolic link (the Hub's cache is
full of them) is replaced by a file of its own; what it points to, which other checkpoints may share, is not written to.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Give `path` this content, with the permissions (and, where possible, the owner) that it has.

    Raises:
        OSError: it cannot be written; the old file is still there.
    """
    was = path.stat()
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    new = Path(name)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _take_over(new, was)
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def _take_over(new: Path, was: os.stat_result) -> None:
    mine = new.stat()
    if hasattr(os, "chown") and (mine.st_uid, mine.st_gid) != (was.st_uid, was.st_gid):
        with contextlib.suppress(OSError):  # only root may give files away
            os.chown(new, was.st_uid, was.st_gid)
    os.chmod(new, stat.S_IMODE(was.st_mode))  # after the owner: changing that clears bits


def _flush_folder(folder: Path) -> None:
    """So that the new name outlives a power cut, where folders can be flushed at all."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
