"""One member of a JSON file is set or removed, and every other byte stays."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from json_files import CHARACTERS, FILES, FILES_WITH_KEY, KEY, SEEDS
from response_templates.errors import ConfigError
from response_templates.json_edit import members_of, with_member, without_member

VALUE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<｜Assistant｜>",
    "fields": {"content": {"close": ["a", "b"]}},
}


def pairs(data: bytes) -> list[tuple[str, Any]]:
    """The members in order, duplicates and all; numbers as they are written."""
    decoder = json.JSONDecoder(parse_int=str, parse_float=str, object_pairs_hook=list)
    found: list[tuple[str, Any]] = decoder.decode(data.decode("utf-8-sig"))
    return found


def listed(value: Any) -> Any:
    """A value as `pairs` shows it."""
    decoder = json.JSONDecoder(parse_int=str, parse_float=str, object_pairs_hook=list)
    return decoder.decode(json.dumps(value))


SETTINGS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from(CHARACTERS), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.sampled_from(CHARACTERS), max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


def unordered(value: Any) -> Any:
    """As `pairs` shows it, but for the order of keys, which follows the file's."""
    if isinstance(value, list) and all(isinstance(each, tuple) for each in value):
        return sorted((key, repr(unordered(item))) for key, item in value)
    return [unordered(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=150)
@given(FILES, SETTINGS)
def test_an_added_member_leaves_every_other_byte(data: bytes, value: Any) -> None:
    new = with_member(data, KEY, value)
    size = len(new) - len(data)
    assert any(new[:at] + new[at + size :] == data for at in range(len(data) + 1))
    before, after = pairs(data), pairs(new)
    place = [key for key, _ in after].index(KEY)
    assert after[:place] + after[place + 1 :] == before
    assert unordered(after[place][1]) == unordered(listed(value))


@settings(max_examples=150)
@given(FILES, SETTINGS)
def test_removing_it_gives_the_file_back(data: bytes, value: Any) -> None:
    assert without_member(with_member(data, KEY, value), KEY) == data


@settings(max_examples=150)
@given(FILES_WITH_KEY, SETTINGS)
def test_a_replaced_value_leaves_every_other_byte(data: bytes, value: Any) -> None:
    new = with_member(data, KEY, value)
    before, after = pairs(data), pairs(new)
    place = max(at for at, (key, _) in enumerate(before) if key == KEY)
    assert before[:place] + before[place + 1 :] == after[:place] + after[place + 1 :]
    assert unordered(after[place][1]) == unordered(listed(value))
    # What is around the value is what stands before the first and behind the last byte that differs.
    marked = with_member(data, KEY, 1)
    other = with_member(data, KEY, 2)
    at = next(at for at, pair in enumerate(zip(marked, other, strict=True)) if pair[0] != pair[1])
    assert new.startswith(marked[:at])
    assert new.endswith(marked[at + 1 :])
    assert data.startswith(marked[:at])
    assert data.endswith(marked[at + 1 :])


@settings(max_examples=150)
@given(FILES_WITH_KEY)
def test_all_members_of_the_name_are_removed_and_the_others_kept(data: bytes) -> None:
    after = without_member(data, KEY)
    assert pairs(after) == [pair for pair in pairs(data) if pair[0] != KEY]
    assert without_member(after, KEY) == after


@settings(max_examples=150)
@given(FILES, SETTINGS)
def test_setting_it_twice_is_setting_it_once(data: bytes, value: Any) -> None:
    once = with_member(data, KEY, value)
    assert with_member(once, KEY, value) == once


# --- files as programs write them ----------------------------------------------------------------------------------

LAYOUTS = st.fixed_dictionaries(
    {"indent": st.sampled_from([None, 1, 2, 4, "\t"]), "ensure_ascii": st.booleans(), "sort_keys": st.booleans()}
)
OBJECTS = st.dictionaries(st.text("abcxyz", min_size=1, max_size=4), SETTINGS, min_size=3, max_size=6)


@settings(max_examples=60)
@given(OBJECTS, LAYOUTS, st.sampled_from(["\n", "\r\n"]))
def test_it_is_written_as_the_file_is(members: dict[str, Any], layout: dict[str, Any], line_end: str) -> None:
    members = {"é": "é", **members}  # something that shows whether escapes are the file's way
    if not layout["sort_keys"] and list(members) == sorted(members):
        members = dict(reversed(list(members.items())))
    data = json.dumps(members, **layout).replace("\n", line_end).encode()
    order = sorted([*members, KEY]) if layout["sort_keys"] else [*list(members)[:-1], KEY, list(members)[-1]]
    wanted = {key: {**members, KEY: VALUE}[key] for key in order}
    assert with_member(data, KEY, VALUE) == json.dumps(wanted, **layout).replace("\n", line_end).encode()


@settings(max_examples=60)
@given(OBJECTS, st.sampled_from([1, 2, 4, "\t"]))
def test_a_reviewer_sees_added_lines_only(members: dict[str, Any], indent: Any) -> None:
    old = json.dumps(members, indent=indent, ensure_ascii=False).encode().split(b"\n")
    new = with_member(b"\n".join(old), KEY, VALUE).split(b"\n")
    added = len(new) - len(old)
    assert any(new[:at] + new[at + added :] == old for at in range(len(old)))


CASES = {
    "empty": (b"{}", b'{"k": [1]}'),
    "empty, spaced": (b"{ }\n", b'{"k": [1] }\n'),
    "empty, lines": (b"{\n}\n", b'{\n  "k": [\n    1\n  ]\n}\n'),
    "one line": (b'{"a": 1, "b": 2}', b'{"a": 1, "k": [1], "b": 2}'),
    "compact": (b'{"b":1,"a":2}', b'{"b":1,"k":[1],"a":2}'),
    "only one member": (b'{\n\t"a": 1\n}', b'{\n\t"k": [\n\t\t1\n\t],\n\t"a": 1\n}'),
    "CRLF, mark of byte order, no line end at the end": (
        b'\xef\xbb\xbf{\r\n "b": 1,\r\n "a": 2\r\n}',
        b'\xef\xbb\xbf{\r\n "b": 1,\r\n "k": [\r\n  1\r\n ],\r\n "a": 2\r\n}',
    ),
    "sorted": (
        b'{\n  "a": 1,\n  "b": 2,\n  "z": 3\n}\n',
        b'{\n  "a": 1,\n  "b": 2,\n  "k": [\n    1\n  ],\n  "z": 3\n}\n',
    ),
    "duplicates and odd numbers": (b'{"a": 1.50, "a": 1E400, "b": -0}', b'{"a": 1.50, "a": 1E400, "k": [1], "b": -0}'),
}


@pytest.mark.parametrize(("old", "new"), CASES.values(), ids=CASES)
def test_where_it_goes(old: bytes, new: bytes) -> None:
    assert with_member(old, "k", [1]) == new
    assert without_member(new, "k") == old


def test_escapes_are_used_where_the_file_uses_them() -> None:
    assert b"\\uff5c" in with_member(rb'{"a": "\u00e9", "b": 1}', KEY, VALUE)
    assert "｜".encode() in with_member('{"a": "é", "b": 1}'.encode(), KEY, VALUE)
    assert "｜".encode() in with_member(rb'{"a": "\\u00e9", "b": 1}', KEY, VALUE)  # a backslash, not an escape


def test_an_unpaired_surrogate_is_escaped() -> None:
    data = with_member('{"a": "é"}'.encode(), KEY, "\ud83d")
    assert members_of(data)[KEY] == "\ud83d"


# --- what is no JSON object ----------------------------------------------------------------------------------------

INVALID = {
    "empty": (b"", "line 1, column 1"),
    "cut off": (b'{"a": 1', "line 1, column 8"),
    "a comma too many": (b'{\n  "a": 1,\n}', "line 3, column 1"),
    "a comment": (b'{"a": 1} // yes', "line 1, column 10"),
    "single quotes": (b"{'a': 1}", "line 1, column 2"),
    "no colon": (b'{"a" 1}', "line 1, column 6"),
    "two objects": (b"{} {}", "line 1, column 4"),
    "NaN": (b'{"a": NaN}', "NaN"),
    "a raw line end in a string": (b'{"a": "x\ny"}', "line 1, column 9"),
    "not UTF-8": (b'{"a": "\xff"}', "byte 7"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "UTF-8"),
    "a list": (b"[1]", "not a JSON object"),
    "null": (b"null", "not a JSON object"),
    "nested too deep": (b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "deep"),
    "HTML": (b"<!doctype html>", "line 1, column 1"),
    "an LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "line 1, column 1"),
}


@pytest.mark.parametrize(("data", "where"), INVALID.values(), ids=INVALID)
def test_what_is_no_object_is_refused(data: bytes, where: str) -> None:
    for edit in (lambda: with_member(data, KEY, VALUE), lambda: without_member(data, KEY), lambda: members_of(data)):
        with pytest.raises(ConfigError) as caught:
            edit()
        assert where in str(caught.value)


@settings(max_examples=150)
@given(FILES, SEEDS)
def test_a_damaged_file_is_refused_or_still_json(data: bytes, seed: int) -> None:
    draws = random.Random(seed)
    at = draws.randrange(len(data))
    damaged = data[:at] + draws.choice([b"", b"}", b'"', b"\\", b",", b"\xff"]) + data[at + 1 :]
    try:
        strict = json.loads(damaged.decode("utf-8").removeprefix("\ufeff"), parse_int=str, parse_float=str)
    except ValueError:
        strict = None
    if isinstance(strict, dict):
        assert without_member(with_member(damaged, "new member", 1), "new member") == damaged
    else:
        with pytest.raises(ConfigError):
            with_member(damaged, KEY, VALUE)
