"""The commands `install`, `remove` and `verify`: one checkpoint, in a folder or on the Hub.

A thin edge over `hub`. Exit codes: 0 the checkpoint is as wanted (or, with --dry-run, could be made so), 1 it was
refused or failed (it says why), 2 the command was not understood.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from . import hub
from .campaign import redacted
from .errors import CheckpointError, ConfigError, ResponseTemplateError
from .registry import get_template, list_templates
from .terminal import console, diff_lines, show_report, status_line

WordsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="[TEMPLATE] TARGET",
        help="TARGET is a checkpoint's folder or a repo of the Hub (OWNER/NAME); TEMPLATE is a name of the registry or"
        " a JSON file, by default the one that fits.",
        show_default=False,
    ),
]
TargetArgument = Annotated[str, typer.Argument(metavar="TARGET", help="A checkpoint's folder, or a repo of the Hub.")]
CommitOption = Annotated[bool, typer.Option("--commit", help="On the Hub: commit, instead of a pull request.")]
RevisionOption = Annotated[
    str | None, typer.Option("--revision", metavar="BRANCH", help="On the Hub: the branch; by default the main one.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the diff; write nothing.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def install(
    words: WordsArgument,
    commit: CommitOption = False,
    revision: RevisionOption = None,
    dry_run: DryRunOption = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also where the check fails, or somebody else's template is.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Try it on the checkpoint first.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Add a response template to a checkpoint.

    It is tried on the checkpoint's own chat template first. In a folder the file is changed; on the Hub a pull request
    is opened. Only the key "response_template" of tokenizer_config.json is touched.
    """
    template, target = _template_and_target(words)
    with _failing_plainly():
        result = hub.install_template(
            target, template, create_pr=not commit, revision=revision, dry_run=dry_run, force=force, verify=verify
        )
    _show(result, as_json=as_json, dry_run=dry_run)


def remove(
    target: TargetArgument,
    commit: CommitOption = False,
    revision: RevisionOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Take the response template out of a checkpoint.

    The file is then as it was before.
    """
    with _failing_plainly():
        result = hub.remove_template(target, create_pr=not commit, revision=revision, dry_run=dry_run)
    _show(result, as_json=as_json, dry_run=dry_run)


def verify(
    words: WordsArgument,
    revision: RevisionOption = None,
    ids: Annotated[
        bool, typer.Option("--ids/--no-ids", help="Also look at the checkpoint's tokenizer (it is fetched).")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Try a response template on a checkpoint.

    Messages are rendered by the checkpoint's own chat template and parsed back; nothing is written. Without TEMPLATE:
    the one that the checkpoint has or, if it has none, the registry's that fits.
    """
    template, target = _template_and_target(words)
    with _failing_plainly():
        report = hub.verify(target, template, revision=revision, ids=ids)
    if as_json:
        _print_json(report.to_dict())
    else:
        out = console()
        show_report(out, report)
        named = report.template_name or "no template"
        out.print(status_line("passed" if report.ok else "failed", report.target, named))
    if not report.ok:
        raise typer.Exit(1)


# --- what comes in -------------------------------------------------------------------------------------------------


def _template_and_target(words: list[str]) -> tuple[str | Path | None, str]:
    """The words of the command line. A name of the registry wins over a file of that name."""
    if len(words) > 2:
        raise typer.BadParameter("give one TARGET (for many repos: response-templates push)", param_hint="TARGET")
    *names, target = words
    if not names:
        return None, target
    return template_named(names[0], param_hint="TEMPLATE"), target


def template_named(name: str, *, param_hint: str) -> str | Path:
    """A name of the registry, or the path of a file.

    Raises:
        typer.BadParameter: it is neither.
    """
    if name in list_templates():
        return name
    if Path(name).is_file():
        return Path(name)
    try:
        get_template(name)
    except ResponseTemplateError as error:  # names the nearest ones
        raise typer.BadParameter(f"{error} (and there is no such file)", param_hint=param_hint) from error
    return name


# --- what goes out -------------------------------------------------------------------------------------------------


@contextmanager
def _failing_plainly() -> Iterator[None]:
    """Errors as a line on standard error: 1 for what is wrong with a checkpoint, 2 for what is wrong in the command."""
    try:
        yield
    except (ResponseTemplateError, ImportError) as error:
        sys.stderr.write(f"response-templates: {redacted(str(error))}\n")
        raise typer.Exit(1 if isinstance(error, (CheckpointError, ConfigError)) else 2) from error


def _show(result: Any, *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        _print_json(result.to_dict())
    else:
        out = console()
        if result.report is not None and not result.report.ok:
            show_report(out, result.report)
        if result.diff and dry_run:
            out.print(diff_lines(result.diff, indent=""))
        notes = [result.template_name or "", result.detail, "nothing was written" if dry_run else ""]
        out.print(status_line(result.status, result.target, *notes))
    if not result.ok:
        raise typer.Exit(1)


def _print_json(value: Any) -> None:
    """Escaped to ASCII, so that every terminal shows it."""
    sys.stdout.write(redacted(json.dumps(value, indent=2)) + "\n")
