"""A server with OpenAI's chat API, over a local checkpoint.

    pip install "response-templates[server]"
    python examples/server.py                                  # the small model that lives in this repository
    python examples/server.py --model PATH --port 8000 --workers 2

    curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \
        -d '{"model": "demo", "messages": [{"role": "user", "content": "What is 12 plus 30?"}]}'

What it does: `/v1/chat/completions` with and without streaming and tools, `/v1/models`, `/health`. What the model
generates is parsed as it comes, by an `AsyncResponseStreamer`; `OpenAIDeltas` turns the events into chunks.

Many requests at once: a queue. `--workers` threads take requests from it, each runs one `generate` at a time; so many
streams run at once, and the others wait, up to `--waiting`; what is beyond is refused with status 429. A client that
goes away is taken out of the queue, or its generation stops at the next token.

Not done: batching of prompts, logprobs, `n` > 1, `stop`, structured output, images (each is refused with a clear error
that names the parameter). `tool_choice` shows the model no tools, or only the one that is named; it can't be forced.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException

import response_templates
from response_templates import (
    AsyncResponseStreamer,
    OpenAIDeltas,
    StopAfterCalls,
    StopAtEnd,
    StopWhenOver,
    from_openai,
    to_openai,
)

MODEL = Path(__file__).resolve().parent.parent / "demo" / "model"
DEFAULT_MAX_TOKENS = 1024  # where the request names none
MAX_BODY = 10_000_000  # bytes


# --- requests and their errors -------------------------------------------------------------------------------------


@dataclass
class RequestError(Exception):
    """What is answered in place of a completion, in the shape that OpenAI's clients know."""

    message: str
    param: str | None = None
    code: str | None = None
    status: int = 400
    kind: str = "invalid_request_error"

    def body(self) -> dict[str, Any]:
        """The JSON of the answer."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


class StreamOptions(BaseModel):
    """`stream_options`: whether a last chunk tells the usage."""

    include_usage: bool | None = False


class ChatRequest(BaseModel):
    """The parameters that are understood; others must have the value that changes nothing (`WITHOUT_EFFECT`)."""

    model_config = ConfigDict(extra="allow", strict=True)

    model: str
    messages: list[dict[str, Any]] = Field(min_length=1)
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["none", "auto", "required"] | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    reasoning_effort: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    def offered_tools(self) -> list[dict[str, Any]] | None:
        """The tools that the model is shown. Raises RequestError."""
        if not self.tools or self.tool_choice == "none":
            return None
        for number, tool in enumerate(self.tools):
            function = tool.get("function")
            if tool.get("type") != "function" or not isinstance(function, dict) or not _named(function):
                raise RequestError(
                    "a tool must have type 'function' and a 'function' with a 'name'", f"tools[{number}]"
                )
        if not isinstance(self.tool_choice, dict):
            return self.tools
        name = (self.tool_choice.get("function") or {}).get("name")
        named = [tool for tool in self.tools if tool["function"]["name"] == name]
        if not named:
            raise RequestError(f"tool_choice names {name!r}, which is none of the tools", "tool_choice")
        return named


def _named(function: Mapping[str, Any]) -> bool:
    return isinstance(function.get("name"), str) and bool(function["name"])


WITHOUT_EFFECT: Mapping[str, tuple[Any, ...]] = {
    "n": (None, 1),
    "stop": (None, []),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "logit_bias": (None, {}),
    "frequency_penalty": (None, 0),
    "presence_penalty": (None, 0),
    "response_format": (None, {"type": "text"}),
    "modalities": (None, ["text"]),
    "functions": (None, []),
    "function_call": (None, "auto", "none"),
}
IGNORED = {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"}


def read_request(body: bytes) -> ChatRequest:
    """The request of a body. Raises RequestError."""
    if len(body) > MAX_BODY:
        raise RequestError(f"the body has more than {MAX_BODY} bytes", code="request_too_large", status=413)
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is not JSON: {error}") from error
    try:
        request = ChatRequest.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or None
        raise RequestError(f"{where or 'the body'}: {first['msg']}", where) from error
    for name, given in (request.model_extra or {}).items():
        if name in IGNORED or given in WITHOUT_EFFECT.get(name, ()):
            continue
        known = name in WITHOUT_EFFECT
        raise RequestError(
            f"this server does not support {name!r}" if known else f"there is no parameter {name!r}",
            name,
            "unsupported_parameter" if known else "unknown_parameter",
        )
    return request


def chat_of(request: ChatRequest) -> list[dict[str, Any]]:
    """The messages as chat templates take them. Raises RequestError."""
    chat = []
    for number, given in enumerate(request.messages):
        where = f"messages[{number}]"
        if given.get("role") not in ("system", "developer", "user", "assistant", "tool"):
            raise RequestError(f"the role is {given.get('role')!r}", f"{where}.role")
        try:
            message = from_openai(given)
        except response_templates.InputTypeError as error:
            raise RequestError(str(error), where) from error
        content = message.get("content")
        if content is not None and not isinstance(content, str):
            raise RequestError("content must be text (a string, or parts of type 'text')", f"{where}.content")
        if content is None and not message.get("tool_calls"):
            raise RequestError("the message has neither content nor tool calls", f"{where}.content")
        chat.append({**message, "role": "system"} if message["role"] == "developer" else message)
    return chat


# --- what generates ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A request that is ready to be generated."""

    prompt: list[int]
    max_tokens: int
    tools: list[dict[str, Any]] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    prefix: str | None = None  # what the parser is told of the prompt; None: all of it


