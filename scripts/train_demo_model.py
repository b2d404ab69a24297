"""Trains the demo's model: a causal LM of a megabyte that answers three kinds of questions with tools.

    python scripts/train_demo_model.py            # writes demo/model; about 17 minutes on 2 cores

What it learns, from synthetic chats in the demo's own chat template: to think, to call the tool that fits with values
copied out of the question (made-up names and numbers, so that copying is what it learns, not the names), to say
what the tool answered, and to say so when no tool fits. The tokenizer is trained here too. All is seeded. At the end
it is asked held-out questions (real cities, none of which it was trained on) and the accuracy is printed.

Needs torch and transformers 4.51 or newer. The files written are the same for each: what the checkpoint says is
spelled so that all of these versions read it.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import string
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

import demo
import response_templates

Message = dict[str, Any]
Chat = list[Message]

SOURCES = Path(__file__).resolve().parent.parent / "demo"
SEED = 20
VOCABULARY = 512
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
END = "<|im_end|>"
TURN = "<|im_start|>assistant\n"
NO_THINKING = "<think>\n\n</think>\n\n"  # what the chat template writes with enable_thinking=False


# What is talked about

HELD_OUT_CITIES = (
    *("Lima", "Oslo", "Paris", "Berlin", "Tokyo", "New York", "San Francisco", "Rome", "Madrid", "Cairo", "Delhi"),
    *("London", "Nairobi", "Sydney", "Toronto", "Beijing", "Moscow", "Vienna", "Zürich", "São Paulo", "Bogotá"),
    *("Istanbul", "Reykjavik", "Kyoto", "Mexico City", "Cape Town", "Dublin", "Lisbon", "Prague", "Warsaw", "Kyiv"),
    *("Buenos Aires", "Stratford-upon-Avon", "Los Angeles", "Chicago", "Amsterdam", "Brussels", "Athens"),
    *("Helsinki", "Stockholm"),
)
SKIES = ("sunny", "cloudy", "rainy", "windy", "foggy", "snowy", "clear", "stormy", "hot", "cold", "dry", "mild")
ONE_CITY = (
    "What is the weather in {}?",
    "What's the weather in {}?",
    "What is the weather like in {}?",
    "How is the weather in {}?",
    "How's the weather in {} today?",
    "What is the weather in {} today?",
    "Tell me the weather in {}.",
    "Weather in {}?",
    "What's the weather like in {} right now?",
    "Is it raining in {}?",
    "Is it sunny in {}?",
    "How warm is it in {}?",
    "Please check the weather in {}.",
    "Can you tell me the weather in {}?",
    "what is the weather in {}",
)
TWO_CITIES = (
    "What is the weather in {} and {}?",
    "What is the weather in {} and in {}?",
    "How is the weather in {} and in {}?",
    "What's the weather like in {} and {}?",
    "Weather in {} and {}?",
    "Tell me the weather in {} and in {}.",
    "Compare the weather in {} and {}.",
)
SUMS = (
    "What is {} plus {}?",
    "What's {} plus {}?",
    "What is {} + {}?",
    "{} + {}",
    "{} + {} = ?",
    "Add {} and {}.",
    "Add {} to {}.",
    "How much is {} plus {}?",
    "What is the sum of {} and {}?",
    "Calculate {} + {}.",
    "Please add {} and {}.",
    "Can you add {} and {}?",
)
ALARMS = (
    "Set an alarm for {}{}.",
    "Set an alarm for {}{}",
    "Please set an alarm for {}{}.",
    "Wake me up at {}{}.",
    "Wake me at {}{}, please.",
    "Set my alarm to {}{}.",
    "Can you set an alarm for {}{}?",
    "I have to get up at {}{}.",
)
DAILY = (" every day", " daily", " every morning")
ONCE = ("", "", " tomorrow", " once")
HELLOS = ("Hello!", "Hi", "Hi!", "Hello", "Hey there!", "Good morning!", "hello")
WHO = ("Who are you?", "What are you?", "What can you do?", "What do you do?", "Help", "How can you help me?")
OTHER = (
    "Tell me a {}.",
    "Write a {} about {}.",
    "What is a {}?",
    "Who invented the {}?",
    "Explain {} to me.",
    "Translate {} into {}.",
    "Why is the {} {}?",
    "How do I cook {}?",
    "Where is {}?",
    "Sing a {}!",
    "Do you like {}?",
)
WORDS = (
    *("joke", "poem", "story", "song", "car", "house", "river", "cat", "dog", "bread", "music", "physics", "sky"),
    *("blue", "green", "telephone", "wheel", "history", "train", "book", "game", "rice", "moon", "winter", "friend"),
)
CANNOT = "I can only tell the weather, add numbers and set alarms."


@dataclass(frozen=True)
class Task:
    """A question with what ought to come of it: what is thought, called and answered. No calls: answered at once."""

    question: str
    thought: str
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    results: tuple[str, ...] = ()
    answer: str = ""

    @property
    def call_message(self) -> Message:
        """The first message of the assistant."""
        message: Message = {"role": "assistant", "reasoning_content": self.thought}
        if self.calls:
            calls = [{"name": name, "arguments": arguments} for name, arguments in self.calls]
            message["tool_calls"] = [{"type": "function", "function": call} for call in calls]
        else:
            message["content"] = self.answer
        return message

    @property
    def tool_messages(self) -> Chat:
        """What the tools gave."""
        names = [name for name, _ in self.calls]
        return [
            {"role": "tool", "name": name, "content": result} for name, result in zip(names, self.results, strict=True)
        ]

    @property
    def answer_message(self) -> Message:
        """The last message of the assistant, after the tools'."""
        thought = "The tools answered." if len(self.results) > 1 else "The tool answered."
        return {"role": "assistant", "reasoning_content": f"{thought} I pass it on.", "content": self.answer}


