"""The OpenAI shape: messages and streams as the Chat Completions API has them.

Three things differ from a message here. A call's arguments are a string of JSON; every call has an id; and a stream is
`chat.completion.chunk` objects, whose deltas a client puts together by concatenating strings.

The JSON of arguments is `json.dumps(arguments, ensure_ascii=False)`, in streams as in whole messages.

Arguments are sent as they are written: strings as they grow, everything else once it is complete, and a string that
a tool's schema may make something else once its type is settled. Of several calls in one region the first is sent so;
the others follow when the region closes, because a client takes a call for complete when the next one begins.

Invariant: put together, the deltas of a stream are `to_openai` of the message that the parser gives. A call's closing
brace is sent only once its region is accepted. So the arguments of a call that turns out malformed, or that the
generation's end cut off, are never valid JSON: nobody can take it for whole. What the model wrote there follows under
`malformed`, with `tool_call_index`. (Where the model wrote an argument twice, or the region was repaired, the JSON has
a key twice; JSON readers take the later value. Where not even that makes it right, the call stays unfinished, and the
right one follows with an index of its own.)
Bound: linear in the generation, whatever the chunks; what is kept is what is not sent yet.

Facts of the format: the types of the `openai` package, 3.57 (`openai.types.chat`).
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, TypeAlias

from .content.growing import GROWING, Growing, GrowingList, GrowingObject, GrowingText
from .errors import InputTypeError, StreamError, TemplateError
from .live import LiveCall, LiveRegion, live_fields
from .message import Message, is_empty
from .parser import Event, TemplateSource
from .plan import FieldPlan, plan_for
from .shaping import CALLS_FIELD
from .template import load_template
from .tools import ToolTypes

Chunk: TypeAlias = "dict[str, Any]"
Delta: TypeAlias = "dict[str, Any]"
Usage: TypeAlias = "Mapping[str, Any]"

_TEXT_FIELDS = ("content", "reasoning_content")  # strings in the OpenAI shape, whatever the template makes of them
_REASONS = ("stop", "length", "tool_calls", "content_filter", "function_call")
_TRIES = 100  # for an id that no other call has


def new_call_id() -> str:
    """An id for a call that has none: `call_` and 24 random hexadecimal digits."""
    return f"call_{secrets.token_hex(12)}"


def arguments_text(arguments: Any) -> str:
    """The JSON that stands for the arguments of a call.

    Raises:
        ValueError, TypeError: there is none (NaN, a set, …).
    """
    return json.dumps(arguments, ensure_ascii=False, allow_nan=False)


# --- streams ---------------------------------------------------------------------------------------------------------


def openai_deltas(
    events: Iterable[Event],
    response_template: TemplateSource,
    *,
    tools: Sequence[Any] | None = None,
    model: str = "",
    completion_id: str | None = None,
    created: int | None = None,
    choice: int = 0,
    finish_reason: str | Callable[[], str | None] | None = None,
    usage: Usage | Callable[[], Usage | None] | None = None,
    new_id: Callable[[], str] = new_call_id,
) -> Iterator[Chunk]:
    """The `chat.completion.chunk` objects that a stream of events is.

    Args:
        events: a parser's events, its `initial_events` first, to the end. With `ResponseParser(groups=True)` the name
            of a call is sent as soon as its open delimiter is there.
        response_template: the template that the parser was given.
        tools: the tools that the parser was given; with them arguments of type string are sent as they grow.
        model, completion_id, created: what every chunk says of itself; by default an id is made up, and it is now.
        choice: the index of the choice.
        finish_reason: why the generation ended, if the caller knows (`"length"`), or a function that is asked at the
            end. `"stop"` and None become `"tool_calls"` if there was a whole call.
        usage: the token counts (a dict, or `openai`'s `CompletionUsage`), or a function that is asked at the end; they
            come in a last chunk without choices.
        new_id: gives the id of a call for which the model wrote none.

    Raises:
        TemplateError: the template does not make calls of its `tool_calls`.
        InputTypeError: an event is none of a parser that has this template, or `finish_reason` or `usage` is none.
    """
    if not isinstance(events, Iterable):
        hint = "; use async_openai_deltas" if isinstance(events, AsyncIterable) else ""
        raise InputTypeError(f"events must be the events of a parser, not {type(events).__name__}{hint}")
    maker = OpenAIDeltas(
        response_template,
        tools=tools,
        model=model,
        completion_id=completion_id,
        created=created,
        choice=choice,
        new_id=new_id,
    )
    yield from maker.begin()
    for event in events:
        yield from maker.feed(event)
    yield from maker.finish(_asked(finish_reason), _asked(usage))


async def async_openai_deltas(
    events: AsyncIterable[Event],
    response_template: TemplateSource,
    *,
    tools: Sequence[Any] | None = None,
    model: str = "",
    completion_id: str | None = None,
    created: int | None = None,
    choice: int = 0,
    finish_reason: str | Callable[[], str | None] | None = None,
    usage: Usage | Callable[[], Usage | None] | None = None,
    new_id: Callable[[], str] = new_call_id,
) -> AsyncIterator[Chunk]:
    """As `openai_deltas`, for an asynchronous stream of events."""
    if not isinstance(events, AsyncIterable):
        hint = "; use openai_deltas" if isinstance(events, Iterable) else ""
        raise InputTypeError(f"events must be an asynchronous stream of events, not {type(events).__name__}{hint}")
    maker = OpenAIDeltas(
        response_template,
        tools=tools,
        model=model,
        completion_id=completion_id,
        created=created,
        choice=choice,
        new_id=new_id,
    )
    for chunk in maker.begin():
        yield chunk
    async for event in events:
        for chunk in maker.feed(event):
            yield chunk
    for chunk in maker.finish(_asked(finish_reason), _asked(usage)):
        yield chunk


def _asked(value: Any) -> Any:
    return value() if callable(value) else value


class OpenAIDeltas:
    """Turns the events of one generation into chunks: `begin`, then `feed` each event, then `finish`.

    The arguments are those of `openai_deltas`, and so are the errors; `feed` and `finish` after `finish` are a
    `StreamError`.
    """

    def __init__(
        self,
        response_template: TemplateSource,
        *,
        tools: Sequence[Any] | None = None,
        model: str = "",
        completion_id: str | None = None,
        created: int | None = None,
        choice: int = 0,
        new_id: Callable[[], str] = new_call_id,
    ) -> None:
        self._plan = plan_for(load_template(response_template))
        calls = self._plan.fields.get(CALLS_FIELD)
        if calls is not None and not calls.makes_calls:
            raise TemplateError(
                f"field {CALLS_FIELD!r}: the template shapes its values its own way, so they can't be sent as OpenAI's"
                " tool calls; give it a transform with a 'function'"
            )
        self._head = {
            "id": completion_id if completion_id is not None else f"chatcmpl-{secrets.token_hex(12)}",
            "object": "chat.completion.chunk",
            "created": int(time.time()) if created is None else created,
            "model": model,
        }
        self._fields = live_fields(self._plan.template)
        self._tools = ToolTypes.from_tools(tools) if tools else None
        self._live: LiveRegion | None = None  # the open region of calls
        self._stream: _ArgumentsStream | None = None  # of the call in it that is being sent
        self._choice = choice
        self._new_id = new_id
        self._calls = 0
        self._ids: set[str] = set()
        self._malformed = 0
        self._whole = False
        self._seen: set[str] = set()
        self._accepted: set[str] = set()
        self._late: dict[str, list[Any]] = {}  # values of fields that only the end tells
        self._space = ""  # white space at the end of the open text region: sent only if more text follows
        self._finished = False

    def begin(self) -> list[Chunk]:
        """The chunk that says the role."""
        return [self._chunk({"role": self._plan.template.defaults.get("role", "assistant")})]

    def feed(self, event: Event) -> list[Chunk]:
        """The chunks that one event gives."""
        self._check_unfinished()
        try:
            handler, needed = _HANDLERS[event["type"]]
            plan = self._plan.fields[event["field"]]
            event[needed]
        except (KeyError, TypeError) as error:
            known = ", ".join(self._plan.fields)
            raise InputTypeError(
                f"this is no event of a parser with this template (its fields are {known}): {event!r:.200}"
            ) from error
        return [self._chunk(delta) for delta in handler(self, plan, event)]

    def finish(self, finish_reason: str | None = None, usage: Usage | None = None) -> list[Chunk]:
        """The last chunks: why the generation ended, and (if given) what it took."""
        self._check_unfinished()
        if finish_reason is not None and finish_reason not in _REASONS:
            raise InputTypeError(f"finish_reason must be one of {', '.join(_REASONS)}, or None, not {finish_reason!r}")
        counts = None if usage is None else _as_dict(usage, "usage")
        self._finished = True
        unseen = {
            key: value for key, value in self._plan.template.defaults.items() if key != "role" and key not in self._seen
        }
        late = {name: self._late_value(name, values) for name, values in self._late.items()}
        chunks = [self._chunk({key: value}) for key, value in {**unseen, **late}.items()]
        if finish_reason in (None, "stop"):
            finish_reason = "tool_calls" if self._whole else "stop"
        chunks.append(self._chunk({}, finish_reason))
        if counts is not None:
            chunks.append({**self._head, "choices": [], "usage": counts})
        return chunks

    def _check_unfinished(self) -> None:
        if self._finished:
            raise StreamError("this stream is finished; make an OpenAIDeltas for each generation")

    def _late_value(self, name: str, values: list[Any]) -> Any:
        """As the parser puts the values of several regions together."""
        field = self._plan.fields[name].field
        value: Any = field.join.join(values) if field.join is not None else values
        if not field.repeats:
            value = next((each for each in reversed(values) if not is_empty(each)), values[-1])
        return _as_text(value) if name in _TEXT_FIELDS else value

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> Chunk:
        choice = {"index": self._choice, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**self._head, "choices": [choice]}

    # -- events ------------------------------------------------------------------------------------------------------

    def _opened(self, plan: FieldPlan, event: Event) -> Iterator[Delta]:
        if plan.name == CALLS_FIELD:
            groups = event.get("groups") if plan.has_groups else {}
            self._live = LiveRegion(self._fields[CALLS_FIELD], groups, self._tools)
        elif plan.name in self._accepted and _is_streamed(plan) and plan.field.join:
            yield {plan.name: plan.field.join}

    def _grown(self, plan: FieldPlan, event: Event) -> Iterator[Delta]:
        if self._live is not None:
            self._live.feed(event["text"])
            yield from self._begin_call(self._live.first)
            if self._stream is not None:
                yield from _arguments(self._stream.index, self._stream.more())
        elif _is_streamed(plan):
            text = self._space + event["text"]
            shown = text.rstrip() if plan.skips_lead else text
            self._space = text[len(shown) :]
            if shown:
                yield {plan.name: shown}

    def _closed(self, plan: FieldPlan, event: Event) -> Iterator[Delta]:
        self._seen.add(plan.name)
        self._accepted.add(plan.name)
        self._space = ""
        value = event["value"]
        if plan.name == CALLS_FIELD:
            calls = value if isinstance(value, list) else [value]
            yield from self._settle_calls(calls)
        elif _is_list(plan) and plan.name not in _TEXT_FIELDS:
            yield {plan.name: [value]}
        elif not _is_streamed(plan):
            self._late.setdefault(plan.name, []).append(value)

    def _broken(self, plan: FieldPlan, event: Event) -> Iterator[Delta]:
        self._seen.add(plan.name)
        stream, self._live, self._stream = self._stream, None, None
        entry = {"field": plan.name, "text": event["text"], "error": event.get("error", "")}
        yield from self._give_up(stream, entry)

    # -- calls -------------------------------------------------------------------------------------------------------

    def _begin_call(self, call: LiveCall | None) -> Iterator[Delta]:
        """The first delta of a call, once its name is known (and its id, if the template says that there is one)."""
        if self._stream is None and call is not None and call.name is not None and not call.waits_for_id:
            self._stream = _ArgumentsStream(self._calls, call)
            yield self._head_of(call.name, call.id, "")

    def _head_of(self, name: str, written_id: Any, arguments: str, **more: Any) -> Delta:
        """A call's first delta."""
        index = self._calls
        self._calls += 1
        call_id = _unique_id(written_id, self._ids, self._new_id)
        self._ids.add(call_id)
        function = {"name": name, "arguments": arguments, **more}
        return {CALLS_FIELD: [{"index": index, "id": call_id, "type": "function", "function": function}]}

    def _settle_calls(self, calls: list[dict[str, Any]]) -> Iterator[Delta]:
        """A region of calls is accepted: what is not sent of them follows."""
        stream, self._live, self._stream = self._stream, None, None
        if stream is not None:
            first = calls[0]["function"] if calls else {}
            rest = stream.rest(first["arguments"]) if first.get("name") == stream.name else None
            if rest is None:
                error = "what was sent of this call is not what it turned out to be; see the calls that follow"
                yield from self._give_up(stream, {"field": CALLS_FIELD, "text": "", "error": error})
            else:
                self._whole = True
                yield from _arguments(stream.index, rest, {key: first[key] for key in first if key not in _OF_CALLS})
                calls = calls[1:]
        for call in calls:
            self._whole = True
            function = call["function"]
            more = {key: function[key] for key in function if key not in _OF_CALLS}
            yield self._head_of(function["name"], call.get("id"), arguments_text(function["arguments"]), **more)

    def _give_up(self, stream: _ArgumentsStream | None, entry: dict[str, Any]) -> Iterator[Delta]:
        """Something is malformed; if a call of it was begun, its arguments stay unfinished."""
        if stream is not None:
            entry = {**entry, "tool_call_index": stream.index}
            if not stream.sent:
                yield from _arguments(stream.index, "{")
        yield {"malformed": [{"index": self._malformed, **entry}]}
        self._malformed += 1


_OF_CALLS = ("name", "arguments")

_Handler: TypeAlias = "Callable[[OpenAIDeltas, FieldPlan, Event], Iterator[Delta]]"
# By an event's type, with the key that it must have.
_HANDLERS: Mapping[str, tuple[_Handler, str]] = {
    "region_open": (OpenAIDeltas._opened, "field"),
    "region_chunk": (OpenAIDeltas._grown, "text"),
    "region_close": (OpenAIDeltas._closed, "value"),
    "region_malformed": (OpenAIDeltas._broken, "text"),
}


def _arguments(index: int, text: str, more: Mapping[str, Any] | None = None) -> Iterator[Delta]:
    """The delta of arguments that grew by `text`."""
    if text or more:
        yield {CALLS_FIELD: [{"index": index, "function": {"arguments": text, **(more or {})}}]}


class _ArgumentsStream:
    """The JSON of one call's arguments, as they are written."""

    __slots__ = ("_call", "_sent", "_ways", "index", "name")

    def __init__(self, index: int, call: LiveCall) -> None:
        self._call = call
        self._sent: list[str] = []
        self._ways: list[tuple[Growing, int]] = [(call.arguments, 0)]  # what is open, and how much of it is sent
        self.index = index
        self.name = call.name

    @property
    def sent(self) -> bool:
        """Was anything sent?"""
        return bool(self._sent)

    def more(self) -> str:
        """The text that has come since."""
        if not self._call.begun:
            return ""
        parts = [] if self._sent else ["{"]
        while self._ways:
            node, done = self._ways.pop()
            if isinstance(node, GrowingText):
                text = node.text()
                parts.append(encode_basestring(text[done:])[1:-1])
                self._ways.append((node, len(text)))
            elif done < len(node.values):
                self._ways.append((node, done + 1))
                parts.append(self._item(node, done))
                continue
            else:
                self._ways.append((node, done))
            if not node.complete or len(self._ways) == 1:
                break
            parts.append(_CLOSES[type(node)])
            self._ways.pop()
        text = "".join(parts)
        if text:
            self._sent.append(text)
        return text

    def _item(self, node: GrowingObject | GrowingList, number: int) -> str:
        """An item of a container; if it grows, what comes before its own text."""
        before = ", " if number else ""
        if isinstance(node, GrowingObject):
            before += f"{encode_basestring(node.keys[number])}: "
        value = node.values[number]
        if isinstance(value, GROWING):
            self._ways.append((value, 0))
            return before + _OPENS[type(value)]
        return before + arguments_text(value)

    def rest(self, arguments: dict[str, Any]) -> str | None:
        """What makes the text sent so far the JSON of `arguments`; None: nothing does."""
        sent, text = "".join(self._sent), arguments_text(arguments)
        if text.startswith(sent):
            return text[len(sent) :]
        closing = "".join(_CLOSES[type(node)] for node, _ in reversed(self._ways[1:]))
        shown = json.loads(sent + closing + "}")
        if not shown.keys() <= arguments.keys():
            return None
        wrong = {key: each for key, each in arguments.items() if key not in shown or _differ(each, shown[key])}
        again = arguments_text(wrong)[1:] if wrong else "}"
        return closing + (", " if shown and wrong else "") + again


_OPENS = {GrowingText: '"', GrowingObject: "{", GrowingList: "["}
_CLOSES = {GrowingText: '"', GrowingObject: "}", GrowingList: "]"}


def _differ(one: Any, other: Any) -> bool:
    return arguments_text(one) != arguments_text(other)


def _is_streamed(plan: FieldPlan) -> bool:
    """Is the text of its regions what the client gets, as it comes?"""
    if plan.name == CALLS_FIELD or plan.field.content != "text" or plan.field.transform is not None:
        return False
    return plan.name in _TEXT_FIELDS or not _is_list(plan)


def _is_list(plan: FieldPlan) -> bool:
    return plan.field.repeats and plan.field.join is None


def _unique_id(written: Any, taken: set[str], new_id: Callable[[], str]) -> str:
    if isinstance(written, str) and written and written not in taken:
        return written
    for _ in range(_TRIES):
        made: Any = new_id()
        if not isinstance(made, str) or not made:
            raise InputTypeError(f"new_id must return a string, not {made!r:.60}")
        if made not in taken:
            return made
    raise InputTypeError(f"new_id returns ids that other calls of the message have, such as {made!r:.60}")


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "".join(value)
    return json.dumps(value, ensure_ascii=False)


# --- whole messages --------------------------------------------------------------------------------------------------


def to_openai(message: Mapping[str, Any], *, new_id: Callable[[], str] = new_call_id) -> dict[str, Any]:
    """A parsed message in the OpenAI shape: `content` a string or None, arguments as JSON, an id for each call.

    Keys that the API doesn't know (`reasoning_content`, `malformed`, a template's own) are kept.

    Args:
        message: as `parse_response` gives it, or one from a chat in the same shape.
        new_id: gives the id of a call that has none, or the id of another call of the message.

    Raises:
        InputTypeError: `message` is no mapping, an item of `tool_calls` is no call, or its arguments are no object
            that JSON has; the error says which call.
    """
    message = _as_dict(message, "message")
    result: dict[str, Any] = {"role": message.get("role", "assistant"), "content": None}
    for key, value in message.items():
        if key in _TEXT_FIELDS:
            result[key] = value if value is None or _is_parts(value) else _as_text(value)
        elif key != CALLS_FIELD:
            result[key] = value
    calls = message.get(CALLS_FIELD)
    if calls:
        taken: set[str] = set()
        result[CALLS_FIELD] = []
        for number, call in enumerate(calls if isinstance(calls, list) else [calls]):
            result[CALLS_FIELD].append(_openai_call(call, number, taken, new_id))
            taken.add(result[CALLS_FIELD][-1]["id"])
    return result


def _openai_call(call: Any, number: int, taken: set[str], new_id: Callable[[], str]) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise InputTypeError(f"tool_calls[{number}] is no call: it needs a 'function' with a 'name'")
    return {
        **call,
        "id": _unique_id(call.get("id"), taken, new_id),
        "type": "function",
        "function": {**function, "arguments": _written(function.get("arguments"), number)},
    }


def _written(arguments: Any, number: int) -> str:
    """The arguments of call `number` as a string; one that is a string already stays what it is."""
    if isinstance(arguments, str):
        return arguments
    if not (arguments is None or isinstance(arguments, Mapping)):
        raise InputTypeError(f"the arguments of tool_calls[{number}] must be an object, not {arguments!r:.60}")
    try:
        return arguments_text(dict(arguments or {}))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputTypeError(f"the arguments of tool_calls[{number}] can't be written as JSON: {error}") from error


def from_openai(message: Any) -> Message:
    """A message of the OpenAI shape as it is here: arguments as objects, no keys that are null.

    Args:
        message: a dict, or an object of the `openai` package (`ChatCompletionMessage`).

    Raises:
        InputTypeError: it is neither, or a call's arguments are no JSON object; the error says which call.
    """
    message = _as_dict(message, "message")
    if "choices" in message:
        raise InputTypeError("this is a whole completion; give its message: completion.choices[0].message")
    result = {key: value for key, value in message.items() if value is not None}
    content: Any = result.get("content")
    if _is_parts(content) and all(part["type"] == "text" and isinstance(part.get("text"), str) for part in content):
        result["content"] = "".join(part["text"] for part in content)
    if CALLS_FIELD in result:
        if not isinstance(result[CALLS_FIELD], (list, tuple)):
            raise InputTypeError(f"{CALLS_FIELD} must be a list, not {type(result[CALLS_FIELD]).__name__}")
        result[CALLS_FIELD] = [_own_call(call, number) for number, call in enumerate(result[CALLS_FIELD])]
        if not result[CALLS_FIELD]:
            del result[CALLS_FIELD]
    return result


def _own_call(call: Any, number: int) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise InputTypeError(f"tool_calls[{number}] is no call: it needs a 'function' with a 'name'")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments, parse_constant=_no_constant) if arguments.strip() else {}
        except (ValueError, RecursionError) as error:
            raise InputTypeError(f"the arguments of tool_calls[{number}] are not JSON: {error}") from error
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        raise InputTypeError(f"the arguments of tool_calls[{number}] must be a JSON object, not {arguments!r:.60}")
    rest = {key: value for key, value in call.items() if key not in ("function", "index") and value is not None}
    return {**rest, "type": "function", "function": {**function, "arguments": dict(arguments)}}


def _is_parts(content: Any) -> bool:
    """Is it a list of content parts (`{"type": "text", …}`)?"""
    return isinstance(content, list) and all(
        isinstance(part, Mapping) and isinstance(part.get("type"), str) for part in content
    )


def _no_constant(name: str) -> None:
    raise ValueError(f"JSON has no {name}")


def _as_dict(value: Any, what: str) -> dict[str, Any]:
    """A mapping, or an object of the `openai` package, as a dict."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        value = dump(exclude_none=True)
    if not isinstance(value, Mapping):
        raise InputTypeError(f"{what} must be a dict, not {type(value).__name__}")
    return dict(value)
