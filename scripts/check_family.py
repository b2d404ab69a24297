"""Checks one registry template on everything that is known of its family, and prints what fails as a diff.

    python scripts/check_family.py NAME                            # all that `tests/data/domains/NAME.json` lists
    python scripts/check_family.py NAME --only roundtrip fixtures  # some of the checks
    python scripts/check_family.py NAME --chat-template FILE       # one more chat template (jinja), also without a list
    python scripts/check_family.py NAME --examples 200             # more messages for each chat template

The checks: it loads (here and natively), the plain outputs of its domain (natively too), the round trip over its chat
templates, canitoolcall's fixtures whole and streamed, `template_for` (right on its own chat templates, also by probing
alone, and silent on all others), and that hostile text costs linear time. Exit code 1 if one fails.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests")]

import materials  # noqa: E402
import roundtrip  # noqa: E402
import test_canitoolcall as raw_outputs  # noqa: E402
import test_hostile as hostile  # noqa: E402
from domains import Domain, domains, owners  # noqa: E402
from response_templates import registry  # noqa: E402
from response_templates.errors import ResponseTemplateError  # noqa: E402
from response_templates.parser import parse_response  # noqa: E402
from response_templates.registry import RegisteredTemplate, get_template  # noqa: E402


@dataclass(frozen=True)
class Subject:
    """What is checked: a registered template, its domain, and one more chat template's file."""

    entry: RegisteredTemplate
    domain: Domain
    examples: int
    more: Path | None = None

    @property
    def chat_templates(self) -> list[tuple[str, str]]:
        """Names and texts."""
        if self.more is not None:
            return [(str(self.more), self.more.read_text(encoding="utf-8"))]
        return [(name, materials.chat_template(name)) for name in self.domain.chat_templates]


def loads(subject: Subject) -> Iterator[str]:
    """The native engine takes the template, and plain outputs mean the same to it."""
    try:
        from transformers.utils import chat_parsing as native
    except ImportError:
        yield "transformers 5.13 or later is needed for the native engine"
        return
    template = subject.entry.template
    try:
        native.parse_response("", template.to_dict(), prefix="")
    except Exception as error:
        yield f"doesn't load natively: {error}"
        return
    for case in subject.domain.plain:
        expected = {"role": "assistant", **case["message"]}
        for engine, parse in (("here", parse_response), ("natively", native.parse_response)):
            shown = template if engine == "here" else template.to_dict()
            yield from difference(f"plain output, {engine}", expected, parse, case["output"], shown, case["prompt"])


def difference(
    what: str, expected: Any, parse: Callable[..., Any], output: str, template: Any, prompt: str
) -> list[str]:
    try:
        roundtrip.compare(expected, parse(output, template, prefix=prompt), roundtrip.rendering.Turn(prompt, output))
    except Exception as error:
        return [f"{what}: {error}"]
    return []


def round_trips(subject: Subject) -> Iterator[str]:
    """What the chat templates write comes back."""
    for name, text in subject.chat_templates:
        yield from round_trip(subject, name, text)


def round_trip(subject: Subject, name: str, text: str) -> list[str]:
    try:
        number = roundtrip.round_trip(subject.domain, subject.entry.template, text, name, subject.examples)
    except Exception as error:
        return [f"{name}: {error}"]
    print(f"  {name}: {number} messages")
    return [] if number else [f"{name}: nothing could be rendered"]


def fixtures(subject: Subject) -> Iterator[str]:
    """canitoolcall's raw outputs mean what it says, whole and streamed."""
    if not subject.domain.fixtures:
        return
    name = subject.entry.name
    for fixture in subject.domain.raw_outputs():
        ways = {"whole": lambda fixture=fixture: raw_outputs.whole(name, fixture)} | {
            kind: lambda fixture=fixture, kind=kind: raw_outputs.streamed(name, fixture, kind)
            for kind in raw_outputs.KINDS
        }
        for way, parse in ways.items():
            message = parse()
            try:
                raw_outputs.check(message, fixture, soft=fixture["id"] in subject.domain.soft)
            except AssertionError:
                wanted = fixture.get("expected", fixture.get("expected_error"))
                yield (
                    f"{fixture['id']} ({way}): {fixture.get('notes', '')}\n"
                    f"  prompt: {fixture['generation_prompt']!r}\n  output: {fixture['raw_output']!r}\n"
                    f"  wanted: {json.dumps(wanted, ensure_ascii=False)}\n"
                    f"  got:    {json.dumps(message, ensure_ascii=False)}"
                )
                break


