"""The command line: parse a generation from a file or a pipe, list the registry, show where each character went.

A thin edge over the engine: text comes in as bytes (UTF-8; bytes that are none survive as lone surrogates), JSON goes
out (escaped to ASCII where the terminal cannot show it). Exit codes: 0 good, 1 the text does not parse, 2 usage.

Invariant: nothing here decides anything about parsing. Bound: with `--events` memory is what the parser keeps; text is
read as it arrives and each event is flushed at once.
"""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from .errors import ParseError, TemplateError, UnknownTemplateError
from .parser import ResponseParser
from .registry import get_template, list_templates
from .spans import Span, explain
from .template import ResponseTemplate, load_template

try:
    import typer
    from rich.console import Console
    from rich.text import Text

    from .install_command import install, remove, verify
    from .push_command import push
except ImportError as missing:  # this module is only ever imported to be run
    sys.stderr.write(
        f'response-templates: the command line needs {missing.name}: pip install "response-templates[cli]"\n'
    )
    raise SystemExit(2) from missing

PIECE = 4_096  # bytes that are read at once, at most
COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red")

app = typer.Typer(
    help="Turn what a chat model generated back into a message.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Errors(str, Enum):
    """What becomes of a region that does not parse."""

    strict = "strict"
    recover = "recover"
    repair = "repair"


TemplateOption = Annotated[
    str, typer.Option("--template", "-t", metavar="NAME|FILE", help="A template of the registry, or a JSON file.")
]
PrefixOption = Annotated[
    str | None, typer.Option("--prefix", metavar="TEXT", help="The prompt that the generation continues.")
]
PrefixFileOption = Annotated[
    Path | None, typer.Option("--prefix-file", metavar="FILE", help="A file that holds the prompt.")
]
ToolsOption = Annotated[
    Path | None, typer.Option("--tools", metavar="FILE", help="A JSON file with the tools that were offered (a list).")
]
SourceArgument = Annotated[str, typer.Argument(metavar="FILE|-", help="The generation; - is standard input.")]


@app.command()
def parse(
    template: TemplateOption,
    source: SourceArgument = "-",
    prefix: PrefixOption = None,
    prefix_file: PrefixFileOption = None,
    tools: ToolsOption = None,
    errors: Annotated[Errors, typer.Option("--errors", help="What a region does that does not parse.")] = Errors.strict,
    events: Annotated[bool, typer.Option("--events", help="Print the events as they come, one a line.")] = False,
) -> None:
    """Print the message of a generation as JSON."""
    chosen = _template(template)
    prompt = _prefix(prefix, prefix_file)
    offered = _tools(tools)
    show = _print_line if events else _ignore
    try:
        parser = ResponseParser(chosen, prompt, tools=offered, errors=errors.value)
        show(parser.initial_events)
        for text in _pieces(source):
            show(parser.feed(text))
        message, last = parser.finalize()
    except ParseError as error:
        _complain(str(error))
        raise typer.Exit(1) from error
    except (TemplateError, ImportError) as error:
        _complain(str(error))
        raise typer.Exit(2) from error
    show(last)
    if not events:
        _print_json(message, indent=2)


@app.command("list")
def list_registry() -> None:
    """Print the names of the registry's templates, one a line."""
    for name in list_templates():
        typer.echo(name)


@app.command("explain")
def show_spans(
    template: TemplateOption,
    source: SourceArgument = "-",
    prefix: PrefixOption = None,
    prefix_file: PrefixFileOption = None,
) -> None:
    """Show where each character went: delimiter, a field's text, or discarded.

    In a terminal the text is coloured by field; elsewhere the spans are printed as JSON lines.
    """
    chosen = _template(template)
    prompt = _prefix(prefix, prefix_file)
    text = "".join(_pieces(source))
    try:
        spans = explain(text, chosen, prefix=prompt)
    except TemplateError as error:
        _complain(str(error))
        raise typer.Exit(2) from error
    written = (spans[-1].end if spans else 0) - len(text)  # characters that the prompt pre-wrote
    text = prompt[len(prompt) - written :] + text
    console = Console(highlight=False, soft_wrap=True)
    if console.is_terminal:
        _print_coloured(console, spans, text, list(chosen.fields))
    else:
        for span in spans:
            _print_json(
                {
                    "start": span.start - written,
                    "end": span.end - written,
                    "kind": span.kind,
                    "field": span.field,
                    "text": text[span.start : span.end],
                }
            )


for _command in (install, verify, remove, push):
    app.command()(_command)


def main() -> None:
    """The entry point `response-templates`."""
    app()


# --- what comes in -------------------------------------------------------------------------------------------------


def _template(name: str) -> ResponseTemplate:
    """A name of the registry wins over a file of that name."""
    try:
        if name not in list_templates() and Path(name).is_file():
            return load_template(Path(name))
        return get_template(name).template
    except UnknownTemplateError as error:
        raise typer.BadParameter(f"{error} (and there is no such file)", param_hint="--template") from error
    except (TemplateError, OSError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--template") from error


def _prefix(text: str | None, path: Path | None) -> str:
    if path is None:
        return text or ""
    if text is not None:
        raise typer.BadParameter("give --prefix or --prefix-file, not both", param_hint="--prefix")
    return _decode(_read(path, "--prefix-file"))


def _tools(path: Path | None) -> list[Any] | None:
    if path is None:
        return None
    try:
        tools = json.loads(_decode(_read(path, "--tools")))
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{path} is not valid JSON: {error}", param_hint="--tools") from error
    if not isinstance(tools, list):
        raise typer.BadParameter(f"{path} must hold a list of tools", param_hint="--tools")
    return tools


def _read(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"cannot read {str(path)!r}: {error}", param_hint=option) from error


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _pieces(source: str) -> Iterator[str]:
    """The text of a file, or of standard input as it arrives."""
    if source == "-":
        yield from _decoded(sys.stdin.buffer)
        return
    try:
        with Path(source).open("rb") as file:
            yield from _decoded(file)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"cannot read {source!r}: {error}", param_hint="FILE") from error


def _decoded(file: Any) -> Iterator[str]:
    """Text of a buffered binary file, as much at a time as is there without waiting for more."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    while data := file.read1(PIECE):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


# --- what goes out -------------------------------------------------------------------------------------------------


def _ignore(events: Iterable[dict[str, Any]]) -> None:
    """Only the message is wanted."""


def _print_line(events: Iterable[dict[str, Any]]) -> None:
    for event in events:
        _print_json(event)


def _print_json(value: Any, indent: int | None = None) -> None:
    """One JSON value, flushed; escaped to ASCII if standard output cannot encode it (lone surrogates never can)."""
    line = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        line.encode(sys.stdout.encoding or "ascii")
    except (UnicodeError, LookupError):
        line = json.dumps(value, indent=indent)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _complain(message: str) -> None:
    printable = message.encode("utf-8", "backslashreplace").decode("utf-8")
    sys.stderr.write(f"response-templates: {_visible(printable)}\n")


def _print_coloured(console: Console, spans: list[Span], text: str, fields: list[str]) -> None:
    shown = Text()
    for span in spans:
        shown.append(_visible(text[span.start : span.end]), style=_style(span, fields))
    console.print(shown)
    legend = Text("\n")
    for name in fields:
        legend.append(f" {name} ", style=_colour(name, fields)).append(" ")
    legend.append("delimiter", style="reverse").append(" ").append("discarded", style="dim strike")
    console.print(legend)


def _style(span: Span, fields: list[str]) -> str:
    if span.field is None:
        return "dim strike"
    colour = _colour(span.field, fields)
    return f"reverse {colour}" if span.kind == "delimiter" else colour


def _colour(name: str, fields: list[str]) -> str:
    return COLOURS[fields.index(name) % len(COLOURS)]


def _visible(text: str) -> str:
    """Control characters and surrogates as escapes: what a model wrote must not steer the terminal."""
    return "".join(char if char in "\n\t" or char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")


if __name__ == "__main__":
    main()
