"""The plugin for transformers: every tokenizer and processor parses what its model generated.

`install` patches a few names onto `PreTrainedTokenizerBase` and `ProcessorMixin`, so that it reaches subclasses, fast
and slow, and objects that exist already; `uninstall` puts back what was there. Where transformers has an engine of its
own (≥ 5.13) ours takes its place, with the same signatures and an `errors=` more.

Invariant: the template lives where transformers itself would keep it (the instance's attribute and `init_kwargs`), so
saving, loading, copying and pickling carry it along, with the plugin and without.
Bound: a prefix of ids is decoded only as far back as its last anchor, however long the prompt is.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from . import ids as token_ids
from .errors import InputTypeError, ResponseTemplateError, TemplateError, TemplateMissingError
from .parser import Errors, Message, ResponseParser, parse_response
from .plan import plan_for
from .reasoning import with_reasoning
from .template import ResponseTemplate, load_template

KEY = "response_template"
_MISSING: Any = object()
_lock = threading.RLock()
_loading = threading.local()
_originals: list[tuple[type, str, Any]] = []  # what `install` replaced: (class, name, what was there)


def install() -> None:
    """Give all tokenizers and processors the plugin. Calling it again changes nothing."""
    with _lock:
        if _originals:
            return
        from transformers import PreTrainedTokenizerBase, ProcessorMixin

        for owner, names in ((PreTrainedTokenizerBase, _TOKENIZER), (ProcessorMixin, _PROCESSOR)):
            for name, make in names.items():
                native = getattr(owner, name, _MISSING)
                _originals.append((owner, name, owner.__dict__.get(name, _MISSING)))
                setattr(owner, name, make(native))


def uninstall() -> None:
    """Put back what was there before `install`. Templates that were set stay on their tokenizers."""
    with _lock:
        while _originals:
            owner, name, original = _originals.pop()
            if original is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


# --- the attribute -----------------------------------------------------------------------------------------------


def _get_template(self: Any) -> dict[str, Any] | None:
    """The response template, as it was set; None if there is none."""
    stored = _stored(self)
    return copy.deepcopy(stored) if isinstance(stored, dict) else stored


def _set_template(self: Any, value: Any) -> None:
    """Set the response template: a dict, a `ResponseTemplate`, a JSON string or a path; None: none.

    Raises:
        TemplateError: it is not valid. (While a tokenizer is being loaded it only warns: see `_loaded`.)
    """
    if not getattr(_loading, "depth", 0) and value is not None:
        value = load_template(value).to_dict() if not isinstance(value, dict) else _checked(value)
    if value is None:
        _delete_template(self)
        return
    self.__dict__[KEY] = value
    if isinstance(self.__dict__.get("init_kwargs"), dict):
        self.init_kwargs[KEY] = copy.deepcopy(value)


def _checked(value: dict[str, Any]) -> dict[str, Any]:
    load_template(value)
    return copy.deepcopy(value)


def _delete_template(self: Any) -> None:
    """No response template any more; the key is not saved, either."""
    self.__dict__[KEY] = None
    if isinstance(self.__dict__.get("init_kwargs"), dict):
        self.init_kwargs.pop(KEY, None)


def _stored(tokenizer: Any) -> Any:
    """What is set: on the instance or, where transformers knows no such attribute, among its init arguments."""
    stored = tokenizer.__dict__.get(KEY, _MISSING)
    if stored is not _MISSING:
        return stored
    arguments = tokenizer.__dict__.get("init_kwargs")
    return arguments.get(KEY) if isinstance(arguments, dict) else None


def _tokenizer_attribute(native: Any) -> property:
    return property(_get_template, _set_template, _delete_template, _get_template.__doc__)


def _initializer(native: Any) -> Callable[..., None]:
    """`__init__` of the tokenizers' base: a template that a config brings along must not make the load fail."""

    @functools.wraps(native)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        _loading.depth = getattr(_loading, "depth", 0) + 1
        try:
            native(self, *args, **kwargs)
        finally:
            _loading.depth -= 1
        _warn_if_broken(self)

    return __init__