@dataclass(frozen=True)
class Outcome:
    """How a generation ended."""

    completion_tokens: int
    finish_reason: Literal["stop", "length"]


class Backend(Protocol):
    """What the server serves: one model."""

    name: str
    tokenizer: Any
    template: Any

    def prepare(self, request: ChatRequest) -> Job:
        """Check and render a request, in a thread. Raises RequestError."""

    def generate(self, job: Job, streamer: AsyncResponseStreamer) -> Outcome:
        """Generate, in a worker's thread; errors also reach the streamer."""


class ModelBackend:
    """A checkpoint in this process."""

    def __init__(self, path: str, template: str | None = None, name: str | None = None, workers: int = 2) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        response_templates.install()
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))  # the workers' threads don't fight for cores
        self.tokenizer = AutoTokenizer.from_pretrained(path)
        self.model = AutoModelForCausalLM.from_pretrained(path).eval()
        self.template = _template_for(self.tokenizer, path, template)
        self.tokenizer.response_template = self.template.to_dict()
        self.name = name or ("demo" if Path(path) == MODEL else Path(path).name)
        self.ends = StopAtEnd(self.tokenizer).ids
        self.limit = getattr(self.model.config, "max_position_embeddings", None) or 2**31

    def prepare(self, request: ChatRequest) -> Job:
        """Render the chat with the checkpoint's own chat template."""
        tools = request.offered_tools()
        chat = chat_of(request)
        extra = {**(request.chat_template_kwargs or {})}
        if request.reasoning_effort is not None:
            extra["reasoning_effort"] = request.reasoning_effort
        try:
            text = self.tokenizer.apply_chat_template(
                chat, **{**extra, "tools": tools, "add_generation_prompt": True, "tokenize": False}
            )
        except Exception as error:  # whatever a chat template raises is about what it was given
            raise RequestError(f"the chat template refuses these messages: {error}", "messages") from error
        prompt = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        room = self.limit - len(prompt)
        if room < 1:
            raise RequestError(
                f"the prompt has {len(prompt)} tokens; this model's context has {self.limit}",
                "messages",
                "context_length_exceeded",
            )
        wanted = request.max_completion_tokens or request.max_tokens or DEFAULT_MAX_TOKENS
        return Job(prompt, min(wanted, room), tools, self._options(request))

    @staticmethod
    def _options(request: ChatRequest) -> dict[str, Any]:
        options: dict[str, Any] = {"one_call": request.parallel_tool_calls is False, "seed": request.seed}
        if request.temperature == 0:
            return {**options, "sampling": {"do_sample": False}}
        sampling = {"temperature": request.temperature, "top_p": request.top_p}
        given = {key: value for key, value in sampling.items() if value is not None}
        return {**options, "sampling": {"do_sample": True, **given} if given else {}}

    def generate(self, job: Job, streamer: AsyncResponseStreamer) -> Outcome:
        """One `generate`, which stops early when the streamer is closed."""
        import torch

        prompt = torch.tensor([job.prompt], device=self.model.device)
        stopping: list[Any] = [StopWhenOver(streamer)]
        if job.options["one_call"]:
            stopping.append(StopAfterCalls(self.tokenizer, prompt))
        if job.options["seed"] is not None:
            torch.manual_seed(job.options["seed"])  # of the whole process: exact if no other request samples meanwhile
        with torch.inference_mode():
            output = streamer.run(
                self.model.generate,
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=job.max_tokens,
                eos_token_id=self.ends,
                pad_token_id=self.tokenizer.pad_token_id or self.ends[0],
                stopping_criteria=stopping,
                **job.options["sampling"],
            )
        ids = output[0, len(job.prompt) :].tolist()
        cut = len(ids) >= job.max_tokens and ids[-1] not in self.ends
        return Outcome(len(ids), "length" if cut else "stop")


