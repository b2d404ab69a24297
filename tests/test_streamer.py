"""Streamers: what `generate` puts in comes out as events in another thread or task, whatever goes wrong."""

from __future__ import annotations

import asyncio
import gc
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

import response_templates
from generation_helpers import (
    MODEL,
    PROMPT,
    call_text,
    demo_inputs,
    demo_model,
    demo_script,
    ids_of,
    merged,
    replay,
    without_row,
)
from plugin_helpers import TEMPLATE, TinyProcessor, byte_level, letter_level
from response_templates import (
    AsyncResponseStreamer,
    InputTypeError,
    ParseError,
    PrefixRequiredError,
    ResponseParser,
    ResponseStreamer,
    StreamError,
    StreamTimeoutError,
    TemplateMissingError,
)

LONG = 60  # seconds after which a test that hangs fails
TEXT = f"<think>hm, né? 🌧</think>I look.{call_text('f', a='Zürich 😀')}<|im_end|>"
BROKEN = "<think>a</think>b<tool_call>{oops</tool_call>c<|im_end|>"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    made = byte_level()
    made.response_template = TEMPLATE
    return made


@pytest.fixture(autouse=True)
def _without_plugin_afterwards() -> Iterator[None]:
    yield
    response_templates.uninstall()


def streamed(tokenizer: Any, *texts: str, prompt: str = PROMPT, **options: Any) -> ResponseStreamer:
    """A streamer through which generations of these texts went."""
    streamer = ResponseStreamer(tokenizer, timeout=LONG, **options)
    rows = [ids_of(tokenizer, text) for text in texts]
    replay(rows, streamer=streamer, prompt=[ids_of(tokenizer, prompt)] * len(rows), fill=tokenizer.pad_token_id)
    return streamer


