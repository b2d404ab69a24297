"""Timing: cases taken in turn, in one process, and what comes of it as medians with their spread.

Invariant: all cases of a group are timed in the same rounds, one after the other, so that a busy moment of the machine
hits them alike; only ratios within a group mean anything. What is timed is CPU time, which other processes disturb less
than the clock on the wall.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"

Case = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """Seconds of one case: the median of its rounds, and the fastest and slowest."""

    median: float
    fastest: float
    slowest: float
    rounds: int

    def per(self, count: int) -> dict[str, Any]:
        """In microseconds for each of `count` things, for a row of results."""
        return {
            "us": round(self.median / count * 1e6, 4),
            "us_fastest": round(self.fastest / count * 1e6, 4),
            "us_slowest": round(self.slowest / count * 1e6, 4),
            "rounds": self.rounds,
        }


def interleaved(
    cases: Mapping[str, Case], rounds: int, clock: Callable[[], float] = time.process_time
) -> dict[str, Timing]:
    """Run all cases in turn, `rounds` times over, and time each run. A first round is not counted if there are more."""
    _set_aside_what_is_loaded()
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + (rounds > 1)):
        for name, case in cases.items():
            gc.collect()
            begin = clock()
            case()
            spent = clock() - begin
            if number or rounds == 1:
                seconds[name].append(spent)
    return {name: summary(spent) for name, spent in seconds.items()}


@lru_cache(maxsize=1)
def _set_aside_what_is_loaded() -> None:
    """So that the garbage collector doesn't look through all modules before each run."""
    gc.collect()
    gc.freeze()


def summary(seconds: list[float]) -> Timing:
    return Timing(statistics.median(seconds), min(seconds), max(seconds), len(seconds))


def once(case: Case) -> float:
    """Seconds of one run."""
    begin = time.process_time()
    case()
    return time.process_time() - begin


def repeated(case: Case, count: int) -> Case:
    """A case that is run `count` times over: for what is too short to time alone."""

    def run() -> None:
        for _ in range(count):
            case()

    return run


def options(description: str) -> argparse.Namespace:
    """The command line that all benchmarks share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: only shows that the benchmark works")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON file")
    return parser.parse_args()


def write(name: str, rows: list[dict[str, Any]], folder: Path, **facts: Any) -> None:
    """Write `rows` to `NAME.json` and print them."""
    folder.mkdir(parents=True, exist_ok=True)
    result = {"benchmark": name, "machine": machine(), **facts, "rows": rows}
    text = json.dumps(result, indent=1, ensure_ascii=False)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    for row in rows if facts.get("complete", True) else ():
        print("  ".join(f"{key}={value}" for key, value in row.items()))


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    from .engines import native_version

    return {
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "transformers": native_version(),
        "load": [round(each, 2) for each in os.getloadavg()] if hasattr(os, "getloadavg") else None,
    }
