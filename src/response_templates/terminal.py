"""What the commands that write templates show in a terminal: a status, a diff, a report of a check.

Invariant: nothing that comes from a repository or the network steers the terminal, and no token is shown.
"""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.text import Text

from .campaign import redacted

STYLES = {
    "installed": "green",
    "proposed": "green",
    "updated": "green",
    "removed": "green",
    "unchanged": "cyan",
    "refused": "yellow",
    "failed": "red",
    "passed": "green",
    "noted": "cyan",
    "skipped": "dim",
}
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def console() -> Console:
    """Standard output; lines are never broken, so that they can be searched and cut."""
    return Console(highlight=False, soft_wrap=True)


def visible(text: str) -> str:
    """Control characters as escapes."""
    return "".join(char if char == "\t" or char.isprintable() else json.dumps(char)[1:-1] for char in redacted(text))


def in_a_line(text: str) -> str:
    """The text, visible, its white space as single spaces."""
    return visible(" ".join(text.split()))


def status_line(status: str, name: str, *notes: str) -> Text:
    """A status, what it is about, and notes, in a line."""
    line = Text(f"{status:<9}", style=STYLES.get(status, ""))
    line.append(f" {in_a_line(name)}", style="bold")
    for note in filter(None, notes):
        line.append(f"  {in_a_line(note)}", style="not bold")
    return line


def diff_lines(diff: str, indent: str = "  ") -> Text:
    """A unified diff, coloured."""
    lines = [Text(indent + visible(line), style=DIFF_STYLES.get(line[:1], "")) for line in diff.splitlines()]
    return Text("\n").join(lines)


def show_report(target: Console, report: Any) -> None:
    """The checks of a `verifying.Report`, one a line, with the diffs of the messages that came back as others."""
    for check in report.checks:
        target.print(status_line(check.status, check.name, check.detail))
        if check.diff:
            target.print(diff_lines(check.diff, indent="          "))