def found(subject: Subject) -> Iterator[str]:
    """`template_for` is right on the family's chat templates, by probing alone too, and silent on all others."""
    name = subject.entry.name
    if subject.more is not None:
        answer = registry.template_for(subject.more.read_text(encoding="utf-8"))
        print(f"  template_for: {answer.name if answer else None} ({answer.reason if answer else 'nothing fits'})")
        return
    known = owners()
    entries = materials.chat_templates()
    with ThreadPoolExecutor(2) as pool:
        probed = pool.map(registry._probe, (entry.text for entry in entries))
        for entry, answer in zip(entries, probed, strict=True):
            by_text = registry.template_for(entry.text)
            if by_text is not None and by_text.name == name != known[entry.id]:
                yield f"template_for says {name} for {entry.id}, which is {known[entry.id] or 'none of ours'}"
            if known[entry.id] != name:
                if answer is not None and answer.name == name:
                    yield f"the probe says {name} for {entry.id}, which is {known[entry.id] or 'none of ours'}"
                continue
            if by_text is None or by_text.name != name:
                yield f"template_for says {by_text and by_text.name} for {entry.id} (run make_fingerprints.py?)"
            if answer is None and entry.id not in subject.domain.only_by_fingerprint:
                yield f"the probe finds nothing for {entry.id} (only_by_fingerprint?)"
            if answer is not None and entry.id in subject.domain.only_by_fingerprint:
                yield f"the probe knows {entry.id}: needn't be in only_by_fingerprint"
    for model in subject.domain.named:
        answer = registry._by_name(registry._Evidence(names=(model,)))
        if answer is None or answer.name != name:
            yield f"the name {model} alone gives {answer and answer.name}"


def linear(subject: Subject) -> Iterator[str]:
    """Twice the hostile text takes about twice the steps, and no memo grows without bound."""
    name = subject.entry.name
    for chunks in hostile.CHUNKS:
        yield from failure_of(hostile.test_twice_the_text_is_twice_the_steps, name, chunks)
    yield from failure_of(hostile.test_filling_the_memos_is_bounded_too, name)


def failure_of(test: Callable[..., None], *arguments: str) -> list[str]:
    try:
        test(*arguments)
    except AssertionError as error:
        return [str(error)]
    return []


CHECKS: dict[str, Callable[[Subject], Iterator[str]]] = {
    "loads": loads,
    "roundtrip": round_trips,
    "fixtures": fixtures,
    "found": found,
    "linear": linear,
}


def domain_of(name: str) -> Domain:
    """The template's domain; one without particulars if it has none yet."""
    tokens = {"bos_token": "", "eos_token": next(iter(get_template(name).meta.get("end_tokens", [])), "")}
    return domains().get(name) or Domain(name, (), tokens)


def main() -> int:
    parser = argparse.ArgumentParser(description="Check one registry template on all that is known of its family.")
    parser.add_argument("name")
    parser.add_argument("--only", nargs="+", choices=list(CHECKS), default=list(CHECKS), metavar="CHECK")
    parser.add_argument("--chat-template", type=Path, help="a jinja file to check instead of those of the domain")
    parser.add_argument("--examples", type=int, default=40, help="messages drawn for each chat template")
    arguments = parser.parse_args()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    try:
        entry = get_template(arguments.name)
    except ResponseTemplateError as error:
        print(error)
        return 1
    subject = Subject(entry, domain_of(arguments.name), arguments.examples, arguments.chat_template)
    failed = 0
    for check in arguments.only:
        print(f"{check}: {(CHECKS[check].__doc__ or '').splitlines()[0]}")
        for failure in CHECKS[check](subject):
            failed += 1
            print("  FAILED " + failure.replace("\n", "\n    "), flush=True)
    print(f"{failed} failed" if failed else "all right")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