ONSETS = ("b", "br", "ch", *"dfg", "gr", *"hklmnprs", "st", *"tvz", "")
CODAS = ("", "", *"nrls", "ck", "rg", "nd", "m")
ACCENTED = "áàâãäåæçéèêëíîïñóôõöøúùûüýßłńśšžčğışőű"


def pieces_of_words() -> list[str]:
    """Parts of the words that are said anyway. They are what tokens are made of: with them each is copied at times."""
    said = " ".join((*ONE_CITY, *TWO_CITIES, *SUMS, *ALARMS, *DAILY, *SKIES, *HELLOS, *WHO, *OTHER, *WORDS, CANNOT))
    words = {"".join(letter for letter in word if letter.isalpha()).lower() for word in said.split()}
    return sorted({word[at : at + size] for word in words for size in (2, 3, 4) for at in range(len(word) - size + 1)})


PIECES = pieces_of_words()


def made_up_name(rng: random.Random) -> str:
    """A name that no one has: syllables, letters or pieces of words, at times with accents, several words, a hyphen."""
    words = []
    for _ in range(rng.choices((1, 2, 3), (75, 20, 5))[0]):
        kind = rng.random()
        if kind < 0.35:
            word = "".join(
                rng.choice(ONSETS) + rng.choice("aeiouy") + rng.choice(CODAS) for _ in range(rng.randint(1, 3))
            )
        elif kind < 0.75:
            word = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 3)))
        else:
            word = "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randint(2, 8)))
        if rng.random() < 0.25:
            spot = rng.randrange(len(word) + 1)
            word = word[:spot] + rng.choice(ACCENTED) + word[spot + rng.randrange(2) :]
        words.append(word if rng.random() < 0.1 else word.capitalize())
    return rng.choices((" ", "-"), (80, 20))[0].join(words)


def city(rng: random.Random) -> str:
    """A made-up city that is not one of the held-out ones."""
    while (name := made_up_name(rng)) in HELD_OUT_CITIES:
        pass
    return name


