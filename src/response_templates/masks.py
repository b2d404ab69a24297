"""Masks over token ids, for training code: which tokens are the reasoning, which the content, which the calls.

Invariant: a mask is as long as its ids; a token is in the mask of a field if a character that it has a part in
belongs to that field (see `spans`), so a token on a border is in two. Bound: linear in the ids.
"""

from __future__ import annotations

from typing import Any

from .attribute import response_template_of, tokenizer_of
from .decoding import vocabulary_of
from .detokenize import each_of, plain_ids, without_end_padding
from .errors import InputTypeError
from .id_parser import ControlParser, IdParser, MarkedStream, control_ids_of, prefixes_for_ids
from .parser import one_each
from .spans import Witness
from .template import ResponseTemplate, load_template

Masks = dict[str, list[int]]


def token_masks(
    tokenizer: Any,
    ids: Any,
    *,
    prefix: Any = None,
    response_template: Any = None,
    token_delimiters: bool = False,
    delimiters: bool = True,
) -> Masks | list[Masks]:
    """For each field of the template a mask over the ids that were generated: 1 where the model wrote that field.

    Parsed as under `errors="recover"`: what is malformed is in the mask of its field.

    Args:
        tokenizer: a tokenizer or processor.
        ids: what was generated, a list, an array or a tensor of ids; for a batch several of these. Padding at the end
            is in no mask.
        prefix: the prompt, as for `tokenizer.parse_response`. `""` opts out.
        response_template: a template to use in place of the tokenizer's own.
        token_delimiters: as for `tokenizer.parse_response`.
        delimiters: are a field's delimiters part of it? (The model wrote them, too.)

    Returns:
        A list of 0 and 1 for each field; for a batch one such dict for each row.

    Raises:
        TemplateMissingError, PrefixRequiredError, TemplateError, InputTypeError: as for `tokenizer.parse_response`.
    """
    tokenizer = tokenizer_of(tokenizer)
    template = response_template_of(tokenizer) if response_template is None else load_template(response_template)
    prefixes = prefixes_for_ids(tokenizer, prefix, template, token_delimiters=token_delimiters)

    def masks(row: list[int], before: str | None) -> Masks:
        return _masks(tokenizer, template, row, before, token_delimiters, delimiters)

    rows: Any = each_of(ids, "ids", lambda row: plain_ids(row, "ids"), _no_text)
    if rows and isinstance(rows[0], list):
        return [masks(row, before) for row, before in zip(rows, one_each(prefixes, len(rows)), strict=True)]
    if isinstance(prefixes, list):
        if len(prefixes) != 1:
            raise InputTypeError(f"there are the ids of one generation, but {len(prefixes)} prefixes")
        [prefixes] = prefixes
    return masks(rows, prefixes)


def _no_text(text: str) -> Any:
    raise InputTypeError("masks are for token ids, but this is text")


def _masks(
    tokenizer: Any,
    template: ResponseTemplate,
    ids: list[int],
    prefix: str | None,
    token_delimiters: bool,
    delimiters: bool,
) -> Masks:
    vocabulary = vocabulary_of(tokenizer)
    alignment = vocabulary.aligned_stream()
    parser: Any
    if token_delimiters:
        control_ids = control_ids_of(tokenizer, template)
        stream = MarkedStream(alignment, control_ids)
        parser = _ControlWitness(template, prefix, vocabulary, stream, control_ids.controls, errors="recover")
    else:
        parser = _IdWitness(template, prefix, vocabulary, alignment, errors="recover")
    parser.feed(without_end_padding(tokenizer, ids))
    parser.finalize()
    masks = {name: [0] * len(ids) for name in template.fields}
    for span in parser.spans:
        if span.field is None or (span.kind == "delimiter" and not delimiters):
            continue
        first, behind = alignment.range(span.start - parser.origin, span.end - parser.origin)
        masks[span.field][first:behind] = [1] * (behind - first)
    return masks


class _IdWitness(Witness, IdParser):
    __slots__ = ("spans",)


class _ControlWitness(Witness, ControlParser):
    __slots__ = ("spans",)