def _template_for(tokenizer: Any, path: str, name: str | None) -> Any:
    """The template that is named, the checkpoint's own, or the one of the registry that fits. Raises ValueError."""
    if name is not None:
        return response_templates.get_template(name).template
    if tokenizer.response_template is not None:
        return response_templates.load_template(tokenizer.response_template)
    found = response_templates.template_for(tokenizer)
    if found is None:
        names = ", ".join(response_templates.list_templates())
        raise ValueError(f"{path} has no response template, and none is known to fit; --template takes one of {names}")
    return found.template


# --- the queue -----------------------------------------------------------------------------------------------------


class Engine:
    """Runs jobs: `workers` at once, `waiting` more wait, others are refused. Used from the event loop only."""

    def __init__(self, workers: int, waiting: int) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="generate")
        self._room = workers + waiting

    def submit(self, backend: Backend, job: Job, streamer: AsyncResponseStreamer) -> asyncio.Future[Outcome | None]:
        """Queue a job; None comes of one whose client went away before its turn. Raises RequestError."""
        if self._room <= 0:
            raise RequestError("too many requests wait already; try again later", None, "queue_full", 429, "requests")
        self._room -= 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, self._work, backend, job, streamer)
        future.add_done_callback(self._leave)
        return future

    def _leave(self, future: asyncio.Future[Outcome | None]) -> None:
        self._room += 1
        if not future.cancelled():
            future.exception()  # it was, or will be, raised where the events are read

    @staticmethod
    def _work(backend: Backend, job: Job, streamer: AsyncResponseStreamer) -> Outcome | None:
        return None if streamer.closed else backend.generate(job, streamer)

    def stop(self) -> None:
        """Start nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


# --- answers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Completion:
    """A request under way."""

    request: ChatRequest
    backend: Backend
    job: Job
    streamer: AsyncResponseStreamer
    outcome: asyncio.Future[Outcome | None]

    def usage(self, outcome: Outcome) -> dict[str, int]:
        """The token counts."""
        prompt, made = len(self.job.prompt), outcome.completion_tokens
        return {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}

    async def whole(self) -> dict[str, Any]:
        """The answer in one piece."""
        async with self.streamer:
            async for _ in self.streamer:
                pass
            outcome = await self.outcome
        assert outcome is not None, "only jobs of closed streamers have none"
        message = to_openai(self.streamer.message)
        called = bool(message.get("tool_calls")) and outcome.finish_reason == "stop"
        reason = "tool_calls" if called else outcome.finish_reason
        return {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.backend.name,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
            "usage": self.usage(outcome),
        }

    async def chunks(self) -> AsyncIterator[str]:
        """The answer as server-sent events. An error that comes when some are sent already is one of them."""
        maker = self._maker()
        try:
            async with self.streamer:
                for chunk in maker.begin():
                    yield _sent(chunk)
                async for event in self.streamer:
                    for chunk in maker.feed(event):
                        yield _sent(chunk)
                outcome = await self.outcome
                if outcome is None:
                    return
                wanted = self.request.stream_options is not None and self.request.stream_options.include_usage
                for chunk in maker.finish(outcome.finish_reason, self.usage(outcome) if wanted else None):
                    yield _sent(chunk)
        except Exception as error:
            yield _sent(_server_error(error).body())
        yield "data: [DONE]\n\n"

    def _maker(self) -> OpenAIDeltas:
        return OpenAIDeltas(self.backend.template, tools=self.job.tools, model=self.backend.name)


def _sent(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


def _server_error(error: Exception) -> RequestError:
    return RequestError(f"the server failed: {type(error).__name__}: {error}", None, None, 500, "server_error")


# --- the app -------------------------------------------------------------------------------------------------------


def create_app(backends: list[Backend], workers: int = 2, waiting: int = 64) -> FastAPI:
    """The server's application.

    Args:
        backends: the models, each under its name.
        workers: how many generations run at once.
        waiting: how many requests may wait for a worker.
    """
    models = {backend.name: backend for backend in backends}
    created = int(time.time())
    engine = Engine(workers, waiting)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        engine.stop()

    app = FastAPI(title="response-templates example server", lifespan=lifespan)
    app.state.engine = engine

    def found(name: str) -> Backend:
        if name not in models:
            known = ", ".join(models)
            raise RequestError(f"there is no model {name!r}; there is {known}", "model", "model_not_found", 404)
        return models[name]

    def described(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": created, "owned_by": "local"}

    @app.exception_handler(RequestError)
    async def refused(request: Request, error: RequestError) -> JSONResponse:
        return JSONResponse(error.body(), error.status)

    @app.exception_handler(HTTPException)
    async def no_such_thing(request: Request, error: HTTPException) -> JSONResponse:
        body = RequestError(f"{request.method} {request.url.path}: {error.detail}").body()
        return JSONResponse(body, error.status_code)

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse(_server_error(error).body(), 500)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/v1/models")
    async def list_models() -> dict[str, Any]:
        return {"object": "list", "data": [described(name) for name in models]}

    @app.get("/v1/models/{name:path}")
    async def get_model(name: str) -> dict[str, Any]:
        return described(found(name).name)

    @app.post("/v1/chat/completions")
    async def complete(http: Request) -> Response:
        request = read_request(await http.body())
        backend = found(request.model)
        job = await asyncio.to_thread(backend.prepare, request)
        streamer = AsyncResponseStreamer(
            backend.tokenizer,
            job.prefix,
            tools=job.tools,
            errors="recover",
            response_template=backend.template,
            groups=True,
        )
        completion = Completion(request, backend, job, streamer, engine.submit(backend, job, streamer))
        watch = asyncio.create_task(_close_when_gone(http, streamer))
        if request.stream:
            return StreamingResponse(_watched(completion.chunks(), watch), media_type="text/event-stream")
        try:
            return JSONResponse(await completion.whole())
        except Exception as error:
            if streamer.closed and watch.done():
                return Response(status_code=499)  # nobody is there to read it
            raise _server_error(error) from error
        finally:
            watch.cancel()

    return app


async def _close_when_gone(http: Request, streamer: AsyncResponseStreamer) -> None:
    """Wait until the client has gone, and close the streamer: its generation stops."""
    while (await http.receive())["type"] != "http.disconnect":
        pass
    streamer.close()


async def _watched(chunks: AsyncIterator[str], watch: asyncio.Task[None]) -> AsyncIterator[str]:
    try:
        async for chunk in chunks:
            yield chunk
    finally:
        watch.cancel()


def main(arguments: list[str] | None = None) -> None:
    """Serve a checkpoint."""
    parser = argparse.ArgumentParser(description="A server with OpenAI's chat API, over a local checkpoint.")
    parser.add_argument("--model", default=str(MODEL), metavar="PATH", help="default: the repository's own")
    parser.add_argument("--name", help="what clients call the model; default: the folder's name")
    parser.add_argument("--template", metavar="NAME", help="of the registry; default: its own, or what fits")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--workers", type=int, default=2, help="generations at once; default: 2")
    parser.add_argument("--waiting", type=int, default=64, help="requests that may wait; default: 64")
    chosen = parser.parse_args(arguments)
    try:
        backend = ModelBackend(chosen.model, chosen.template, chosen.name, chosen.workers)
    except (OSError, ValueError) as error:
        sys.exit(f"server: {error}")
    with suppress(KeyboardInterrupt):
        uvicorn.run(create_app([backend], chosen.workers, chosen.waiting), host=chosen.host, port=chosen.port)


if __name__ == "__main__":
    main()
