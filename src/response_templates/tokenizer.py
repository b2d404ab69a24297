"""The plugin for transformers: every tokenizer and processor parses what its model generated.

`install` patches a few names onto `PreTrainedTokenizerBase` and `ProcessorMixin`, so that it reaches subclasses, fast
and slow, and objects that exist already; `uninstall` puts back what was there. Where transformers has an engine of its
own (≥ 5.13) ours takes its place, with the same signatures and an `errors=` more.

Invariant: the template lives where transformers itself would keep it (the instance's attribute and `init_kwargs`), so
saving, loading, copying and pickling carry it along, with the plugin and without.
Bound: a prefix of ids is decoded only as far back as its last anchor (see `detokenize`), however long the prompt is.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from . import pipelines
from .attribute import KEY, inner_tokenizer, load_stored, store, stored_in
from .errors import InputTypeError
from .imports import when_imported
from .reasoning import with_reasoning

if TYPE_CHECKING:
    from .id_parser import IdParser
    from .message import Message
    from .parser import Errors

_MISSING: Any = object()
_lock = threading.RLock()
_loading = threading.local()
_originals: list[tuple[type, str, Any]] = []  # what `install` replaced: (class, name, what was there)
_pending: list[Callable[[], None]] = []  # what is still to be patched: calls it off


def install() -> None:
    """Give all tokenizers and processors the plugin. Calling it again changes nothing."""
    with _lock:
        if _originals:
            return
        from transformers import PreTrainedTokenizerBase

        _patch(PreTrainedTokenizerBase, _TOKENIZER)
        # The processors' module loads torch where that is installed: it is patched when somebody asks for it.
        _pending.append(when_imported("transformers.processing_utils", _patch_processors))
        _pending.append(when_imported("transformers.pipelines.text_generation", _patch_pipelines))


def _patch_processors(module: Any) -> None:
    with _lock:
        if _originals:  # else `uninstall` came first: the import was under way, in another thread
            _patch(module.ProcessorMixin, _PROCESSOR)


def _patch_pipelines(module: Any) -> None:
    with _lock:
        if _originals:
            for owner, makers in pipelines.patches(module):
                _patch(owner, makers)


def _patch(owner: type, makers: Mapping[str, Callable[[Any], Any]]) -> None:
    patches = [(name, make(getattr(owner, name, _MISSING))) for name, make in makers.items()]
    for name, ours in patches:
        _originals.append((owner, name, owner.__dict__.get(name, _MISSING)))
        setattr(owner, name, ours)


def uninstall() -> None:
    """Put back what was there before `install`. Templates that were set stay on their tokenizers."""
    with _lock:
        while _pending:
            _pending.pop()()
        while _originals:
            owner, name, original = _originals.pop()
            if original is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


# --- the attribute -----------------------------------------------------------------------------------------------


def _get_template(self: Any) -> dict[str, Any] | None:
    """The response template, as it was set (a copy); None if there is none."""
    value: dict[str, Any] | None = copy.deepcopy(stored_in(self))
    return value


def _set_template(self: Any, value: Any) -> None:
    """Set the response template: a dict, a `ResponseTemplate`, a JSON string or a path; None: none.

    Raises:
        TemplateError: it is not valid. (While a tokenizer is being loaded it is kept as it is: see `_initializer`.)
    """
    if value is None:
        _delete_template(self)
    elif getattr(_loading, "depth", 0):
        store(self, value)
    else:
        from .template import load_template

        store(self, load_template(value).to_dict())


def _delete_template(self: Any) -> None:
    """No response template any more; the key is not saved, either."""
    store(self, None)


# --- loading and saving --------------------------------------------------------------------------------------------


def _initializer(native: Any) -> Callable[..., None]:
    """`__init__` of the tokenizers' base: a template that a config brings along must not make the load fail."""

    @functools.wraps(native)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        _loading.depth = getattr(_loading, "depth", 0) + 1
        try:
            native(self, *args, **kwargs)
        finally:
            _loading.depth -= 1
        stored = stored_in(self)
        if stored is not None:
            _check_loaded(self, stored)

    return __init__


def _check_loaded(tokenizer: Any, stored: Any) -> None:
    """Warn of a template that is broken; one that was given as a `ResponseTemplate` becomes JSON, as in a config."""
    if _as_json(stored) is not stored:
        store(tokenizer, _as_json(stored))
    try:
        load_stored(stored)
    except Exception as error:  # whatever is wrong with it: loading goes on
        name = getattr(tokenizer, "name_or_path", None) or type(tokenizer).__name__
        warnings.warn(
            f"the response template of {name!r} is not valid, and parsing with it will fail: {error}", stacklevel=4
        )