def number(rng: random.Random) -> int | float:
    """A number of one to five digits, seldom negative or with a decimal part."""
    size = rng.randint(1, 5)
    value: int | float = rng.randrange(10 ** (size - 1) if size > 1 else 0, 10**size)
    if rng.random() < 0.15:
        value = round(rng.randrange(1, 10_000) / rng.choice((10, 100)), 2)
        value = int(value) if value == int(value) else value
    return -value if rng.random() < 0.05 else value


def weather_report(rng: random.Random, name: str) -> str:
    """What the weather tool may say: the demo's own, or another one's."""
    if rng.random() < 0.4:
        return demo.get_weather(name)
    sky = rng.choice(SKIES) if rng.random() < 0.7 else made_up_name(rng).lower()
    degrees = rng.randint(-20, 45)
    return rng.choice((sky, f"{sky}, {degrees} °C", f"{degrees} °C, {sky}", f"{degrees} °C", f"{sky}, {degrees} °C"))


def weather(rng: random.Random, pick: Callable[[random.Random], str]) -> Task:
    """One city, or two at once (parallel calls)."""
    names = [pick(rng) for _ in range(rng.choices((1, 2), (65, 35))[0])]
    question = rng.choice(ONE_CITY if len(names) == 1 else TWO_CITIES).format(*names)
    results = [weather_report(rng, name) for name in names]
    said = [f"The weather in {name} is {result}." for name, result in zip(names, results, strict=True)]
    return Task(
        question,
        f"The user asks for the weather in {' and in '.join(names)}. I call get_weather.",
        tuple(("get_weather", {"city": name}) for name in names),
        tuple(results),
        " ".join(said),
    )


def addition(rng: random.Random) -> Task:
    """Two numbers to add."""
    a, b = number(rng), number(rng)
    result = demo.add(a, b)
    thought = f"The user wants to add {a} and {b}. I call add."
    answer = f"{a} plus {b} is {result}."
    return Task(rng.choice(SUMS).format(a, b), thought, (("add", {"a": a, "b": b}),), (result,), answer)


def alarm(rng: random.Random) -> Task:
    """An alarm at a time, once or daily."""
    hour, minute, daily = rng.randrange(24), rng.randrange(60), rng.random() < 0.4
    shown = rng.choice((f"{hour}:{minute:02d}", f"{hour:02d}:{minute:02d}"))
    question = rng.choice(ALARMS).format(shown, rng.choice(DAILY if daily else ONCE))
    result = demo.set_alarm(hour, minute, daily)
    how_often = "every day" if daily else "once"
    return Task(
        question,
        f"The user wants an alarm at hour {hour}, minute {minute}, {how_often}. I call set_alarm.",
        (("set_alarm", {"hour": hour, "minute": minute, "every_day": daily}),),
        (result,),
        f"Done: {result}.",
    )


def small_talk(rng: random.Random) -> Task:
    """What needs no tool."""
    if rng.random() < 0.5:
        return Task(rng.choice(HELLOS), "The user says hello.", answer="Hello! " + CANNOT)
    return Task(rng.choice(WHO), "The user asks about me.", answer=CANNOT)


def other(rng: random.Random) -> Task:
    """What no tool can do."""
    words = (rng.choice(WORDS) if rng.random() < 0.6 else made_up_name(rng) for _ in range(2))
    question = rng.choice(OTHER).format(*words)
    return Task(question, "None of my tools can do that.", answer=f"Sorry, I can't do that. {CANNOT}")


def any_task(rng: random.Random) -> Task:
    """A task to train on."""
    kind = rng.choices(("weather", "add", "alarm", "talk", "other"), (42, 24, 20, 4, 10))[0]
    makers: dict[str, Callable[[], Task]] = {
        "weather": lambda: weather(rng, city),
        "add": lambda: addition(rng),
        "alarm": lambda: alarm(rng),
        "talk": lambda: small_talk(rng),
        "other": lambda: other(rng),
    }
    return makers[kind]()


