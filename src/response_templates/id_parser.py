"""Parsers that are fed with token ids, or with text, or with both.

`feed` takes an id, ids in any form (a list, an array, a tensor), or text. Ids are decoded as they come (see
`decoding`), and the text goes to the engine, which knows nothing of ids. Text between ids ends a character that is
unfinished: it becomes U+FFFD, as at the end.

With `token_delimiters` (`ControlParser`) the text of control tokens goes in marked (see `control`), and is unmarked
where it leaves the engine: in chunks, bodies, groups, and what is malformed. Text that is fed as such holds no
control tokens, whatever it spells.

Invariant: the engine gets `decode` of all ids (special tokens kept), whatever pieces they come in. Ids that are wrong
raise before any of their chunk is taken in.
Bound: an id costs a look-up beyond the cost of its text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from .content import StringDialect, StringTracker
from .control import ControlTokens, controls_for, find_mark, spelled_texts
from .decoding import NO_TEXTS, AlignedStream, Stream, Vocabulary, in_vocabulary, vocabulary_of
from .detokenize import Marking, plain_ids, prefixes_of
from .errors import InputTypeError
from .message import Message
from .offsets import Offsets
from .parser import Event, ResponseParser, TemplateSource, _Region
from .plan import FieldPlan, Plan, plan_for
from .template import ResponseTemplate


class IdParser(ResponseParser):
    """A `ResponseParser` whose `feed` takes ids as well."""

    __slots__ = ("_stream", "_vocabulary", "_whole")

    def __init__(
        self,
        response_template: TemplateSource,
        prefix: str | None,
        vocabulary: Vocabulary,
        stream: Stream,
        **options: Any,
    ) -> None:
        self._vocabulary = vocabulary
        self._stream = stream
        self._whole: Mapping[int, str] = stream.whole
        super().__init__(response_template, prefix, **options)

    def feed(self, chunk: Any) -> list[Event]:
        """Parse the next piece of the generation; returns the events that it settles.

        Args:
            chunk: an id; a list, tuple, array or tensor of the next ids of this generation; or text.

        Raises:
            ParseError: under `errors="strict"`, a region doesn't parse.
            ParserFinalizedError: the parser is finalized.
            InputTypeError: it is none of these, or an id is not in the vocabulary. The parser goes on as if it had not
                been fed.
        """
        if chunk.__class__ is int:
            text = None if self._stream.busy else self._whole.get(chunk)
            if text:
                return ResponseParser.feed(self, text)
            self._check_open()
            text = self._stream.step(chunk)
            return self._feed_text(text) if text else []
        self._check_open()
        if isinstance(chunk, str):
            return self._feed_text(self._stream.flush() + chunk)
        ids = plain_ids(chunk, "ids")
        for place, each in enumerate(ids):
            if not self._vocabulary.knows(each):
                raise InputTypeError(f"ids[{place}] is {each}, which is not in the vocabulary")
        return self._feed_text("".join(map(self._stream.step, ids)))

    def finalize(self) -> tuple[Message, list[Event]]:
        """As `ResponseParser.finalize`; an unfinished character becomes U+FFFD."""
        self._check_open()
        rest = self._stream.flush()
        events = self._feed_text(rest) if rest else []
        message, last = super().finalize()
        return message, events + last

    def _feed_text(self, text: str) -> list[Event]:
        return ResponseParser.feed(self, text)


class ControlParser(IdParser):
    """An `IdParser` for which a delimiter that is a control token counts only where the model emitted that token.

    Its stream and its prefix are marked.
    """

    __slots__ = ("_controls",)

    def __init__(
        self,
        response_template: TemplateSource,
        prefix: str | None,
        vocabulary: Vocabulary,
        stream: Stream,
        controls: ControlTokens,
        **options: Any,
    ) -> None:
        self._controls = controls
        super().__init__(response_template, prefix, vocabulary, stream, **options)

    def _planned(self, template: ResponseTemplate) -> Plan:
        return plan_for(template, self._controls)

    def feed(self, chunk: Any) -> list[Event]:
        """As `IdParser.feed`. Text that is fed as text holds no control tokens, whatever it spells."""
        if isinstance(chunk, str):
            check_unmarked(chunk, "text")
        return super().feed(chunk)

    def _feed_text(self, text: str) -> list[Event]:
        if find_mark(text) is None:
            return ResponseParser.feed(self, text)
        events: list[Event] = []
        self._append(text, events)
        return events

    # -- where text leaves the engine ----------------------------------------------------------------------------

    def _body_from(self, region: _Region, position: int) -> str:
        return self._controls.unmark(super()._body_from(region, position))

    def _emit(self, text: str, events: list[Event]) -> None:
        super()._emit(self._controls.unmark(text), events)

    def _open_region(
        self, plan: FieldPlan, opening: str, begin: int, groups: Mapping[str, str | None], events: list[Event]
    ) -> _Region:
        return super()._open_region(plan, self._controls.unmark(opening), begin, self._unmarked(groups), events)

    def _settle(
        self,
        region: _Region,
        closing: str,
        groups: Mapping[str, str | None],
        events: list[Event],
        *,
        cut_off: bool,
    ) -> None:
        super()._settle(region, self._controls.unmark(closing), self._unmarked(groups), events, cut_off=cut_off)

    def _unmarked(self, groups: Mapping[str, str | None]) -> Mapping[str, str | None]:
        return {name: text and self._controls.unmark(text) for name, text in groups.items()}

    def _tracker(self, dialect: StringDialect) -> StringTracker:
        return _UnmarkingTracker(dialect, self._controls)


class _UnmarkingTracker(StringTracker):
    """A string tracker that is given marked text."""

    __slots__ = ("_controls",)

    def __init__(self, dialect: Any, controls: ControlTokens) -> None:
        super().__init__(dialect)
        self._controls = controls

    def advance(self, text: str) -> None:
        super().advance(self._controls.unmark(text))


# --- offsets ---------------------------------------------------------------------------------------------------------


class TokenOffsets(Offsets):
    """Mixed into an `IdParser`, which has slots `_alignment` and `_regions`: events also say which ids they are of.

    `token_start` and `token_end` count the ids that were fed; those in between have a part in the characters from
    `start` to `end`. What the prefix pre-wrote has no ids: there they are 0.
    """

    __slots__ = ()

    def __init__(self: Any, *args: Any, alignment: AlignedStream, **kwargs: Any) -> None:
        self._alignment = alignment
        super().__init__(*args, **kwargs)

    def _place(self: Any, event: dict[str, Any], start: int, end: int, name: str = "") -> None:
        super()._place(event, start, end, name)
        first, behind = self._alignment.range(start - self._origin, end - self._origin)
        event[f"{name}token_start"] = first
        event[f"{name}token_end"] = behind

    def feed(self: Any, chunk: Any) -> list[Event]:
        if chunk.__class__ is int:
            text = self._stream.lone(chunk)
            if text:
                return self._placed_last(ResponseParser.feed(self, text))  # type: ignore[no-any-return]
        events: list[Event] = super().feed(chunk)  # type: ignore[misc]
        if isinstance(chunk, str):
            self._alignment.pass_text(len(chunk))
        return events

    def _placed_last(self: Any, events: list[Event]) -> list[Event]:
        """The events of a lone id. A chunk that went the fast way is all of its text, and the last that came."""
        if events and "start" not in events[0]:
            event, alignment = events[0], self._alignment
            event["end"] = end = alignment.total
            event["start"] = end - len(event["text"])
            event["token_end"] = count = len(alignment.starts)
            event["token_start"] = count - 1
        return events

    def _feed_text(self: Any, text: str) -> list[Event]:
        return self._located(super()._feed_text(text))  # type: ignore[misc,no-any-return]


class OffsetIdParser(TokenOffsets, IdParser):
    """An `IdParser` with offsets."""

    __slots__ = ("_alignment", "_regions")


class OffsetControlParser(TokenOffsets, ControlParser):
    """A `ControlParser` with offsets."""

    __slots__ = ("_alignment", "_regions")


# --- control tokens --------------------------------------------------------------------------------------------------


_MARKER = re.compile(r"\W+\w.*\W", re.DOTALL)  # such as <think> or [/INST], but not a brace or a word


class ControlIds:
    """The control tokens of a template in a vocabulary. Shared by all streams.

    Attributes:
        controls: their texts and marks.
        texts: their texts by id.
        whole: as `decoding.Stream.whole`, without them.
    """

    __slots__ = ("_count", "_next_id", "_waits", "controls", "texts", "whole")

    def __init__(self, tokenizer: Any, template: ResponseTemplate) -> None:
        tokens = {number: str(token) for number, token in tokenizer.added_tokens_decoder.items()}
        self.controls = controls_for(template, tokens.values())
        self.texts = {number: text for number, text in tokens.items() if text in self.controls.marked}
        self.whole: dict[int, str] = {}
        self._count = len(tokens)
        self._next_id = max(tokenizer.vocab_size, *(number + 1 for number in tokens), 0)
        marked = sorted(text for text in set(spelled_texts(template)) if _MARKER.fullmatch(text))
        numbers = set(tokenizer.convert_tokens_to_ids(marked))
        self._waits = not numbers <= {None, tokenizer.unk_token_id, *tokens}

    def holds_for(self, tokenizer: Any) -> bool:
        """Has `tokenizer` got no added tokens since?

        A new one has the id after the last. But where an ordinary token looks like a delimiter, it can be made an added
        one, and then all must be counted, which takes milliseconds for some vocabularies.
        """
        if in_vocabulary(tokenizer, self._next_id):
            return False
        return not self._waits or len(tokenizer.added_tokens_decoder) == self._count

    def marked_text(self, text: str) -> str:
        """A prefix that is text: its tokenizer makes control tokens of all that spells one."""
        check_unmarked(text, "prefix")
        return self.controls.mark_all(text)

    def marked_ids(self, vocabulary: Vocabulary, ids: list[int]) -> str:
        """The text of `ids`."""
        stream = MarkedStream(vocabulary.stream(), self)
        return "".join(map(stream.step, ids)) + stream.flush()


_known: WeakKeyDictionary[Any, dict[ResponseTemplate, ControlIds]] = WeakKeyDictionary()


def control_ids_of(tokenizer: Any, template: ResponseTemplate) -> ControlIds:
    """The control tokens of `template` that `tokenizer` has; looked up once, and again when it got more of them.

    Raises:
        TemplateError: as for `controls_for`.
    """
    known = _known.setdefault(tokenizer, {})
    found = known.get(template)
    if found is None or not found.holds_for(tokenizer):
        found = known[template] = ControlIds(tokenizer, template)
    return found


class MarkedStream:
    """A stream in whose text control tokens are marked."""

    __slots__ = ("_fills", "_marked", "_stream", "_texts", "whole")

    def __init__(self, stream: Stream, control_ids: ControlIds) -> None:
        self._stream = stream
        self._texts = control_ids.texts
        self._marked = control_ids.controls.marked
        self._fills = stream.whole is not NO_TEXTS
        self.whole = control_ids.whole if self._fills else NO_TEXTS

    @property
    def busy(self) -> bool:
        return self._stream.busy

    def lone(self, token_id: int) -> str:
        """As `AlignedStream.lone`, which it is made of."""
        return "" if token_id in self._texts else self._stream.lone(token_id)  # type: ignore[attr-defined]

    def step(self, token_id: int) -> str:
        stream = self._stream
        alone = self._fills and not stream.busy
        text = stream.step(token_id)
        real = self._texts.get(token_id)
        if real is None:
            if alone and text and not stream.busy:
                self.whole[token_id] = text
            return text
        text += stream.settle()  # else its text might come with that of the ids behind it
        at = text.rfind(real)
        return text[:at] + self._marked[real] + text[at + len(real) :] if at >= 0 else text

    def flush(self) -> str:
        return self._stream.flush()


def check_unmarked(text: str, what: str) -> None:
    """Marks are lone surrogates: text that holds some would be taken for marked.

    Raises:
        InputTypeError: it does.
    """
    found = find_mark(text)
    if found is not None:
        raise InputTypeError(
            f"{what} has a lone surrogate ({found[0]!r} at character {found.start()}), which no tokenizer decodes to;"
            " with token_delimiters=True it can't be parsed"
        )


# --- making one ------------------------------------------------------------------------------------------------------


def parser_for_ids(
    tokenizer: Any,
    template: ResponseTemplate,
    prefix: str | None,
    *,
    token_delimiters: bool,
    offsets: bool,
    **options: Any,
) -> IdParser:
    """A parser for one generation of `tokenizer`; `prefix` is marked if `token_delimiters` is true.

    Raises:
        PrefixRequiredError, TemplateError, InputTypeError: as for `ResponseParser`.
    """
    vocabulary = vocabulary_of(tokenizer)
    stream: Any = vocabulary.aligned_stream() if offsets else vocabulary.stream()
    kind: Any = _KINDS[token_delimiters, offsets]
    if offsets:
        options["alignment"] = stream
    if token_delimiters:
        control_ids = control_ids_of(tokenizer, template)
        options["controls"] = control_ids.controls
        stream = MarkedStream(stream, control_ids)
    parser: IdParser = kind(template, prefix, vocabulary, stream, **options)
    return parser


def prefixes_for_ids(tokenizer: Any, value: Any, template: ResponseTemplate, *, token_delimiters: bool) -> Any:
    """`detokenize.prefixes_of`, marked if `token_delimiters` is true."""
    if value is None:
        return None
    if not token_delimiters:
        return prefixes_of(tokenizer, value, template)
    control_ids = control_ids_of(tokenizer, template)
    vocabulary = vocabulary_of(tokenizer)
    return prefixes_of(
        tokenizer,
        value,
        template,
        Marking(control_ids.marked_text, lambda ids: control_ids.marked_ids(vocabulary, ids)),
    )


_KINDS: Mapping[tuple[bool, bool], type[IdParser]] = {
    (False, False): IdParser,
    (True, False): ControlParser,
    (False, True): OffsetIdParser,
    (True, True): OffsetControlParser,
}
