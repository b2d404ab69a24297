"""canitoolcall's own probe, over HTTP, against the example server that replays the suite's raw outputs as tokens."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import materials
from domains import domains
from test_canitoolcall import check

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("jsonschema")

from replay import PASSED_ON, Replay, probed, replay_of

NAMES = [name for name, domain in domains().items() if domain.fixtures]
ASKED = 0.8  # the least share of the fixtures that is asked for, so that the test can't become empty


def unfinished(arguments: str) -> bool:
    """Is it the beginning of a call's arguments, which nothing closed?"""
    try:
        json.loads(arguments)
    except ValueError:
        return True
    return False


@pytest.fixture(scope="module", params=NAMES)
def report(request: pytest.FixtureRequest) -> Any:
    materials.folder("canitoolcall")
    replay = replay_of(request.param)
    return replay, probed(replay)


def test_the_probe_passes_everything_else(report: tuple[Replay, Any]) -> None:
    """But for calls that the model never finished: a stream sends their arguments as they grow."""
    replay, outcome = report
    count = len(domains()[replay.name].raw_outputs())
    assert len(replay.scenarios) - replay.own >= ASKED * count > 0
    assert replay.own > 0
    failed = [each for each in outcome.outcomes if each.status != "pass"]
    unfinished = [each for each in failed if each.stream and re.search("not valid JSON|<invalid json>", each.detail)]
    others = [each for each in failed if each not in unfinished]
    assert {each.scenario_id for each in others} <= set(PASSED_ON)
    assert all("leaked into content" in each.detail for each in others)
    assert outcome.summary()["pass"] == 3 * len(replay.scenarios) - len(failed)
    assert outcome.summary()["error"] == 0


def test_what_it_saw_is_what_the_suite_expects(report: tuple[Replay, Any]) -> None:
    """The probe looks at structure; here the texts and arguments are compared, too."""
    replay, outcome = report
    compared = set()
    for each in outcome.outcomes:
        fixture = replay.answers.get(each.scenario_id)
        if each.observed is None or fixture is None or each.scenario_id in domains()[replay.name].soft:
            continue
        calls = [
            {"function": {"name": call.name, "arguments": json.loads(call.arguments_raw)}}
            for call in each.observed.tool_calls
            if not (each.stream and unfinished(call.arguments_raw))
        ]
        message = {"content": each.observed.content, "reasoning_content": each.observed.reasoning_content}
        check({**message, "tool_calls": calls}, fixture)
        compared.add((each.scenario_id, each.stream))
    soft = domains()[replay.name].soft
    scenarios = {scenario.id for scenario in replay.scenarios[replay.own :]} - set(soft)
    assert compared == {(name, stream) for name in scenarios for stream in (False, True)}
