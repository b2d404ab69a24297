"""Where a tokenizer keeps its response template: the instance's attribute and its init arguments.

Invariant: both places agree. Light: neither the parser nor transformers is imported.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .errors import TemplateError, TemplateMissingError

if TYPE_CHECKING:
    from .template import ResponseTemplate

KEY = "response_template"

_MISSING: Any = object()


def store(tokenizer: Any, value: Any) -> None:
    """Set the template, as JSON data; None: there is none, and the key is not saved, either."""
    tokenizer.__dict__[KEY] = value
    arguments = tokenizer.__dict__.get("init_kwargs")
    if isinstance(arguments, dict):
        if value is None:
            arguments.pop(KEY, None)
        else:
            arguments[KEY] = copy.deepcopy(value)


def stored_in(tokenizer: Any) -> Any:
    """What is set: on the instance or, where transformers knows no such attribute, among its init arguments."""
    value = tokenizer.__dict__.get(KEY, _MISSING)
    if value is not _MISSING:
        return value
    arguments = tokenizer.__dict__.get("init_kwargs")
    return arguments.get(KEY) if isinstance(arguments, dict) else None


def response_template_of(tokenizer: Any) -> ResponseTemplate:
    """The tokenizer's template, loaded.

    Raises:
        TemplateMissingError: it has none.
        TemplateError: it is not valid.
    """
    value = stored_in(tokenizer)
    if value is None:
        raise TemplateMissingError(_how_to_set(tokenizer))
    return load_stored(value)


def load_stored(value: Any) -> ResponseTemplate:
    """A config's value is an object or nothing: a string in it must not be taken for the path of a file."""
    from .template import ResponseTemplate, load_template

    if not isinstance(value, (Mapping, ResponseTemplate)):
        raise TemplateError(f"a response template is a JSON object, not {type(value).__name__}")
    return load_template(value)


def _how_to_set(tokenizer: Any) -> str:
    """What to do about a missing template: names the one of the registry that would fit."""
    from .registry import template_for

    try:
        found = template_for(tokenizer)
    except Exception:  # it is only advice; the error that is being raised must not turn into another
        found = None
    name = found.name if found is not None else "NAME"
    advice = (
        f"the registry's template {name!r} fits it"
        if found is not None
        else "no template of the registry is known to fit it (response_templates.list_templates() names them)"
    )
    return (
        f"this {type(tokenizer).__name__} has no response template; {advice}. Set one with"
        f" tokenizer.response_template = response_templates.get_template({name!r}).template.to_dict()"
    )


def inner_tokenizer(processor: Any) -> Any:
    tokenizer = getattr(processor, "tokenizer", None)
    if tokenizer is None:
        raise TemplateMissingError(f"this {type(processor).__name__} has no tokenizer, so it cannot parse a response")
    return tokenizer


def tokenizer_of(owner: Any) -> Any:
    """The tokenizer itself, or that of a processor. Raises TemplateMissingError for a processor without one."""
    return owner if hasattr(owner, "convert_ids_to_tokens") else inner_tokenizer(owner)