def _warn_if_broken(tokenizer: Any) -> None:
    stored = _stored(tokenizer)
    if stored is None:
        return
    try:
        load_template(stored)
    except TemplateError as error:
        name = tokenizer.__dict__.get("name_or_path") or type(tokenizer).__name__
        warnings.warn(
            f"the response template of {name!r} is not valid, and parsing with it will fail: {error}", stacklevel=4
        )


# --- parsing -----------------------------------------------------------------------------------------------------


def _template_of(tokenizer: Any) -> ResponseTemplate:
    stored = _stored(tokenizer)
    if stored is None:
        raise TemplateMissingError(_how_to_set(tokenizer))
    return load_template(stored)


def _how_to_set(tokenizer: Any) -> str:
    """What to do about a missing template: names the one of the registry that would fit."""
    from .registry import template_for

    try:
        found = template_for(tokenizer)
    except (ResponseTemplateError, OSError, ValueError, AttributeError, TypeError):
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


def _tokenizer_parse(native: Any) -> Callable[..., Any]:
    def parse_response_(
        self: Any,
        response: Any,
        schema: Any = None,
        *,
        prefix: Any = None,
        tools: list[Any] | None = None,
        errors: Errors = "strict",
    ) -> Message | list[Message]:
        """Turn what the model generated back into a message (or, for a batch, a list of messages).

        Args:
            response: a str, a list of token ids, a numpy array or tensor of them, or a batch of any of these
                (padding behind the end token is dropped).
            schema: a response template to use in place of the tokenizer's own.
            prefix: the prompt, in any of the same kinds; for a batch one for all, or one each. `""` opts out.
            tools: the tools that were offered, as for `apply_chat_template`; string arguments are cast by them.
            errors: `"strict"`, `"recover"` or `"repair"`; see `response_templates.ResponseParser`.

        Raises:
            TemplateMissingError: the tokenizer has no response template.
            ParseError: under `errors="strict"`, a region doesn't parse.
            PrefixRequiredError, TemplateError, InputTypeError: as for `response_templates.parse_response`.
        """
        if _is_old_schema(self, schema):
            old: Message = _by_old_schema(native, self, response, schema)
            return old
        template = _template_of(self) if schema is None else load_template(schema)
        texts = token_ids.texts_of(self, response, "response")
        prefixes = _prefixes_of(self, prefix, template)
        if isinstance(texts, str) and isinstance(prefixes, list) and len(prefixes) == 1:
            prefixes = prefixes[0]  # a batch of one prompt and one row of what was generated for it
        message: Message | list[Message] = parse_response(texts, template, prefix=prefixes, tools=tools, errors=errors)
        return message

    return _named(parse_response_, "parse_response", native)


def _is_old_schema(tokenizer: Any, schema: Any) -> bool:
    """Is it a `response_schema`, the older format, rather than a template?"""
    if schema is None:
        return _stored(tokenizer) is None and bool(getattr(tokenizer, "response_schema", None))
    return isinstance(schema, (dict, list)) and not (isinstance(schema, dict) and "fields" in schema)


def _by_old_schema(native: Any, tokenizer: Any, response: Any, schema: Any) -> Any:
    if native is _MISSING:
        raise InputTypeError(
            "this is a response_schema, an older format that this version of transformers can't parse;"
            " pass a response template (a dict with 'fields')"
        )
    return native(tokenizer, response) if schema is None else native(tokenizer, response, schema)


def _prefixes_of(tokenizer: Any, prefix: Any, template: ResponseTemplate) -> Any:
    if prefix is None:
        return None
    return token_ids.prefixes_of(tokenizer, prefix, plan_for(template).last_anchor)


