"""What the tests of the modules around `hub` share: a login on the loopback Hub, a small checkpoint, templates."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from loopback_hub import LoopbackHub
from response_templates import remote
from response_templates.patience import Patience

CONFIG, KEY = "tokenizer_config.json", "response_template"
# As Qwen3 writes chats.
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}{{ '' if loop.first and not m.content else '\n' }}<tool_call>\n"
    '{"name": {{ c.function.name | tojson }}, "arguments": {{ c.function.arguments | tojson }}}'
    "\n</tool_call>{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Written as no library writes it: a byte order mark, two kinds of line ends, odd numbers, a key twice, no end of line.
CONFIG_BYTES = (
    '\ufeff{\r\n   "note" : "h\\u00e9 \\/",\r\n   "max": 1E400,\n   "max": 1000000000000000019884624838656,\r\n'
    '   "tokenizer_class": "PreTrainedTokenizerFast",\r\n   "chat_template": ' + json.dumps(CHAT_TEMPLATE) + "\r\n}"
).encode()
TEMPLATE: dict[str, Any] = {
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
OLDER: dict[str, Any] = {"start_anchor": "<|im_start|>assistant\n", "fields": {"content": {"close": "<|im_end|>"}}}
WRONG: dict[str, Any] = {"start_anchor": "[/INST]", "fields": {"content": {"close": "</s>"}}}  # another family's


def written(value: Any) -> Any:
    """A template as it is put into a file."""
    from response_templates import load_template

    return load_template(value).to_dict()


@dataclass
class Waits:
    """Stands in for `time.sleep`."""

    asked: list[float] = field(default_factory=list)

    def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)


def no_waiting(patch: pytest.MonkeyPatch, attempts: int = 4) -> Waits:
    """Whatever is tried again is tried at once; the waits that would have been."""
    waits = Waits()
    patch.setattr(remote, "PATIENCE", Patience(attempts=attempts, sleep=waits))
    return waits


def log_in(patch: pytest.MonkeyPatch, folder: Path, token: str | None) -> None:
    """The client's own login (a file, as `hf auth login` writes it) and cache, for this test."""
    folder.mkdir(exist_ok=True)
    path = folder / "token"
    path.write_text(token or "", encoding="utf-8")
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        patch.delenv(name, raising=False)
    patch.setattr(constants, "HF_TOKEN_PATH", str(path))
    patch.setattr(constants, "HF_HUB_CACHE", str(folder / "cache"))
    patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    remote._user.cache_clear()


def writes(hub: LoopbackHub) -> list[str]:
    """The requests that could have changed something."""
    return [f"{entry.method} {entry.path}" for entry in hub.log if entry.method not in ("GET", "HEAD")]
