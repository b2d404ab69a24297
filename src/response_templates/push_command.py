"""The command `push`: a campaign from the command line, and what it shows.

A thin edge over `campaign` and `hub`. One line a repo, a progress bar where there is a terminal, a summary.

Exit codes: 0 every repo has its template, 1 some were refused or failed (the lines say why), 2 it could not begin,
130 it was interrupted (the same command goes on where it stopped).
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from . import campaign, hub
from .campaign import Campaign, Outcome, Patience, State
from .errors import CampaignError, ResponseTemplateError
from .install_command import template_named
from .registry import fingerprint
from .terminal import console, diff_lines, status_line

STATE = Path("response-templates-push.jsonl")


@dataclass(frozen=True, slots=True)
class Where:
    """Which repos: as arguments, by files, authors and the registry."""

    repos: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    authors: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()

    def listed(self, patience: Patience) -> list[str]:
        """All of them, each once. Raises CampaignError if there are none, or a list cannot be had."""
        found = list(self.repos)
        for file in self.files:
            found += campaign.repos_in_file(file)
        for name in self.templates:
            found += campaign.repos_of_registry(name)
        for author in self.authors:
            found += campaign.repos_of_author(author, patience=patience)
        if not found:
            raise CampaignError("no repos: name some, or give --file, --author or --registry")
        return campaign.unique(found)


def push(
    repos: Annotated[list[str] | None, typer.Argument(metavar="REPO", help="Repos of the Hub: OWNER/NAME.")] = None,
    file: Annotated[
        list[Path] | None, typer.Option("--file", "-f", metavar="FILE", help="A file with a repo a line.")
    ] = None,
    author: Annotated[
        list[str] | None, typer.Option("--author", metavar="NAME", help="All models of a user or an organisation.")
    ] = None,
    registry: Annotated[
        list[str] | None,
        typer.Option("--registry", metavar="NAME|all", help="The models in a template's metadata."),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option("--template", "-t", metavar="NAME|FILE", help="The template for all; by default found for each."),
    ] = None,
    commit: Annotated[bool, typer.Option("--commit", help="Commit, instead of opening pull requests.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the diffs; write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also where the check fails or another template is.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=64, help="Repos at the same time.")] = 4,
    retries: Annotated[int, typer.Option("--retries", min=0, help="Further tries after a passing failure.")] = 5,
    state: Annotated[
        Path, typer.Option("--state", metavar="FILE", help="What is done; the same command goes on from there.")
    ] = STATE,
    again: Annotated[bool, typer.Option("--again", help="Also what an earlier run refused or failed.")] = False,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write a report as JSON.")] = None,
) -> None:
    """Add templates to many repos of the Hub.

    Each repo gets one pull request, if its template passes the check on this very repo; of the others the reason is
    told. A run that was stopped or killed goes on with the same command, and nothing is done twice. The login is that
    of `hf auth login`. Ends with 0 if every repo has its template, 1 if not, 2 if it could not begin, 130 if it was
    interrupted.
    """
    patience = Patience(attempts=retries + 1)
    out = console()
    try:
        where = Where(tuple(repos or ()), tuple(file or ()), tuple(author or ()), tuple(registry or ()))
        chosen, settings = _settings(template, commit=commit, force=force)
        if not dry_run:
            _check_login(patience)
        names = where.listed(patience)
        install = partial(
            hub.install_template, template=chosen, create_pr=not commit, dry_run=dry_run, force=force, verify=True
        )
        with _remembered(None if dry_run else state, settings) as memory:
            work = Campaign(
                install,
                state=memory,
                patience=patience,
                jobs=jobs,
                canonical=campaign.canonical_name,
                again=again,
            )
            outcomes = _shown(out, work, names, diffs=dry_run)
        if report is not None:
            campaign.write_report(report, outcomes, {**settings, "dry_run": dry_run}, complete=not work.stopped)
    except ResponseTemplateError as error:
        sys.stderr.write(f"response-templates: {campaign.redacted(str(error))}\n")
        raise typer.Exit(2) from error
    _summary(out, outcomes, names, dry_run=dry_run)
    if work.stopped:
        raise typer.Exit(130)
    if not all(outcome.good for outcome in outcomes):
        raise typer.Exit(1)


# --- before it begins ----------------------------------------------------------------------------------------------


def _settings(template: str | None, *, commit: bool, force: bool) -> tuple[Any, dict[str, Any]]:
    """The template for all repos, and what makes this campaign what it is."""
    from huggingface_hub import constants

    chosen = None if template is None else template_named(template, param_hint="--template")
    known = fingerprint(chosen.read_text(encoding="utf-8")) if isinstance(chosen, Path) else None
    settings = {
        "endpoint": constants.ENDPOINT,
        "template": template,
        "template_sha256": known,
        "how": "commit" if commit else "pull request",
        "force": force,
    }
    return chosen, {key: value for key, value in settings.items() if value is not None}


def _check_login(patience: Patience) -> None:
    """Someone is logged in whose token may write, as far as the Hub says. Raises CampaignError."""
    from huggingface_hub import HfApi, get_token

    if get_token() is None:
        raise CampaignError("not logged in: run `hf auth login` first (the token that it keeps is used)")
    try:
        me = patience.persist(HfApi().whoami)
    except Exception as error:  # of requests, httpx or the client itself, according to its version
        raise CampaignError(f"the Hub does not say who is logged in: {campaign.reason(error)}") from error
    token = (me.get("auth") or {}).get("accessToken") or {}
    if token.get("role") == "read":
        raise CampaignError(f"the token of {me.get('name')} can only read: log in with one that can write")


@contextmanager
def _remembered(path: Path | None, settings: dict[str, Any]) -> Iterator[State | None]:
    if path is None:
        yield None
        return
    with State(path, settings) as state:
        yield state


# --- what is shown -------------------------------------------------------------------------------------------------


def _shown(out: Console, work: Campaign, names: list[str], *, diffs: bool) -> list[Outcome]:
    """Do the work, and show each outcome as it comes."""
    outcomes = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with _stopping(work), Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("repos", total=len(names))
        for outcome in work.run(names):
            outcomes.append(outcome)
            out.print(_line(outcome))
            if diffs and outcome.diff:
                out.print(diff_lines(outcome.diff))
            bar.advance(task)
    return outcomes


@contextmanager
def _stopping(work: Campaign) -> Iterator[None]:
    """Ctrl-C, or a polite kill, lets the repos in work be finished; a second one does not."""

    def stop(number: int, _: object) -> None:
        work.stop()
        signal.signal(number, before[number])

    before: dict[int, Any] = {}
    for each in (signal.SIGINT, signal.SIGTERM):
        before[each] = signal.signal(each, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _line(outcome: Outcome) -> Text:
    name = f"{outcome.repo} (now {outcome.renamed})" if outcome.renamed else outcome.repo
    return status_line(
        outcome.status,
        name,
        outcome.template or "",
        outcome.url or "",
        "" if outcome.good and outcome.url else outcome.detail,
        "an earlier run was cut off here" if outcome.cut_off else "",
        "settled by an earlier run" if outcome.earlier else "",
    )


def _summary(out: Console, outcomes: list[Outcome], names: list[str], *, dry_run: bool) -> None:
    parts = [f"{count} {status}" for status, count in campaign.counts(outcomes).items()]
    left = len(names) - len(outcomes)
    parts += [f"{left} not begun"] if left else []
    parts += ["nothing was written"] if dry_run else []
    out.print(Text(f"{len(names)} repos: {', '.join(parts)}", style="bold"))
