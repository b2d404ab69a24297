"""From the values of regions to the message.

Invariant: a message holds the template's defaults and every field that has a value; of a field that doesn't repeat, the
last value that isn't empty. Bound: linear in the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from .plan import FieldPlan, Plan

Message: TypeAlias = "dict[str, Any]"
NO_GROUPS: Mapping[str, str] = {}


def is_empty(value: Any) -> bool:
    """Values that a message leaves out: an empty string, list or object, and null (but not 0 or false)."""
    return value is None or (not value and isinstance(value, (str, list, dict)))


def merged_groups(opened: Mapping[str, str | None], closed: Mapping[str, str | None]) -> Mapping[str, str]:
    """The close's groups win over the open's; a group that took no part does not count."""
    if not opened and not closed:
        return NO_GROUPS
    return {name: text for name, text in (*opened.items(), *closed.items()) if text is not None}


def add_value(values: dict[str, Any], plan: FieldPlan, value: Any) -> None:
    """Add the value of one region to the `values` of all fields: a list for fields that repeat."""
    name = plan.name
    if plan.field.repeats:
        earlier = values.setdefault(name, [])
        if plan.makes_calls and isinstance(value, list):
            earlier.extend(value)
        else:
            earlier.append(value)
    elif name not in values or not is_empty(value):
        values[name] = value


def assemble(plan: Plan, values: Mapping[str, Any], malformed: Sequence[Mapping[str, Any]] = ()) -> Message:
    """The message of `values` (see `add_value`)."""
    message: Message = plan.template.defaults
    for name, value in values.items():
        field = plan.fields[name].field
        if field.join is not None:
            value = field.join.join(value)
        if name in message and field.repeats and isinstance(message[name], list):
            value = [*message[name], *value]
        if name in message or not is_empty(value):
            message[name] = value
    if malformed:
        message["malformed"] = list(malformed)
    return message
