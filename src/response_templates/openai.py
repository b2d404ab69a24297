"""The OpenAI shape: messages and streams as the Chat Completions API has them.

Three things differ from a message here. A call's arguments are a string of JSON; every call has an id; and a stream is
`chat.completion.chunk` objects, whose deltas a client puts together by concatenating strings.

The JSON of arguments is `json.dumps(arguments, ensure_ascii=False)`, in streams as in whole messages.

Invariant: put together, the deltas of a stream are `to_openai` of the message that the parser gives. A call's closing
brace is sent only once its region is accepted, so the arguments of a call that turns out malformed, or that the
generation's end cut off, are never valid JSON.
Bound: linear in the generation, whatever the chunks; what is kept is what is not sent yet.

Facts of the format: the types of the `openai` package, 3.57 (`openai.types.chat`).
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from .errors import InputTypeError, TemplateError
from .parser import Event, Message, TemplateSource, is_empty
from .plan import FieldPlan, plan_for
from .shaping import CALLS_FIELD
from .template import load_template

Chunk: TypeAlias = "dict[str, Any]"
Usage: TypeAlias = "Mapping[str, Any]"

_TEXT_FIELDS = ("content", "reasoning_content")  # strings in the OpenAI shape, whatever the template makes of them


def new_call_id() -> str:
    """An id for a call that has none: `call_` and 24 random hexadecimal digits."""
    return f"call_{secrets.token_hex(12)}"


def arguments_text(arguments: Any) -> str:
    """The JSON that stands for the arguments of a call."""
    return json.dumps(arguments, ensure_ascii=False)


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
        usage: the token counts, or a function that is asked at the end; they come in a last chunk without choices.
        new_id: gives the id of a call for which the model wrote none.

    Raises:
        TemplateError: the template does not make calls of its `tool_calls`.
    """
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

    The arguments are those of `openai_deltas`.
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

    def begin(self) -> list[Chunk]:
        """The chunk that says the role."""
        return [self._chunk({"role": self._plan.template.defaults.get("role", "assistant")})]

    def feed(self, event: Event) -> list[Chunk]:
        """The chunks that one event gives."""
        plan = self._plan.fields[event["field"]]
        deltas = _HANDLERS[event["type"]](self, plan, event)
        return [self._chunk(delta) for delta in deltas]

    def finish(self, finish_reason: str | None = None, usage: Usage | None = None) -> list[Chunk]:
        """The last chunks: why the generation ended, and (if given) what it took."""
        unseen = {
            key: value for key, value in self._plan.template.defaults.items() if key != "role" and key not in self._seen
        }
        late = {name: self._late_value(name, values) for name, values in self._late.items()}
        chunks = [self._chunk({key: value}) for key, value in {**unseen, **late}.items()]
        if finish_reason in (None, "stop"):
            finish_reason = "tool_calls" if self._whole else "stop"
        chunks.append(self._chunk({}, finish_reason))
        if usage is not None:
            chunks.append({**self._head, "choices": [], "usage": dict(usage)})
        return chunks

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

    def _opened(self, plan: FieldPlan, event: Event) -> Iterator[dict[str, Any]]:
        if plan.name in self._accepted and _is_streamed(plan) and plan.field.join:
            yield {plan.name: plan.field.join}

    def _grown(self, plan: FieldPlan, event: Event) -> Iterator[dict[str, Any]]:
        if _is_streamed(plan):
            text = self._space + event["text"]
            shown = text.rstrip() if plan.skips_lead else text
            self._space = text[len(shown) :]
            if shown:
                yield {plan.name: shown}

    def _closed(self, plan: FieldPlan, event: Event) -> Iterator[dict[str, Any]]:
        self._seen.add(plan.name)
        self._accepted.add(plan.name)
        self._space = ""
        value = event["value"]
        if plan.name == CALLS_FIELD:
            for call in value if isinstance(value, list) else [value]:
                yield self._whole_call(call)
        elif _is_list(plan) and plan.name not in _TEXT_FIELDS:
            yield {plan.name: [value]}
        elif not _is_streamed(plan):
            self._late.setdefault(plan.name, []).append(value)

    def _broken(self, plan: FieldPlan, event: Event) -> Iterator[dict[str, Any]]:
        self._seen.add(plan.name)
        entry = {"index": self._malformed, **{key: event[key] for key in ("field", "text", "error")}}
        self._malformed += 1
        yield {"malformed": [entry]}

    def _whole_call(self, call: dict[str, Any]) -> dict[str, Any]:
        self._whole = True
        index = self._calls
        self._calls += 1
        function = {**call["function"], "arguments": arguments_text(call["function"]["arguments"])}
        return {
            CALLS_FIELD: [
                {"index": index, "id": self._id_for(call.get("id")), "type": "function", "function": function}
            ]
        }

    def _id_for(self, written: Any) -> str:
        """The id that the model wrote, if it is one and no other call of the message has it."""
        unique = _unique_id(written, self._ids, self._new_id)
        self._ids.add(unique)
        return unique


_HANDLERS: Mapping[str, Callable[[OpenAIDeltas, FieldPlan, Event], Iterator[dict[str, Any]]]] = {
    "region_open": OpenAIDeltas._opened,
    "region_chunk": OpenAIDeltas._grown,
    "region_close": OpenAIDeltas._closed,
    "region_malformed": OpenAIDeltas._broken,
}


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
    while True:
        made = new_id()
        if made not in taken:
            return made


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
        InputTypeError: `message` is no mapping, or an item of `tool_calls` is no call.
    """
    _check_mapping(message)
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
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else arguments_text({} if arguments is None else arguments)
    return {
        **call,
        "id": _unique_id(call.get("id"), taken, new_id),
        "type": "function",
        "function": {**function, "arguments": text},
    }


def from_openai(message: Any) -> Message:
    """A message of the OpenAI shape as it is here: arguments as objects, no keys that are null.

    Args:
        message: a dict, or an object of the `openai` package (`ChatCompletionMessage`).

    Raises:
        InputTypeError: it is neither, or a call's arguments are no JSON object; the error says which call.
    """
    dump = getattr(message, "model_dump", None)
    if callable(dump):
        message = dump(exclude_none=True)
    _check_mapping(message)
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
            arguments = json.loads(arguments) if arguments.strip() else {}
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


def _check_mapping(message: Any) -> None:
    if not isinstance(message, Mapping):
        raise InputTypeError(f"message must be a dict, not {type(message).__name__}")
