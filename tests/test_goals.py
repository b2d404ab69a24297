"""What a checkpoint is to be brought to, and what speaks against it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hub_helpers import CONFIG, CONFIG_BYTES, KEY, OLDER, TEMPLATE, WRONG, written
from response_templates import get_template, goals, registry
from response_templates.checkpoints import Checkpoint, Folder, read_checkpoint
from response_templates.goals import INSTALLED, REMOVED, UPDATED, Install, Refused, Remove
from response_templates.json_edit import MISSING, members_of, with_member
from response_templates.proposals import digest_of, marks_in

GIVEN = ("custom", written(TEMPLATE))


def nobody(digest: str) -> bool:
    """No template is of a commit of ours."""
    return False


def checkpoint(folder: Path, value: Any = MISSING) -> Checkpoint:
    data = CONFIG_BYTES if value is MISSING else with_member(CONFIG_BYTES, KEY, value)
    (folder / CONFIG).write_bytes(data)
    return read_checkpoint(Folder(folder))


def test_the_given_template_is_the_goal(tmp_path: Path) -> None:
    found = checkpoint(tmp_path)
    goal = Install(GIVEN, force=False, verify=True).goal(found)
    assert (goal.name, goal.value, goal.done) == ("custom", GIVEN[1], INSTALLED)
    assert members_of(goal.applied(found.config))[KEY] == GIVEN[1]
    assert not goal.holds(found.response_template)
    assert goal.holds(dict(reversed(GIVEN[1].items())))  # the order of keys does not count


def test_a_template_that_is_there_is_updated(tmp_path: Path) -> None:
    assert Install(GIVEN, force=False, verify=True).goal(checkpoint(tmp_path, OLDER)).done == UPDATED


def test_by_default_it_is_the_one_that_fits(tmp_path: Path) -> None:
    goal = Install(None, force=False, verify=True).goal(checkpoint(tmp_path))
    assert (goal.name, goal.value) == ("qwen3", get_template("qwen3").template.to_dict())


def test_where_none_fits_none_is_guessed(tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_bytes(b'{"chat_template": "{{ messages }}"}')
    with pytest.raises(Refused, match="name one"):
        Install(None, force=True, verify=True).goal(read_checkpoint(Folder(tmp_path)))


def test_to_remove_is_to_have_none(tmp_path: Path) -> None:
    with_it, without = checkpoint(tmp_path, TEMPLATE), CONFIG_BYTES
    goal = Remove().goal(with_it)
    assert (goal.value, goal.done, goal.holds(MISSING), goal.holds(TEMPLATE)) == (MISSING, REMOVED, True, False)
    assert goal.applied(with_it.config) == without
    assert [mark.digest for mark in marks_in(Remove().check(with_it, goal, nobody).text)] == [goal.digest]


# --- what speaks against it ----------------------------------------------------------------------------------------


def checked(folder: Path, there: Any, *, force: bool = False, is_ours: Any = nobody, given: Any = GIVEN) -> Any:
    wish = Install(given, force, verify=False)
    found = checkpoint(folder, there)
    return wish.check(found, wish.goal(found), is_ours)


def test_somebody_elses_template_is_left(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="not one of ours"):
        checked(tmp_path, OLDER)
    with pytest.raises(Refused, match="not one of ours"):
        checked(tmp_path, "no template at all")


def test_unless_forced_or_ours_or_the_registrys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked(tmp_path, OLDER, force=True).value == GIVEN[1]
    assert checked(tmp_path, OLDER, is_ours=lambda digest: digest == digest_of(OLDER)).value == GIVEN[1]
    assert checked(tmp_path, get_template("qwen3").template.to_dict()).value == GIVEN[1]


def test_what_the_registry_had_earlier_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = get_template("qwen3")
    earlier = registry.RegisteredTemplate(entry.name, entry.template, {**entry.meta, "earlier": [digest_of(OLDER)]})
    monkeypatch.setattr(goals, "get_template", lambda name: earlier)
    assert checked(tmp_path, OLDER).value == GIVEN[1]


def test_no_template_is_no_template_of_anybody(tmp_path: Path) -> None:
    assert checked(tmp_path, None).done == INSTALLED  # "response_template": null


def test_what_does_not_fit_is_refused_with_the_report(tmp_path: Path) -> None:
    wish = Install(("wrong", written(WRONG)), force=False, verify=True)
    found = checkpoint(tmp_path)
    with pytest.raises(Refused, match="does not fit") as caught:
        wish.check(found, wish.goal(found), nobody)
    goal = caught.value.goal
    assert goal is not None
    assert goal.report is not None
    assert goal.report.failures


def test_the_same_state_is_verified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    verify = goals.verify_checkpoint

    def counted(checkpoint: Checkpoint, name: str, source: Any) -> Any:
        seen.append(name)
        return verify(checkpoint, name, source)

    monkeypatch.setattr(goals, "verify_checkpoint", counted)
    wish = Install(GIVEN, force=True, verify=True)
    found = checkpoint(tmp_path)
    reports = [wish.check(found, wish.goal(found), nobody).report for _ in range(3)]
    assert reports[0] is reports[1] is reports[2]
    changed = checkpoint(tmp_path, OLDER)
    wish.check(changed, wish.goal(changed), nobody)
    assert seen == ["custom", "custom"]
