"""A back end of the example server that replays canitoolcall's raw outputs as tokens, and what its probe asks of it.

The probe has scenarios of its own; where a fixture of the suite answers one as the scenario wants, it is replayed. Each
fixture is also a scenario by itself: its tools, and the calls, content and reasoning that the suite expects of it. Left
out are fixtures whose expected message fails the probe's own checks (arguments against their schema, markers that the
model quotes): `unfit` counts them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import materials
from domains import domains
from materials import canitoolcall
from plugin_helpers import byte_level
from response_templates import get_template
from server_helpers import example, served

# Malformed outputs that the suite lets a parser pass on as content, markers and all, which the probe then finds there.
PASSED_ON = {
    "qwen3-hermes/sglang-malformed-json-in-tags": "`<tool_call>` before what can't be JSON is text to this template",
}
TOKENIZERS = {"qwen3": "tokenizer-qwen3", "qwen3-coder": "tokenizer-qwen3", "gpt-oss": "tokenizer-gptoss"}


@functools.cache
def tokenizer_of(name: str) -> Any:
    """The real tokenizer of a family where there is one, else one over bytes."""
    material = TOKENIZERS.get(name)
    if material is None or not materials.have(material):
        return byte_level()
    from transformers import PreTrainedTokenizerFast

    [path] = materials.folder(material).rglob("tokenizer.json")
    return PreTrainedTokenizerFast(tokenizer_file=str(path))


def ids_of(tokenizer: Any, text: str) -> list[int]:
    """The ids of a text, which they give back."""
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    decoded = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    if decoded != text:
        raise ValueError(f"the tokenizer changes this text: {text!r:.80}")
    return ids


@dataclass(frozen=True)
class Replay:
    """What is asked of one family's model: scenarios of the probe, and the fixture that answers each question."""

    name: str
    scenarios: tuple[Any, ...]
    answers: Mapping[str, Mapping[str, Any]]  # by the text of the last message
    own: int  # how many of the scenarios, the first ones, are the probe's own
    unfit: int


class ReplayBackend:
    """Says, a token at a time, what the fixture says that answers the last message."""

    def __init__(self, replay: Replay) -> None:
        self.name = replay.name
        self.template = get_template(replay.name).template
        self.tokenizer = tokenizer_of(replay.name)
        self.answers = replay.answers

    def prepare(self, request: Any) -> Any:
        """The fixture is in the job's options."""
        fixture = self.answers[request.messages[-1]["content"]]
        text = fixture["generation_prompt"]  # some are empty
        prompt = ids_of(self.tokenizer, text)
        return example("server").Job(prompt, 2**31, request.offered_tools(), {"fixture": fixture}, text)

    def generate(self, job: Any, streamer: Any) -> Any:
        """Put the prompt, then each token by itself."""
        return streamer.run(self._generate, job)

    def _generate(self, job: Any, streamer: Any) -> Any:
        fixture = job.options["fixture"]
        ids = ids_of(self.tokenizer, fixture["raw_output"])
        streamer.put([job.prompt])
        for each in ids:
            streamer.put([each])
        streamer.end()
        cut_off = fixture.get("truncated") or "truncated" in fixture.get("tags", ())
        return example("server").Outcome(len(ids), "length" if cut_off else "stop")


def expected_result(fixture: Mapping[str, Any]) -> Any:
    """What the suite expects of a fixture, as the probe keeps what it saw."""
    results = canitoolcall("results")
    wanted = fixture.get("expected") or {"content": None, "reasoning_content": None, "tool_calls": []}
    calls = [results.ParsedToolCall(call["name"], json.dumps(call["arguments"])) for call in wanted["tool_calls"]]
    return results.ParseResult(
        content=wanted["content"], reasoning_content=wanted["reasoning_content"], tool_calls=tuple(calls)
    )


def scenario_of(fixture: Mapping[str, Any]) -> Any:
    """A fixture as a scenario."""
    probe = canitoolcall("probe")
    wanted = expected_result(fixture)
    judged = {}
    if "expected" in fixture:
        judged = {
            "expect_content": bool((wanted.content or "").strip()),
            "expect_reasoning": bool(wanted.reasoning_content),
        }
    names = tuple(call.name for call in wanted.tool_calls)
    return probe.Scenario(
        id=fixture["id"],
        description="a fixture of the suite",
        messages=({"role": "user", "content": fixture["id"]},),
        tools=tuple(fixture["tools"]),
        expect=probe.ProbeExpectation(tool_names=names, min_calls=len(names), **judged),
    )


def replays() -> list[Replay]:
    """One for each registered template with fixtures."""
    return [replay_of(name) for name, domain in domains().items() if domain.fixtures]


def replay_of(name: str) -> Replay:
    """The scenarios of one template, the probe's own first."""
    probe = canitoolcall("probe")
    fixtures = domains()[name].raw_outputs()
    own, answers = [], {}
    for scenario in probe.BUILTIN_SCENARIOS:
        fits = (each for each in fixtures if "expected" in each and fit(scenario, each))
        fixture = next(fits, None)
        if fixture is not None:
            own.append(scenario)
            answers[scenario.messages[-1]["content"]] = fixture
    by_fixture = [(scenario_of(each), each) for each in fixtures]
    asked = [(scenario, each) for scenario, each in by_fixture if fit(scenario, each)]
    answers |= {each["id"]: each for _, each in asked}
    scenarios = (*own, *(scenario for scenario, _ in asked))
    return Replay(name, scenarios, answers, len(own), len(by_fixture) - len(asked))


def fit(scenario: Any, fixture: Mapping[str, Any]) -> bool:
    """Does the suite's expected message pass the scenario's own checks?"""
    return bool(canitoolcall("probe").evaluate(scenario, expected_result(fixture))[0] == "pass")


def probed(replay: Replay) -> Any:
    """The probe's report on the example server with this replay."""
    app = example("server").create_app([ReplayBackend(replay)], workers=4)
    with served(app) as url:
        return canitoolcall("probe").probe(url, replay.name, scenarios=replay.scenarios)
