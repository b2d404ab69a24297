"""What an import costs over the bare interpreter's start.

Run: python -m benchmarks.import_time

Each is a process of its own, in turn, and its CPU time is taken. The package imports its parts when they are first
used, so that the bare `import response_templates` says little: the parser and the registry are imported as well.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import Any

from . import measure

STATEMENTS = {
    "interpreter": "pass",
    "import response_templates": "import response_templates",
    "… and the parser": "from response_templates import ResponseParser, parse_response",
    "… and a template of the registry": (
        "from response_templates import ResponseParser, get_template; get_template('qwen3')"
    ),
    "import transformers": "import transformers",
    "… and its tokenizers": "import transformers; transformers.PreTrainedTokenizerFast",
    "… and the native parser": (
        "import transformers; transformers.PreTrainedTokenizerFast; import transformers.utils.chat_parsing"
    ),
    "… and its processors (these load torch)": (
        "import transformers; transformers.PreTrainedTokenizerFast; transformers.ProcessorMixin"
    ),
    "the plugin": "import response_templates.auto",
    "the plugin, transformers and its tokenizers": (
        "import response_templates.auto, transformers; transformers.PreTrainedTokenizerFast"
    ),
}


def main() -> None:
    arguments = measure.options(__doc__ or "")
    names = list(STATEMENTS)[:3] if arguments.quick else list(STATEMENTS)
    rows: list[dict[str, Any]] = []
    working = {}
    for name in names:
        problem = run(STATEMENTS[name])
        if problem:
            rows.append({"statement": name, "note": problem})
        else:
            working[name] = lambda name=name: run(STATEMENTS[name])
    for name, timing in measure.interleaved(working, 2 if arguments.quick else 7, children_clock).items():
        milliseconds = {key.replace("us", "ms"): value for key, value in timing.per(1000).items()}
        rows.append({"statement": name, **milliseconds})
    measure.write("import_time", rows, arguments.results)


def children_clock() -> float:
    """CPU seconds of the processes that have been started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(statement: str) -> str:
    """Run it; "" or what went wrong."""
    done = subprocess.run([sys.executable, "-c", statement], capture_output=True, text=True)
    return done.stderr.strip().rsplit("\n", 1)[-1] if done.returncode else ""


if __name__ == "__main__":
    main()