def _tokenizer_parser(native: Any) -> Callable[..., Any]:
    def get_response_parser(
        self: Any,
        response_template: Any = None,
        *,
        prefix: Any = None,
        tools: list[Any] | None = None,
        errors: Errors = "strict",
    ) -> ResponseParser:
        """A parser for one generation as it streams in (see `response_templates.ResponseParser`).

        Args:
            response_template: a template to use in place of the tokenizer's own.
            prefix: the prompt: a str, a list of token ids, a numpy array or a tensor. `""` opts out.
            tools, errors: as for `parse_response`.

        Raises:
            TemplateMissingError: the tokenizer has no response template.
            PrefixRequiredError, TemplateError, InputTypeError: as for `response_templates.ResponseParser`.
        """
        template = _template_of(self) if response_template is None else load_template(response_template)
        prefixes = _prefixes_of(self, prefix, template)
        if isinstance(prefixes, list):
            if len(prefixes) != 1:
                raise InputTypeError(f"a parser is for one generation, but there are {len(prefixes)} prefixes")
            prefixes = prefixes[0]
        return ResponseParser(template, prefixes, tools=tools, errors=errors)

    return _named(get_response_parser, "get_response_parser", native)


def _named(function: Callable[..., Any], name: str, native: Any) -> Callable[..., Any]:
    function.__name__ = name
    function.__qualname__ = f"{getattr(native, '__qualname__', name).rsplit('.', 1)[0]}.{name}"
    return function


# --- the way back ------------------------------------------------------------------------------------------------


def _chat_template_call(native: Any) -> Callable[..., Any]:
    """`apply_chat_template` that shows the chat template the reasoning under the key that it reads."""
    signature = inspect.signature(native)

    @functools.wraps(native)
    def apply_chat_template(self: Any, conversation: Any, *args: Any, **kwargs: Any) -> Any:
        sources = _sources(self, signature, conversation, args, kwargs)
        return native(self, with_reasoning(conversation, sources), *args, **kwargs)

    return apply_chat_template


def _sources(self: Any, signature: inspect.Signature, conversation: Any, args: Any, kwargs: Any) -> str:
    """The source of the chat template that this call will render; empty if it can't be told."""
    try:
        given = signature.bind_partial(self, conversation, *args, **kwargs).arguments
    except TypeError:
        return ""
    given = {**given.get("kwargs", {}), **given}
    chosen, tools = given.get("chat_template"), given.get("tools")
    owner = self if getattr(self, "chat_template", None) else getattr(self, "tokenizer", self)
    known = getattr(owner, "chat_template", None)
    if isinstance(chosen, str):
        named = known.get(chosen) if isinstance(known, Mapping) else None
        return named if isinstance(named, str) else chosen
    if isinstance(known, Mapping):
        name = "tool_use" if tools is not None and "tool_use" in known else "default"
        found = known.get(name)
        return found if isinstance(found, str) else ""
    return known if isinstance(known, str) else ""


# --- processors --------------------------------------------------------------------------------------------------


def _processor_attribute(native: Any) -> property:
    def get(self: Any) -> Any:
        """The response template of the processor's tokenizer."""
        return _inner(self).response_template

    def set_(self: Any, value: Any) -> None:
        _inner(self).response_template = value

    def delete(self: Any) -> None:
        del _inner(self).response_template

    return property(get, set_, delete, get.__doc__)


def _inner(processor: Any) -> Any:
    tokenizer = getattr(processor, "tokenizer", None)
    if tokenizer is None:
        raise TemplateMissingError(f"this {type(processor).__name__} has no tokenizer, so it can't parse a response")
    return tokenizer


def _delegate(name: str) -> Callable[[Any], Callable[..., Any]]:
    def make(native: Any) -> Callable[..., Any]:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(_inner(self), name)(*args, **kwargs)

        method.__doc__ = f"`{name}` of the processor's tokenizer."
        return _named(method, name, native)

    return make


_TOKENIZER: Mapping[str, Callable[[Any], Any]] = {
    "__init__": _initializer,
    KEY: _tokenizer_attribute,
    "parse_response": _tokenizer_parse,
    "get_response_parser": _tokenizer_parser,
    "apply_chat_template": _chat_template_call,
}
_PROCESSOR: Mapping[str, Callable[[Any], Any]] = {
    KEY: _processor_attribute,
    "parse_response": _delegate("parse_response"),
    "get_response_parser": _delegate("get_response_parser"),
    "apply_chat_template": _chat_template_call,
}