def _saver(native: Any) -> Callable[..., Any]:
    """`save_pretrained` that also saves a template that was set as a plain attribute, before `install`."""

    @functools.wraps(native)
    def save_pretrained(self: Any, *args: Any, **kwargs: Any) -> Any:
        store(self, _as_json(stored_in(self)))
        return native(self, *args, **kwargs)

    return save_pretrained


def _as_json(stored: Any) -> Any:
    to_dict = getattr(stored, "to_dict", None)  # a `ResponseTemplate`; asking for its class would import the parser's
    return stored if to_dict is None else to_dict()


# --- parsing -----------------------------------------------------------------------------------------------------


def _tokenizer_parse(native: Any) -> Callable[..., Any]:
    def parse(
        self: Any,
        response: Any,
        schema: Any = None,
        *,
        prefix: Any = None,
        tools: list[Any] | None = None,
        errors: Errors = "strict",
        token_delimiters: bool = False,
        offsets: bool = False,
    ) -> Message | list[Message]:
        """Turn what the model generated back into a message (or, for a batch, a list of messages).

        Args:
            response: a str, a list of token ids, a numpy array or tensor of them, or a batch of any of these
                (padding behind the end token is dropped).
            schema: a response template to use in place of the tokenizer's own.
            prefix: the prompt, in any of the same kinds; for a batch one for all, or one each. `""` opts out.
            tools: the tools that were offered, as for `apply_chat_template`; string arguments are cast by them.
            errors: `"strict"`, `"recover"` or `"repair"`; see `response_templates.ResponseParser`.
            token_delimiters: a delimiter that is a token of its own in this vocabulary (an added token) counts only
                where the model emitted that token; the same characters written with ordinary tokens are text. Only for
                ids.
            offsets: the message gets a key `offsets`, which says where each region is in the generation (see
                `response_templates.OffsetParser`); for ids also in tokens.

        Raises:
            TemplateMissingError: the tokenizer has no response template.
            ParseError: under `errors="strict"`, a region doesn't parse.
            PrefixRequiredError, TemplateError, InputTypeError: as for `response_templates.parse_response`.
        """
        if _means_old_schema(self, schema, native):
            return _by_old_schema(native, self, response, schema)
        from .responses import parsed

        return parsed(
            self,
            response,
            schema,
            prefix=prefix,
            tools=tools,
            errors=errors,
            token_delimiters=token_delimiters,
            offsets=offsets,
        )

    return _named(parse, "parse_response", native)


def _tokenizer_parser(native: Any) -> Callable[..., Any]:
    def get_parser(
        self: Any,
        response_template: Any = None,
        *,
        prefix: Any = None,
        tools: list[Any] | None = None,
        errors: Errors = "strict",
        groups: bool = False,
        token_delimiters: bool = False,
        offsets: bool = False,
    ) -> IdParser:
        """A parser for one generation as it streams in (see `response_templates.ResponseParser`).

        Its `feed` takes text, an id, or a list, an array or a tensor of ids, in any mixture. Ids are decoded as they
        come: a character that is not complete is held, and becomes U+FFFD where text or the end follows.

        Args:
            response_template: a template to use in place of the tokenizer's own.
            prefix: the prompt: a str, a list of token ids, a numpy array or a tensor. `""` opts out.
            tools, errors, token_delimiters: as for `parse_response`.
            groups: as for `response_templates.ResponseParser`.
            offsets: each event says where it is in the generation (see `response_templates.OffsetParser`), also in
                tokens: `token_start` and `token_end`.

        Raises:
            TemplateMissingError: the tokenizer has no response template.
            PrefixRequiredError, TemplateError, InputTypeError: as for `response_templates.ResponseParser`.
        """
        from .responses import response_parser

        return response_parser(
            self,
            response_template,
            prefix=prefix,
            tools=tools,
            errors=errors,
            groups=groups,
            token_delimiters=token_delimiters,
            offsets=offsets,
        )

    return _named(get_parser, "get_response_parser", native)


def _named(function: Callable[..., Any], name: str, native: Any) -> Callable[..., Any]:
    owner = getattr(native, "__qualname__", "PreTrainedTokenizerBase.").rpartition(".")[0]
    function.__name__ = name
    function.__qualname__ = f"{owner}.{name}"
    return function


