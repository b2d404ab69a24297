"""Runs the tests that touch transformers on old and new versions of it, and carries checkpoints from one to another.

    python scripts/test_matrix.py                   # all cells
    python scripts/test_matrix.py --only 4.51.3     # one version
    python scripts/test_matrix.py --allow-missing   # leave out cells whose Python isn't on this machine

The tests that talk to the loopback Hub run in each cell, too, with the `huggingface_hub` that its transformers brings.

Each cell of the matrix is a virtual environment, made once and kept in the user's cache folder (XDG_CACHE_HOME, else
~/.cache). A Python that is missing is an error. After the tests, each cell saves tokenizers with a template; every
other cell loads them, parses with them, and saves them again; and the first loads what came back.

Only the standard library is needed; the steps `save`, `pass-on` and `take-back` run inside the environments.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = (
    "pytest>=8",
    "pytest-xdist>=3",
    "hypothesis>=6.100",
    "jinja2>=3.1",
    "numpy",
    "regex",
    "json-repair>=0.30",
    "typer>=0.12",
    "rich>=13",
    "openai>=1.60",
    "fastapi>=0.115",
    "uvicorn>=0.30",
    "httpx",
    "jsonschema",
)
TORCH = "torch==2.13.0"
# These name transformers, but what they check is the same under every version; the test suite runs them.
ONCE = ("test_benchmarks", "test_conformance", "test_contributing", "test_names", "test_snapshot")


@dataclass(frozen=True, slots=True)
class Cell:
    """A Python, a version of transformers, and what else is installed beside it."""

    python: str
    transformers: str
    extras: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"transformers {self.transformers}, Python {self.python}" + (", torch" if self.extras else "")

    @property
    def requirements(self) -> tuple[str, ...]:
        return (*self.extras, f"transformers=={self.transformers}", *TOOLS)


CELLS = (
    Cell("3.11", "4.51.3", (TORCH,)),
    Cell("3.10", "4.57.6"),
    Cell("3.12", "5.5.4", (TORCH,)),
    Cell("3.13", "5.24.0"),
    Cell("3.11", "5.24.0", (TORCH,)),
)


# --- environments --------------------------------------------------------------------------------------------------


def find_python(version: str) -> str | None:
    """A Python of this version (such as "3.12"): on the path, or among those that pyenv has installed."""
    installed = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = sorted(installed.glob(f"{version}.*/bin/python"), reverse=True)
    return next((name for name in (f"python{version}", *map(str, found), sys.executable) if _is(name, version)), None)


def _is(python: str, version: str) -> bool:
    code = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == version


def cache_folder() -> Path:
    """Where environments are kept: the user's cache or, where that can't be written, `.cache` in this checkout."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "response-templates" / "matrix"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        folder = ROOT / ".cache" / "matrix"
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def environment(cell: Cell, python: str) -> Path:
    """The Python of the cell's environment, which is made if it isn't there in full."""
    key = hashlib.sha256(json.dumps([os.path.realpath(python), cell.requirements]).encode()).hexdigest()[:12]
    folder = cache_folder() / f"{cell.transformers}-py{cell.python}-{key}"
    inside, stamp = folder / "bin" / "python", folder / ".is-complete"
    with open(folder.with_suffix(".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists():
            print(f"making the environment of {cell.name}", flush=True)
            subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
            pip = [str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            for requirements in filter(None, (cell.extras, cell.requirements)):  # torch first: a CPU build is kept
                subprocess.run([*pip, *requirements], check=True)
            stamp.touch()
    return inside


# --- the tests -----------------------------------------------------------------------------------------------------


def tests(pattern: str) -> list[str]:
    """The test files in which a regex is found."""
    files = sorted((ROOT / "tests").glob("test_*.py"))
    return [str(path) for path in files if re.search(pattern, path.read_text(encoding="utf-8"))]


def run(python: Path, *arguments: str, offline: bool = True, share: str = "") -> bool:
    """Run Python in an environment, with this checkout's package; True if all went well."""
    variables = {
        **os.environ,
        "RESPONSE_TEMPLATES_SHARE": share,
        "PYTHONPATH": str(ROOT / "src"),
        "HF_HUB_OFFLINE": "1" if offline else "0",  # `conftest.py` keeps tests from the real Hub in any case
        "TOKENIZERS_PARALLELISM": "false",
    }
    return subprocess.run([python, *arguments], cwd=ROOT, env=variables).returncode == 0


def run_tests(python: Path, share: str) -> bool:
    """The tests that have to do with transformers, and those that talk to a Hub (a loopback one).

    Each cell takes its `share` of the round trips ("2/5": the second of five): the test suite itself does them all.
    """
    pytest = ("-m", "pytest", "-q", "-n", "auto", "-m", "not slow", "-p", "no:cacheprovider")
    on_hub = tests(r"\bloopback_hub\b")
    others = [path for path in tests(r"\btransformers\b") if path not in on_hub and Path(path).stem not in ONCE]
    passed = run(python, *pytest, *others, share=share)
    return run(python, *pytest, *on_hub, offline=False) and passed


def carry(environments: dict[str, Path], folder: Path) -> list[str]:
    """Save in each cell, load in every other, and take back; the steps that failed."""
    failed = []
    for step in ("save", "pass-on", "take-back"):
        for number, (name, python) in enumerate(environments.items()):
            if not run(python, __file__, "--step", step, str(number), str(folder)):
                failed.append(f"{step} under {name}")
    return failed


# --- steps inside an environment -----------------------------------------------------------------------------------


def step(name: str, number: str, folder: Path) -> None:
    """One step of `carry`, under the transformers of this environment.

    Args:
        name: `save` makes tokenizers in `folder/NUMBER`; `pass-on` loads those of all cells and saves each to
            `folder/ORIGIN-via-NUMBER`; `take-back` loads what others saved of this cell's own.
        number: of the cell.
    """
    sys.path.insert(0, str(ROOT / "tests"))
    import response_templates.auto  # noqa: F401

    if name == "save":
        _save(folder / number)
    elif name == "pass-on":
        for origin in sorted(path for path in folder.iterdir() if path.name.isdigit()):
            _load(origin, folder / f"{origin.name}-via-{number}")
    else:
        for came_back in sorted(folder.glob(f"{number}-via-*")):
            _load(came_back, None)


def _save(folder: Path) -> None:
    from plugin_helpers import TEMPLATE, byte_level, letter_level

    (folder / "made").mkdir(parents=True)
    for kind, tokenizer in (("fast", byte_level()), ("slow", letter_level(folder / "made", special=False))):
        tokenizer.response_template = TEMPLATE
        tokenizer.save_pretrained(folder / kind)


def _load(origin: Path, target: Path | None) -> None:
    from transformers import PreTrainedTokenizerFast

    from plugin_helpers import TEMPLATE, LetterTokenizer, config_of

    for kind, loader in (("fast", PreTrainedTokenizerFast), ("slow", LetterTokenizer)):
        tokenizer = loader.from_pretrained(origin / kind)
        prompt = "<|im_start|>assistant\n<think>"
        prefix = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        response = tokenizer("hm</think>hi<|im_end|>", add_special_tokens=False)["input_ids"]
        expected = {"role": "assistant", "reasoning_content": "hm", "content": "hi"}
        found = tokenizer.response_template, tokenizer.parse_response(response, prefix=prefix)
        if found != (TEMPLATE, expected):
            raise SystemExit(f"{origin.name}, {kind}: {found}")
        if target is not None:
            tokenizer.save_pretrained(target / kind)
            if config_of(target / kind).get("response_template") != TEMPLATE:
                raise SystemExit(f"{target.name}, {kind}: not saved")


# --- all of it -----------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Test against old and new versions of transformers.")
    parser.add_argument("--only", metavar="VERSION", help="one version of transformers")
    parser.add_argument("--allow-missing", action="store_true", help="leave out cells whose Python is not there")
    parser.add_argument("--step", nargs=3, metavar=("NAME", "NUMBER", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.step:
        step(options.step[0], options.step[1], Path(options.step[2]))
        return 0
    cells = [cell for cell in CELLS if options.only in (None, cell.transformers)]
    if not cells:
        parser.error(f"no such version; there are {', '.join(cell.transformers for cell in CELLS)}")
    pythons = {cell: find_python(cell.python) for cell in cells}
    missing = [cell.name for cell, python in pythons.items() if python is None]
    failed = [] if options.allow_missing else [f"no Python for {name}" for name in missing]
    environments = {cell.name: environment(cell, python) for cell, python in pythons.items() if python is not None}
    for number, (name, python) in enumerate(environments.items(), 1):
        print(f"\n== {name}", flush=True)
        if not run_tests(python, f"{number}/{len(environments)}"):
            failed.append(f"tests under {name}")
    print("\n== from version to version, and back", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        failed += carry(environments, Path(folder))
    for name in missing:
        print(f"LEFT OUT, there is no such Python here: {name}")
    for what in failed:
        print(f"FAILED: {what}")
    print(f"matrix: {len(environments)} environments, {len(failed)} failures")
    return 1 if failed or not environments else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