def held_out_tasks(count: int) -> list[Task]:
    """Questions for the examination: cities of the real world, numbers and times from another seed."""
    rng = random.Random(SEED + 1)
    makers: tuple[Callable[[], Task], ...] = (
        lambda: weather(rng, lambda rng: rng.choice(HELD_OUT_CITIES)),
        lambda: weather(rng, lambda rng: rng.choice(HELD_OUT_CITIES)),
        lambda: addition(rng),
        lambda: alarm(rng),
    )
    return [makers[index % len(makers)]() for index in range(count)]


# Text


def train_tokenizer() -> Tokenizer:
    """A byte-level BPE. A name is the same tokens wherever it is, since no token joins a space and a word."""
    rng = random.Random(SEED)
    tokenizer = Tokenizer(models.BPE())
    pieces = Regex(r"\p{L}+|\p{N}|(?:[^\p{L}\p{N}\s]+ ?)+|\s")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(pieces, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(MARKERS),
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    template = chat_renderer()
    texts = (_without_markers(template(*any_chat(rng))) for _ in range(6000))
    tokenizer.train_from_iterator(texts, trainer)
    # Like Qwen3's: the markers are single tokens, but not special, so that decoding never drops them.
    tokenizer.add_tokens([AddedToken(marker, special=False, normalized=False) for marker in MARKERS])
    return tokenizer


def _without_markers(text: str) -> str:
    for marker in (*SPECIAL, *MARKERS):
        text = text.replace(marker, "\n")
    return text


def chat_renderer() -> Callable[[Chat, list[Any]], str]:
    """The chat template as a function, for the time when there is no tokenizer yet."""
    from transformers.utils.chat_template_utils import get_json_schema, render_jinja_template

    source = (SOURCES / "chat_template.jinja").read_text(encoding="utf-8")

    def render(chat: Chat, tools: list[Any]) -> str:
        schemas = [get_json_schema(tool) for tool in tools]
        return str(render_jinja_template([chat], tools=schemas, chat_template=source)[0][0])

    return render


def any_chat(rng: random.Random) -> tuple[Chat, list[Any]]:
    """A chat to train on, with the tools that it is given: all of them mostly, in any order."""
    tasks = [any_task(rng)]
    chat: Chat = []
    if rng.random() < 0.1:
        chat.append({"role": "system", "content": rng.choice(("You are a helpful assistant.", "Be brief."))})
    if rng.random() >= 0.9:
        tasks.append(any_task(rng))
    for task in tasks:
        chat += [{"role": "user", "content": task.question}, task.call_message]
        if task.calls:
            chat += [*task.tool_messages, task.answer_message]
    needed = {call["function"]["name"] for message in chat for call in message.get("tool_calls", ())}
    left_out = rng.random() < 0.3
    tools = [tool for tool in demo.TOOLS if tool.__name__ in needed or not (left_out and rng.random() < 0.6)]
    if rng.random() < 0.5:
        rng.shuffle(tools)
    return chat, tools


@dataclass(frozen=True)
class Sample:
    """Token ids, and for each whether the model is to learn to write it."""

    ids: list[int]
    learned: list[bool]


class Sampler:
    """Makes samples of random chats, rendered by the chat template itself."""

    def __init__(self, tokenizer: Tokenizer, rng: random.Random) -> None:
        self._tokenizer = tokenizer
        self._rng = rng
        self._render = chat_renderer()

    def sample(self) -> Sample:
        """A chat whose assistant messages are all learned; or, without thinking, the last one only."""
        chat, tools = any_chat(self._rng)
        if self._rng.random() >= 0.12:
            return self._pieces(self._render(chat, tools).split(TURN))
        last = self._rng.choice([index for index, message in enumerate(chat) if message["role"] == "assistant"])
        chat = [{k: v for k, v in message.items() if k != "reasoning_content"} for message in chat[: last + 1]]
        before, turn, reply = self._render(chat, tools).rpartition(TURN)
        return self._pieces([before + turn + NO_THINKING, reply])

    def _pieces(self, pieces: list[str]) -> Sample:
        """Join with what divided the pieces; each but the first begins with an assistant's message."""
        ids, learned = self._encode(pieces[0], False)
        for piece in pieces[1:]:
            reply, end, rest = piece.partition(END)
            before = "" if pieces[0].endswith(NO_THINKING) else TURN
            for text, is_learned in ((before, False), (reply + end, True), (rest, False)):
                more, flags = self._encode(text, is_learned)
                ids, learned = ids + more, learned + flags
        return Sample(ids, learned)

    def _encode(self, text: str, learned: bool) -> tuple[list[int], list[bool]]:
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids, [learned] * len(ids)


# Training


def new_model(tokenizer: Tokenizer) -> LlamaForCausalLM:
    """The model, with random weights: under a million of them."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.token_to_id(END),
        pad_token_id=tokenizer.token_to_id("<|endoftext|>"),
        initializer_range=0.05,
    )
    return LlamaForCausalLM(config)


def batches(sampler: Sampler, size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless batches of ids and labels; chats of a like length go together, so that little is padded."""
    while True:
        pool = sorted((sampler.sample() for _ in range(size * 16)), key=lambda sample: len(sample.ids))
        starts = list(range(0, len(pool), size))
        random.shuffle(starts)
        for start in starts:
            group = pool[start : start + size]
            longest = max(len(sample.ids) for sample in group)
            ids = torch.zeros(size, longest, dtype=torch.long)
            labels = torch.full((size, longest), -100)
            for row, sample in enumerate(group):
                ids[row, : len(sample.ids)] = torch.tensor(sample.ids)
                masked = [i if learned else -100 for i, learned in zip(sample.ids, sample.learned, strict=True)]
                labels[row, : len(masked)] = torch.tensor(masked)
            yield ids, labels


def train(model: LlamaForCausalLM, sampler: Sampler, steps: int, size: int, peak: float) -> None:
    """AdamW with warmup and a cosine. Padding is at the right and never looked back at: no mask is needed."""
    decayed = [weight for weight in model.parameters() if weight.dim() > 1]
    plain = [weight for weight in model.parameters() if weight.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.98))

    def rate(step: int) -> float:
        warm = min(1.0, (step + 1) / 100)
        return warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    begun, mean = time.monotonic(), 0.0
    model.train()
    for step, (ids, labels) in zip(range(steps), batches(sampler, size), strict=False):
        kept = labels[:, 1:] != -100
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
        logits = model.lm_head(hidden[kept])
        loss = torch.nn.functional.cross_entropy(logits, labels[:, 1:][kept])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        mean = loss.item() if step == 0 else 0.98 * mean + 0.02 * loss.item()
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step:5d}  loss {mean:.4f}  {(time.monotonic() - begun) / 60:.1f} min", flush=True)