def parsed(text: str, **options: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The message and the events of the parser alone."""
    parser = ResponseParser(TEMPLATE, PROMPT, **options)
    events = [*parser.initial_events, *parser.feed(text)]
    message, last = parser.finalize()
    return message, merged(events + last)


def reading(streamer: ResponseStreamer) -> tuple[list[dict[str, Any]], list[BaseException]]:
    """Read to the end, over errors."""
    items = list(iter(lambda: _next(streamer), None))
    errors = [item for item in items if isinstance(item, BaseException)]
    return [item for item in items if isinstance(item, dict)], errors


def _next(streamer: ResponseStreamer) -> Any:
    """The next event or error; None at the end."""
    try:
        return next(streamer, None)
    except (ParseError, StreamError, ValueError) as error:
        return error


# --- one row -------------------------------------------------------------------------------------------------------


def test_the_events_are_the_parser_s(tokenizer: Any) -> None:
    streamer = streamed(tokenizer, TEXT)
    events = list(streamer)
    message, expected = parsed(TEXT)
    assert {event["row"] for event in events} == {0}
    assert merged(without_row(events)) == expected
    assert len(events) > len(expected)  # it came in pieces
    assert streamer.message == message
    assert streamer.messages == [message]


@pytest.mark.parametrize("kind", ["torch", "numpy", "list", "tuple"])
def test_ids_of_any_kind(tokenizer: Any, kind: str) -> None:
    make: Callable[[Any], Any] = {"list": list, "tuple": tuple}.get(kind) or getattr(
        pytest.importorskip(kind), "tensor" if kind == "torch" else "array"
    )
    streamer = ResponseStreamer(tokenizer, timeout=LONG)
    replay([ids_of(tokenizer, TEXT)], streamer=streamer, prompt=[ids_of(tokenizer, PROMPT)], value=make)
    assert merged(without_row(streamer)) == parsed(TEXT)[1]


def test_several_tokens_at_once_as_an_assistant_model_makes_them(tokenizer: Any) -> None:
    streamer = ResponseStreamer(tokenizer, timeout=LONG)
    streamer.put([ids_of(tokenizer, PROMPT)])
    ids = ids_of(tokenizer, TEXT)
    for begin in range(0, len(ids), 3):
        streamer.put([ids[begin : begin + 3]])
    streamer.end()
    assert merged(without_row(streamer)) == parsed(TEXT)[1]


def test_a_slow_tokenizer_and_a_processor(tmp_path: Any) -> None:
    slow = letter_level(tmp_path)
    slow.response_template = TEMPLATE
    text = "<think>hm</think>I look.<|im_end|>"
    for owner in (slow, TinyProcessor(slow)):
        streamer = ResponseStreamer(owner, timeout=LONG)
        replay([ids_of(slow, text)], streamer=streamer, prompt=[ids_of(slow, PROMPT)])
        assert merged(without_row(streamer)) == parsed(text)[1]


def test_what_the_prompt_pre_wrote_comes_first(tokenizer: Any) -> None:
    streamer = streamed(tokenizer, "hm</think>hi<|im_end|>", prompt=f"{PROMPT}<think>")
    assert next(streamer) == {"type": "region_open", "field": "reasoning_content", "row": 0}
    assert [event["type"] for event in merged(streamer)][:2] == ["region_chunk", "region_close"]
    assert streamer.message == {"role": "assistant", "reasoning_content": "hm", "content": "hi"}


@pytest.mark.parametrize("kind", ["text", "ids", "batch of ids"])
def test_a_prefix_that_is_given_counts(tokenizer: Any, kind: str) -> None:
    prefix: Any = f"{PROMPT}<think>"
    if kind != "text":
        prefix = ids_of(tokenizer, prefix)
    streamer = streamed(tokenizer, "hm</think>hi", prefix=[prefix] if kind == "batch of ids" else prefix)
    assert streamer.message == {"role": "assistant", "reasoning_content": "hm", "content": "hi"}


def test_an_empty_prefix_opts_out(tokenizer: Any) -> None:
    assert streamed(tokenizer, "x", prompt=f"{PROMPT}<think>", prefix="").message["content"] == "x"


def test_tools_and_errors_and_a_template_are_handed_on(tokenizer: Any) -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    called = streamed(tokenizer, call_text("f", a="7"), tools=[tool]).message
    assert called["tool_calls"][0]["function"]["arguments"] == {"a": 7}
    assert streamed(tokenizer, BROKEN, errors="recover").message == parsed(BROKEN, errors="recover")[0]
    other = {"start_anchor": "assistant\n", "fields": {"content": {"open": "b", "close": "c"}}}
    assert streamed(tokenizer, "abxcd", response_template=other).message == {"content": "x"}


def test_nothing_generated(tokenizer: Any) -> None:
    streamer = streamed(tokenizer, "")
    assert merged(without_row(streamer)) == parsed("")[1]
    assert streamer.message == parsed("")[0]


@given(st.text(alphabet="ab<>/think|im_end 🌧é\n", max_size=60))
@settings(max_examples=60)
def test_any_text_comes_out_as_from_the_parser(tokenizer: Any, text: str) -> None:
    streamer = streamed(tokenizer, text, errors="recover")
    message, events = parsed(text, errors="recover")
    assert merged(without_row(streamer)) == events
    assert streamer.message == message


# --- several rows --------------------------------------------------------------------------------------------------


def test_each_row_of_a_batch_has_its_events_and_message(tokenizer: Any) -> None:
    texts = [TEXT, "hi<|im_end|>", "", f"<think>x</think>{call_text('g')}<|im_end|>"]
    streamer = streamed(tokenizer, *texts)
    events = list(streamer)
    for number, text in enumerate(texts):
        message, expected = parsed(text)
        assert merged(without_row(event for event in events if event["row"] == number)) == expected
        assert streamer.messages[number] == message
    with pytest.raises(StreamError, match=r"4 rows; take \.messages"):
        _ = streamer.message


def test_padding_inside_a_row_is_the_model_s_own(tokenizer: Any) -> None:
    pad = tokenizer.pad_token
    streamer = streamed(tokenizer, f"a{pad}{pad}b<|im_end|>", "a long text, which is longer than the other")
    assert streamer.messages[0]["content"] == f"a{pad}{pad}b"


def test_rows_are_filled_with_the_end_token_where_there_is_no_padding_token() -> None:
    tokenizer = byte_level(pad_token=None)
    template = {**TEMPLATE, "fields": {"content": {}}}  # the end token is text to it: it is seen how many are fed
    rows = [ids_of(tokenizer, "a<|im_end|>"), ids_of(tokenizer, "a long text<|im_end|>")]
    streamer = ResponseStreamer(tokenizer, response_template=template, timeout=LONG)
    prompt = [ids_of(tokenizer, PROMPT)] * 2
    replay(rows, streamer=streamer, prompt=prompt, fill=tokenizer.eos_token_id)
    assert [message["content"] for message in streamer.messages] == ["a<|im_end|>", "a long text<|im_end|>"]


def test_the_padding_token_of_the_call_counts(tokenizer: Any) -> None:
    [fill] = ids_of(tokenizer, "x")
    rows = [ids_of(tokenizer, "a<|im_end|>"), ids_of(tokenizer, "a longer text<|im_end|>")]
    given_, looked_up = ResponseStreamer(tokenizer, pad_token_id=fill), ResponseStreamer(tokenizer)

    def generate(streamer: Any, pad_token_id: int) -> Any:
        return replay(rows, streamer=streamer, prompt=[ids_of(tokenizer, PROMPT)] * 2, fill=pad_token_id)

    generate(given_, fill)
    looked_up.run(generate, pad_token_id=fill)
    for streamer in (given_, looked_up):
        assert [message["content"] for message in streamer.messages] == ["a", "a longer text"]


def test_several_sequences_for_each_prompt(tokenizer: Any) -> None:
    streamer = ResponseStreamer(tokenizer, timeout=LONG)
    prompts = [ids_of(tokenizer, PROMPT), ids_of(tokenizer, f"{PROMPT}<think>")]
    replay([ids_of(tokenizer, "ab")] * 4, streamer=streamer, prompt=prompts)  # as 4.51 puts them: not repeated
    keys = [set(message) - {"role"} for message in streamer.messages]
    assert keys == [{"content"}, {"content"}, {"reasoning_content"}, {"reasoning_content"}]


def test_an_error_in_one_row_leaves_the_others_alone(tokenizer: Any) -> None:
    streamer = streamed(tokenizer, "one<|im_end|>", BROKEN, "three, which goes on for longer<|im_end|>")
    events, errors = reading(streamer)
    assert [type(error) for error in errors] == [ParseError]
    assert {event["row"] for event in events} == {0, 1, 2}
    assert (
        merged(without_row(event for event in events if event["row"] == 2))
        == parsed("three, which goes on for longer<|im_end|>")[1]
    )
    with pytest.raises(ParseError):
        _ = streamer.messages


def test_one_prefix_for_all_or_one_each(tokenizer: Any) -> None:
    both = streamed(tokenizer, "x", "y", prefix=f"{PROMPT}<think>")
    assert [message["reasoning_content"] for message in both.messages] == ["x", "y"]
    each = streamed(tokenizer, "x", "y", prefix=[PROMPT, f"{PROMPT}<think>"])
    assert [set(message) for message in each.messages] == [{"role", "content"}, {"role", "reasoning_content"}]
    with pytest.raises(InputTypeError, match="3 prefixes, but generate makes 2 rows"):
        streamed(tokenizer, "x", "y", prefix=[PROMPT] * 3)


# --- threads -------------------------------------------------------------------------------------------------------


def test_events_come_while_it_generates(tokenizer: Any) -> None:
    """Each step waits until the reader has had what the one before gave: nothing is kept for later."""
    streamer = ResponseStreamer(tokenizer, timeout=LONG)
    letters = "abcdefgh"
    had = threading.Semaphore(0)

    def step(number: int) -> None:
        if number:
            assert had.acquire(timeout=LONG)

    rows = [[each for letter in letters for each in ids_of(tokenizer, letter)]]
    streamer.start(replay, rows, prompt=[ids_of(tokenizer, PROMPT)], step=step)
    seen = ""
    for event in streamer:
        if event["type"] == "region_chunk":
            seen += event["text"]
            had.release()
    assert seen == letters


def test_an_error_of_generate_reaches_the_reader(tokenizer: Any) -> None:
    def step(number: int) -> None:
        if number == 5:
            raise MemoryError("no more")

    streamer = ResponseStreamer(tokenizer, timeout=LONG)
    thread = streamer.start(replay, [ids_of(tokenizer, TEXT)], prompt=[ids_of(tokenizer, PROMPT)], step=step)
    events = []
    with pytest.raises(MemoryError, match="no more"):
        events.extend(streamer)
    thread.join(LONG)
    assert next(streamer, None) is None
    with pytest.raises(MemoryError):
        _ = streamer.message


def test_an_error_before_the_first_token_reaches_the_reader_and_the_caller(tokenizer: Any) -> None:
    def generate(streamer: Any) -> None:
        raise ValueError("bad arguments")

    streamer = ResponseStreamer(tokenizer, timeout=LONG)
    with pytest.raises(ValueError, match="bad arguments"):
        streamer.run(generate)
    with pytest.raises(ValueError, match="bad arguments"):
        next(streamer)


def test_an_interrupt_of_the_generating_thread_is_an_error_of_ours_for_the_reader(tokenizer: Any) -> None:
    def generate(streamer: Any) -> None:
        raise KeyboardInterrupt

    streamer = ResponseStreamer(tokenizer, timeout=LONG)
    with pytest.raises(KeyboardInterrupt):
        streamer.run(generate)
    with pytest.raises(StreamError, match="KeyboardInterrupt"):
        next(streamer)


def test_a_thread_that_dies_is_noticed(tokenizer: Any) -> None:
    def generate(streamer: Any) -> None:
        streamer.put([ids_of(tokenizer, PROMPT)])
        streamer.put(ids_of(tokenizer, "a"))

    streamer = ResponseStreamer(tokenizer)  # no timeout
    threading.Thread(target=generate, args=(streamer,)).start()
    events = []
    with pytest.raises(StreamError, match="without calling end"):
        events.extend(streamer)
    assert [event["type"] for event in events] == ["region_open", "region_chunk"]


def test_a_generate_that_forgets_the_end(tokenizer: Any) -> None:
    streamer = ResponseStreamer(tokenizer, timeout=LONG)
    streamer.run(lambda streamer: streamer.put([ids_of(tokenizer, PROMPT)]))
    with pytest.raises(StreamError, match=r"without calling end\(\)"):
        list(streamer)


def test_timeout(tokenizer: Any) -> None:
    streamer = ResponseStreamer(tokenizer, timeout=0.01)
    with pytest.raises(StreamTimeoutError, match=r"0\.01 seconds") as caught:
        next(streamer)
    assert isinstance(caught.value, queue.Empty) and isinstance(caught.value, TimeoutError)
    replay([ids_of(tokenizer, TEXT)], streamer=streamer, prompt=[ids_of(tokenizer, PROMPT)])  # it goes on
    assert merged(without_row(streamer)) == parsed(TEXT)[1]


def test_a_reader_that_goes_away_does_not_stop_generate(tokenizer: Any) -> None:
    streamer = ResponseStreamer(tokenizer, timeout=LONG)
    read, left = threading.Event(), threading.Event()

    def step(number: int) -> None:
        if number == 10:
            read.set()
            assert left.wait(LONG)

    rows = [ids_of(tokenizer, TEXT * 50)]
    results: list[Any] = []
    thread = threading.Thread(
        target=lambda: results.append(streamer.run(replay, rows, prompt=[ids_of(tokenizer, PROMPT)], step=step))
    )
    thread.start()
    with streamer:
        assert read.wait(LONG)
        next(streamer)
    left.set()
    thread.join(LONG)
    assert not thread.is_alive()
    assert results == [rows]
    assert streamer.closed
    with pytest.raises(StreamError, match="closed"):
        list(streamer)
    with pytest.raises(StreamError, match="closed before"):
        _ = streamer.message


def test_a_reader_that_breaks_off_and_forgets_the_streamer_leaks_nothing(tokenizer: Any) -> None:
    streamer = streamed(tokenizer, TEXT)
    for _ in streamer:
        break
    gone = weakref.ref(streamer)
    del streamer
    gc.collect()
    assert gone() is None


def test_closing_wakes_a_reader_that_waits(tokenizer: Any) -> None:
    streamer = ResponseStreamer(tokenizer)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(next, streamer, None)
        streamer.close()
        assert waiting.result(LONG) is None


def test_a_thousand_streams_at_once_do_not_mix(tokenizer: Any) -> None:
    def text(number: int) -> str:
        return f"<think>{number} né 🌧</think>text {number}{call_text('f', n=number)}<|im_end|>"

    prompt = [ids_of(tokenizer, PROMPT)]
    streamers = [ResponseStreamer(tokenizer, timeout=LONG) for _ in range(1000)]
    generators = [
        streamer.start(replay, [ids_of(tokenizer, text(number))], prompt=prompt)
        for number, streamer in enumerate(streamers)
    ]
    with ThreadPoolExecutor(50) as pool:
        read = list(pool.map(list, streamers))
    for thread in generators:
        thread.join(LONG)
    for number, (streamer, events) in enumerate(zip(streamers, read, strict=True)):
        assert merged(without_row(events)) == parsed(text(number))[1]
        assert streamer.message["tool_calls"][0]["function"]["arguments"] == {"n": number}


# --- used wrongly --------------------------------------------------------------------------------------------------


def test_a_streamer_is_for_one_generation(tokenizer: Any) -> None:
    streamer = streamed(tokenizer, TEXT)
    for use in (streamer.end, lambda: streamer.put([[1]]), lambda: streamed_again(tokenizer, streamer)):
        with pytest.raises(StreamError, match="used already"):
            use()
    assert merged(without_row(streamer)) == parsed(TEXT)[1]  # the first generation is whole
    with pytest.raises(StreamError, match="have been read"):
        list(streamer)
    assert streamer.message == parsed(TEXT)[0]


def streamed_again(tokenizer: Any, streamer: ResponseStreamer) -> None:
    """A second generation with the same streamer."""
    replay([ids_of(tokenizer, "x")], streamer=streamer, prompt=[ids_of(tokenizer, PROMPT)])


def test_a_second_generation_while_the_first_goes_on(tokenizer: Any) -> None:
    streamer = ResponseStreamer(tokenizer, timeout=LONG)
    streamer.put([ids_of(tokenizer, PROMPT)])
    streamer.put(ids_of(tokenizer, "a"))
    with pytest.raises(StreamError, match="used already"):
        streamer.put([ids_of(tokenizer, PROMPT)])
    assert [type(error) for error in reading(streamer)[1]] == [StreamError]


BAD_VALUES = {
    "text": "abc",
    "bytes": b"abc",
    "nothing": None,
    "floats": [1.5],
    "booleans": [True],
    "too deep": [[[1]]],
    "mixed": [1, [2]],
    "more rows than before": [1, 2],
    "not in the vocabulary": [10**6],
    "negative": [-1],
}


@pytest.mark.parametrize("value", BAD_VALUES.values(), ids=list(BAD_VALUES))
def test_what_is_no_token_id_is_an_error_in_both_threads(tokenizer: Any, value: Any) -> None:
    streamer = ResponseStreamer(tokenizer, timeout=LONG)
    streamer.put([ids_of(tokenizer, PROMPT)])
    streamer.put(ids_of(tokenizer, "a"))
    with pytest.raises(InputTypeError):
        streamer.put(value)
    assert [type(error) for error in reading(streamer)[1]] == [InputTypeError]


def test_no_input_ids_need_a_prefix(tokenizer: Any) -> None:
    with pytest.raises(PrefixRequiredError, match="embeddings"):
        replay([[1]], streamer=ResponseStreamer(tokenizer), prompt=[[]])
    with_prefix = ResponseStreamer(tokenizer, PROMPT)
    replay([ids_of(tokenizer, "a")], streamer=with_prefix, prompt=[[]])
    assert with_prefix.message["content"] == "a"


def test_an_end_without_a_prompt(tokenizer: Any) -> None:
    with pytest.raises(StreamError, match="before it put its prompt"):
        ResponseStreamer(tokenizer).end()


def test_the_message_before_the_end(tokenizer: Any) -> None:
    with pytest.raises(StreamError, match="not over yet"):
        _ = ResponseStreamer(tokenizer).message


def test_what_is_wrong_with_the_arguments_is_said_when_it_is_made(tokenizer: Any) -> None:
    with pytest.raises(TemplateMissingError):
        ResponseStreamer(byte_level())
    with pytest.raises(InputTypeError, match="errors"):
        ResponseStreamer(tokenizer, errors="loose")  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="timeout"):
        ResponseStreamer(tokenizer, timeout=-1)
    with pytest.raises(InputTypeError):
        ResponseStreamer(tokenizer, prefix=[10**6])


# --- tasks ---------------------------------------------------------------------------------------------------------


def test_async_events_and_message(tokenizer: Any) -> None:
    async def main() -> None:
        streamer = AsyncResponseStreamer(tokenizer, timeout=LONG)
        streamer.start(replay, [ids_of(tokenizer, TEXT)], prompt=[ids_of(tokenizer, PROMPT)])
        events = [event async for event in streamer]
        assert merged(without_row(events)) == parsed(TEXT)[1]
        assert streamer.message == parsed(TEXT)[0]
        with pytest.raises(StreamError, match="have been read"):
            _ = [event async for event in streamer]

    asyncio.run(main())


def test_async_a_streamer_may_be_made_and_filled_before_there_is_a_loop(tokenizer: Any) -> None:
    streamer = AsyncResponseStreamer(tokenizer, timeout=LONG)
    replay([ids_of(tokenizer, TEXT)], streamer=streamer, prompt=[ids_of(tokenizer, PROMPT)])

    async def main() -> list[Any]:
        return [event async for event in streamer]

    assert merged(without_row(asyncio.run(main()))) == parsed(TEXT)[1]


def test_async_events_come_while_it_generates_and_the_loop_is_free(tokenizer: Any) -> None:
    had = threading.Semaphore(0)

    def step(number: int) -> None:
        if number:
            assert had.acquire(timeout=LONG)

    async def main() -> str:
        streamer = AsyncResponseStreamer(tokenizer, timeout=LONG)
        rows = [[each for letter in "abcdefgh" for each in ids_of(tokenizer, letter)]]
        streamer.start(replay, rows, prompt=[ids_of(tokenizer, PROMPT)], step=step)
        seen = ""
        async for event in streamer:
            if event["type"] == "region_chunk":
                seen += event["text"]
                await asyncio.sleep(0)
                had.release()
        return seen

    assert asyncio.run(main()) == "abcdefgh"


def test_async_errors_timeouts_and_dead_threads(tokenizer: Any) -> None:
    def fails(streamer: Any) -> None:
        raise MemoryError("no more")

    def dies(streamer: Any) -> None:
        streamer.put([ids_of(tokenizer, PROMPT)])

    async def main() -> None:
        failing = AsyncResponseStreamer(tokenizer, timeout=LONG)
        failing.start(fails)
        with pytest.raises(MemoryError, match="no more"):
            await failing.__anext__()
        with pytest.raises(StopAsyncIteration):
            await failing.__anext__()
        late = AsyncResponseStreamer(tokenizer, timeout=0.01)
        with pytest.raises(StreamTimeoutError):
            await late.__anext__()
        dead = AsyncResponseStreamer(tokenizer)
        threading.Thread(target=dies, args=(dead,)).start()
        with pytest.raises(StreamError, match="without calling end"):
            await dead.__anext__()

    asyncio.run(main())


def test_async_a_loop_that_is_gone_does_not_stop_generate(tokenizer: Any) -> None:
    streamer = AsyncResponseStreamer(tokenizer, timeout=LONG)
    gone = threading.Event()

    def step(number: int) -> None:
        if number == 3:
            assert gone.wait(LONG)

    async def main() -> threading.Thread:
        rows = [ids_of(tokenizer, TEXT)]
        thread = streamer.start(replay, rows, prompt=[ids_of(tokenizer, PROMPT)], step=step)
        async for _ in streamer:
            break
        return thread

    thread = asyncio.run(main())
    gone.set()
    thread.join(LONG)
    assert not thread.is_alive()
    assert streamer.closed


def test_async_a_task_that_is_cancelled_closes_it(tokenizer: Any) -> None:
    streamer = AsyncResponseStreamer(tokenizer)

    async def read() -> None:
        async with streamer:
            async for _ in streamer:
                pass

    async def main() -> None:
        task = asyncio.create_task(read())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert streamer.closed
    replay([ids_of(tokenizer, TEXT)], streamer=streamer, prompt=[ids_of(tokenizer, PROMPT)])  # dropped, no error


def test_async_hundreds_of_streams_in_one_loop(tokenizer: Any) -> None:
    async def one(number: int) -> dict[str, Any]:
        streamer = AsyncResponseStreamer(tokenizer, timeout=LONG)
        rows = [ids_of(tokenizer, f"<think>{number}</think>text {number}<|im_end|>")]
        streamer.start(replay, rows, prompt=[ids_of(tokenizer, PROMPT)])
        _ = [event async for event in streamer]
        return streamer.message

    async def main() -> list[dict[str, Any]]:
        return await asyncio.gather(*map(one, range(300)))

    for number, message in enumerate(asyncio.run(main())):
        assert message == {"role": "assistant", "reasoning_content": str(number), "content": f"text {number}"}


# --- a real model --------------------------------------------------------------------------------------------------

QUESTIONS = (
    "What is the weather in Lima?",
    "What is 12 plus 30?",
    "What is the weather in Lima and in Oslo?",
)


def generated(inputs: Any, streamer: Any, **options: Any) -> Any:
    _, model = demo_model()
    return streamer.run(model.generate, **inputs, max_new_tokens=150, do_sample=False, **options)


def message_of(inputs: Any, output: Any, row: int) -> dict[str, Any]:
    """What `parse_response` makes of a row of the output."""
    tokenizer, _ = demo_model()
    response_templates.install()
    length = inputs["input_ids"].shape[1]
    message: dict[str, Any] = tokenizer.parse_response(
        output[row, length:], prefix=inputs["input_ids"][row], tools=list(demo_script().TOOLS)
    )
    return message


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_demo_model_streams(question: str) -> None:
    pytest.importorskip("torch")
    tokenizer, _ = demo_model()
    inputs = demo_inputs(question)
    streamer = ResponseStreamer(tokenizer, tools=demo_script().TOOLS, timeout=LONG)
    output = generated(inputs, streamer)
    assert len(list(streamer)) > 20
    assert streamer.message == message_of(inputs, output, 0)
    assert streamer.message["tool_calls"]


def test_the_demo_model_streams_a_batch() -> None:
    pytest.importorskip("torch")
    tokenizer, _ = demo_model()
    inputs = demo_inputs(*QUESTIONS)
    streamer = ResponseStreamer(tokenizer, tools=demo_script().TOOLS, timeout=LONG)
    output = generated(inputs, streamer)
    assert streamer.messages == [message_of(inputs, output, row) for row in range(3)]
    assert [len(message["tool_calls"]) for message in streamer.messages] == [1, 1, 2]
    assert {event["row"] for event in streamer} == {0, 1, 2}


def test_the_demo_model_streams_several_sequences_for_a_prompt() -> None:
    torch = pytest.importorskip("torch")
    tokenizer, model = demo_model()
    inputs = demo_inputs(QUESTIONS[0])
    streamer = ResponseStreamer(tokenizer, errors="recover", timeout=LONG)
    torch.manual_seed(0)
    output = streamer.run(
        model.generate, **inputs, max_new_tokens=40, do_sample=True, temperature=1.5, num_return_sequences=3
    )
    length = inputs["input_ids"].shape[1]
    response_templates.install()
    expected = tokenizer.parse_response(output[:, length:], prefix=inputs["input_ids"][0], errors="recover")
    assert streamer.messages == expected
    assert len(expected) == 3


def test_the_demo_model_as_its_own_assistant() -> None:
    pytest.importorskip("torch")
    tokenizer, _ = demo_model()
    inputs = demo_inputs(QUESTIONS[0])
    streamer = ResponseStreamer(tokenizer, tools=demo_script().TOOLS, timeout=LONG)
    output = generated(inputs, streamer, prompt_lookup_num_tokens=3)
    assert streamer.message == message_of(inputs, output, 0)


def test_beam_search_refuses_streamers_and_the_reader_hears_of_it() -> None:
    pytest.importorskip("torch")
    tokenizer, _ = demo_model()
    streamer = ResponseStreamer(tokenizer, timeout=LONG)
    with pytest.raises(ValueError, match="beam search"):
        generated(demo_inputs(QUESTIONS[0]), streamer, num_beams=2)
    with pytest.raises(ValueError, match="beam search"):
        list(streamer)


def test_the_demo_model_in_many_threads() -> None:
    pytest.importorskip("torch")
    tokenizer, model = demo_model()
    inputs = [demo_inputs(question) for question in QUESTIONS]
    alone = [ResponseStreamer(tokenizer, timeout=LONG) for _ in inputs]
    for each, streamer in zip(inputs, alone, strict=True):
        generated(each, streamer)
    many = [ResponseStreamer(tokenizer, timeout=LONG) for _ in range(12)]
    for number, streamer in enumerate(many):
        streamer.start(model.generate, **inputs[number % 3], max_new_tokens=150, do_sample=False)
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(list, many))
    for number, streamer in enumerate(many):
        assert streamer.message == alone[number % 3].message


def test_no_plugin_is_needed() -> None:
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    streamer = ResponseStreamer(tokenizer, response_template=TEMPLATE)
    replay([ids_of(tokenizer, "hi")], streamer=streamer, prompt=[ids_of(tokenizer, PROMPT)])
    assert streamer.message["content"] == "hi"