# --- the older format, response_schema -----------------------------------------------------------------------------


def _means_old_schema(tokenizer: Any, schema: Any, native: Any) -> bool:
    """Is it a `response_schema` rather than a template? Where none is given, does the tokenizer have only that?"""
    if schema is None:
        own = getattr(tokenizer, "response_schema", None)
        return bool(own) and stored_in(tokenizer) is None and _knows_old_schemas(native)
    if isinstance(schema, list):
        return True
    if not isinstance(schema, dict) or "type" not in schema:
        return False
    from .template import TEMPLATE_KEYS

    return not set(schema) & set(TEMPLATE_KEYS)


def _knows_old_schemas(native: Any) -> bool:
    """Native methods with a `prefix` parse response templates; those before them parsed schemas."""
    return native is not _MISSING and "prefix" not in inspect.signature(native).parameters


def _by_old_schema(native: Any, tokenizer: Any, response: Any, schema: Any) -> Message | list[Message]:
    if not _knows_old_schemas(native):
        raise InputTypeError(
            "this is a response_schema, an older format that this version of transformers cannot parse;"
            " pass a response template (a dict with 'start_anchor' and 'fields')"
        )
    arguments = (response,) if schema is None else (response, schema)
    message: Message | list[Message] = native(tokenizer, *arguments)
    return message


# --- the way back ------------------------------------------------------------------------------------------------


def _chat_template_call(native: Any) -> Callable[..., Any]:
    """`apply_chat_template` that shows the chat template the reasoning under the key that it reads."""
    signature = inspect.signature(native)

    @functools.wraps(native)
    def apply_chat_template(self: Any, conversation: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind_partial(self, conversation, *args, **kwargs).arguments
        except TypeError:  # native says what is wrong with the arguments
            return native(self, conversation, *args, **kwargs)
        given = {**given.get("kwargs", {}), **given}
        source = _chat_template_source(self, given.get("chat_template"), given.get("tools"))
        return native(self, with_reasoning(conversation, source), *args, **kwargs)

    return apply_chat_template


def _chat_template_source(owner: Any, chosen: Any, tools: Any) -> str:
    """The source of the chat template that a call of `apply_chat_template` renders; empty if there is none."""
    resolve = getattr(owner, "get_chat_template", None)
    if resolve is None:  # a processor
        known = getattr(owner, "chat_template", None)
        named = known if isinstance(known, Mapping) else {"default": known}
        source = named.get("default") if chosen is None else named.get(chosen, chosen)
    else:
        try:
            source = resolve(chosen, tools)
        except Exception:  # native says what is wrong
            source = None
    return source if isinstance(source, str) else ""


# --- processors --------------------------------------------------------------------------------------------------


def _processor_attribute(native: Any) -> property:
    def get(self: Any) -> Any:
        return inner_tokenizer(self).response_template

    def set_(self: Any, value: Any) -> None:
        inner_tokenizer(self).response_template = value

    def delete(self: Any) -> None:
        del inner_tokenizer(self).response_template

    return property(get, set_, delete, "The response template of the processor's tokenizer.")


def _handed_on(name: str, make: Callable[[Any], Callable[..., Any]]) -> Callable[[Any], Callable[..., Any]]:
    """A method of a processor with the signature of the tokenizer's method `name`, which it calls."""

    def of_processor(native: Any) -> Callable[..., Any]:
        @functools.wraps(make(_MISSING))
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(inner_tokenizer(self), name)(*args, **kwargs)

        method.__qualname__ = f"ProcessorMixin.{name}"
        return method

    return of_processor


_TOKENIZER: Mapping[str, Callable[[Any], Any]] = {
    "__init__": _initializer,
    "save_pretrained": _saver,
    "apply_chat_template": _chat_template_call,
    "parse_response": _tokenizer_parse,
    "get_response_parser": _tokenizer_parser,
    KEY: lambda native: property(_get_template, _set_template, _delete_template, _get_template.__doc__),
}
_PROCESSOR: Mapping[str, Callable[[Any], Any]] = {
    "apply_chat_template": _chat_template_call,
    "parse_response": _handed_on("parse_response", _tokenizer_parse),
    "get_response_parser": _handed_on("get_response_parser", _tokenizer_parser),
    KEY: _processor_attribute,
}