# The checkpoint


def save(model: LlamaForCausalLM, tokenizer: Tokenizer, folder: Path) -> None:
    """Write the checkpoint, spelled so that transformers 4.51 and 5 both read it."""
    folder.mkdir(parents=True, exist_ok=True)
    config = model.config
    end, pad = config.eos_token_id, config.pad_token_id
    names = (
        *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
        *("num_key_value_heads", "max_position_embeddings", "tie_word_embeddings", "hidden_act", "rms_norm_eps"),
        *("bos_token_id", "eos_token_id", "pad_token_id", "attention_bias", "mlp_bias"),
    )
    _write_json(
        folder / "config.json",
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            # The weights are kept in 16 bits; computing in 32 gives the same text on each version of everything.
            "torch_dtype": "float32",
            "rope_theta": 10000.0,
            **{name: getattr(config, name) for name in names},
        },
    )
    _write_json(folder / "generation_config.json", {"eos_token_id": end, "pad_token_id": pad, "do_sample": False})
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": END,
            "pad_token": "<|endoftext|>",
            "padding_side": "left",
            "model_input_names": ["input_ids", "attention_mask"],
            "model_max_length": config.max_position_embeddings,
            "clean_up_tokenization_spaces": False,
            "chat_template": (SOURCES / "chat_template.jinja").read_text(encoding="utf-8"),
            "response_template": json.loads((SOURCES / "response_template.json").read_text(encoding="utf-8")),
        },
    )
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    weights = {
        name: weight.detach().to(torch.bfloat16).contiguous()
        for name, weight in model.state_dict().items()
        if name != "lm_head.weight"  # tied to the embeddings
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


# The examination


def examine(folder: Path, tasks: list[Task]) -> tuple[float, float]:
    """Ask the saved checkpoint. Returns how many of the calls and how many of the answers were right (0 to 1)."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    asked = [[{"role": "user", "content": task.question}] for task in tasks]
    told = [[*chat, t.call_message, *t.tool_messages] for chat, t in zip(asked, tasks, strict=True)]
    calls = [task.call_message["tool_calls"] for task in tasks]
    answers = [task.answer for task in tasks]
    right_calls = _count_right(tokenizer, model, asked, "tool_calls", calls)
    right_answers = _count_right(tokenizer, model, told, "content", answers)
    return right_calls / len(tasks), right_answers / len(tasks)


def _count_right(tokenizer: Any, model: Any, chats: list[Chat], key: str, expected: list[Any]) -> int:
    template = response_templates.load_template(SOURCES / "response_template.json")
    right, size = 0, 50
    for start in range(0, len(chats), size):
        prompts = [
            tokenizer.apply_chat_template(chat, tools=list(demo.TOOLS), add_generation_prompt=True, tokenize=False)
            for chat in chats[start : start + size]
        ]
        inputs = tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        with torch.inference_mode():
            output = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=160, do_sample=False)
        for prompt, generated, wanted in zip(
            prompts, output[:, ids.shape[1] :], expected[start : start + size], strict=True
        ):
            text = tokenizer.decode(generated, skip_special_tokens=False).partition(END)[0]
            message = response_templates.parse_response(text, template, prefix=prompt, errors="recover")
            if message.get(key) == wanted:
                right += 1
            else:
                print(f"  wrong: {prompt.rpartition('<|im_start|>user')[2]!r} → {text!r}")
    return right


def main() -> None:
    """Train, save, examine."""
    options = argparse.ArgumentParser(description="Train the demo's model.")
    options.add_argument("--output", type=Path, default=SOURCES / "model", help="default: demo/model")
    options.add_argument("--steps", type=int, default=3000)
    options.add_argument("--batch", type=int, default=16)
    options.add_argument("--rate", type=float, default=2e-3)
    options.add_argument("--exam", type=int, default=400, help="how many held-out questions to ask")
    chosen = options.parse_args()
    begun = time.monotonic()
    torch.set_num_threads(2)
    torch.manual_seed(SEED)
    random.seed(SEED)
    tokenizer = train_tokenizer()
    model = new_model(tokenizer)
    print(f"{sum(weight.numel() for weight in model.parameters()):,} weights", flush=True)
    train(model, Sampler(tokenizer, random.Random(SEED)), chosen.steps, chosen.batch, chosen.rate)
    save(model, tokenizer, chosen.output)
    print(f"trained in {(time.monotonic() - begun) / 60:.1f} minutes; size:", end=" ")
    print(f"{sum(path.stat().st_size for path in chosen.output.iterdir()) / 1e6:.2f} MB")
    calls, answers = examine(chosen.output, held_out_tasks(chosen.exam))
    print(f"held-out questions: {calls:.1%} of the calls right, {answers:.1%} of the answers right")


if __name__ == "__main__":
    main()
