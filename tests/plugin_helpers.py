"""Tiny tokenizers and a processor, made on the spot: no network, and the same on every version of transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizer, PreTrainedTokenizerFast, ProcessorMixin

TEMPLATE: dict[str, Any] = {
    "version": 1,
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "reasoning_content": {"open": "<think>", "close": "</think>"},
        "tool_calls": {
            "open": "<tool_call>",
            "close": "</tool_call>",
            "content": "json",
            "repeats": True,
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close": "<|im_end|>"},
    },
}
BROKEN = {"version": 2, "start_anchor": "x", "fields": {"content": {}}}
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|im_start|>", "<|im_end|>", "<pad>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
_LINES = ["The weather in Lima is sunny.", "user assistant system", '{"name": "get_weather", "arguments": {}}']


def byte_level(**options: Any) -> PreTrainedTokenizerFast:
    """A fast tokenizer over bytes: any text can be encoded, and comes back as it was."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, special_tokens=SPECIAL)
    tokenizer.train_from_iterator(_LINES, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{"eos_token": "<|im_end|>", "pad_token": "<pad>", **options}
    )


def byte_fallback() -> PreTrainedTokenizerFast:
    """A fast tokenizer whose unknown characters become runs of byte tokens, which are decoded run by run."""
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)}
    for token in ["<unk>", *SPECIAL, *"abcdefghijklmnopqrstuvwxyz \n"]:
        vocabulary.setdefault(token, len(vocabulary))
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(SPECIAL)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<pad>")


class LetterTokenizer(PreTrainedTokenizer):
    """A slow tokenizer: a token for each character of its vocabulary file."""

    vocab_files_names = {"vocab_file": "letters.json"}  # noqa: RUF012 (transformers' own convention)
    model_input_names = ["input_ids", "attention_mask"]  # noqa: RUF012

    def __init__(self, vocab_file: str, **options: Any) -> None:
        self.letters: dict[str, int] = json.loads(Path(vocab_file).read_text(encoding="utf-8"))
        self.by_id = {number: letter for letter, number in self.letters.items()}
        super().__init__(**{"unk_token": "<unk>", "pad_token": "<pad>", "eos_token": "<|im_end|>", **options})

    @property
    def vocab_size(self) -> int:
        return len(self.letters)

    def get_vocab(self) -> dict[str, int]:
        return {**self.letters, **self.added_tokens_encoder}

    def _tokenize(self, text: str, **options: Any) -> list[str]:
        return list(text)

    def _convert_token_to_id(self, token: str) -> int:
        return self.letters.get(token, self.letters["<unk>"])

    def _convert_id_to_token(self, index: int) -> str | None:
        return self.by_id.get(index)

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return "".join(tokens)

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str]:
        path = Path(save_directory) / f"{filename_prefix + '-' if filename_prefix else ''}letters.json"
        path.write_text(json.dumps(self.letters), encoding="utf-8")
        return (str(path),)


def letter_level(folder: Path, *, special: bool = True, **options: Any) -> LetterTokenizer:
    """A slow tokenizer whose vocabulary file is in `folder`; its markers are `special` tokens, or plain ones."""
    letters = ["<unk>", "<pad>", *map(chr, range(32, 127)), "\n"]
    path = folder / "letters.json"
    path.write_text(json.dumps({letter: number for number, letter in enumerate(letters)}), encoding="utf-8")
    tokenizer = LetterTokenizer(str(path), **options)
    # not as additional special tokens: transformers 4 can't read what 5 writes for these
    tokenizer.add_tokens([AddedToken(token, special=special, normalized=False) for token in SPECIAL])
    return tokenizer


class TinyProcessor(ProcessorMixin):
    """A processor that has nothing but a tokenizer."""

    attributes = ["tokenizer"]  # noqa: RUF012
    tokenizer_class = "AutoTokenizer"
    valid_kwargs: list[str] = []  # noqa: RUF012

    def __init__(self, tokenizer: Any = None, chat_template: Any = None, **options: Any) -> None:
        super().__init__(tokenizer, chat_template=chat_template)


def config_of(folder: Path) -> dict[str, Any]:
    """What `save_pretrained` wrote to `tokenizer_config.json`."""
    config: dict[str, Any] = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    return config


def saved(tokenizer: Any, folder: Path) -> dict[str, Any]:
    """Save `tokenizer` to `folder`; the config that was written."""
    tokenizer.save_pretrained(folder)
    return config_of(folder)


def write_template(folder: Path, value: Any) -> None:
    """Put `value` into a saved tokenizer's config, as a download might have it."""
    config = {**config_of(folder), "response_template": value}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
