"""A checkpoint as far as response templates go: its tokenizer's configuration and its chat templates.

A checkpoint is a folder or a revision of a repository on the Hub. Its chat template can live in three places; as in
transformers, files of the newer layouts (`chat_template.jinja`, `additional_chat_templates/NAME.jinja`) win over the
key `chat_template` of the configuration. Only these small files are read; a tokenizer's own file is fetched when
somebody asks for it.

Invariant: reading changes nothing. Bound: each file is read once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, Protocol

from .errors import CheckpointError, ConfigError, NoTokenizerError
from .json_edit import MISSING, members_of
from .registry import RegisteredTemplate, template_for
from .remote import CONFIG, Repo

KEY = "response_template"
JINJA = "chat_template.jinja"
MORE = "additional_chat_templates"
TOKENIZER = "tokenizer.json"
TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token")


class Files(Protocol):
    """Where a checkpoint's files are."""

    @property
    def name(self) -> str: ...

    @property
    def files(self) -> frozenset[str]: ...

    def read(self, file: str) -> bytes | None: ...

    def path(self, file: str) -> Path | None: ...


@dataclass(frozen=True, slots=True)
class Folder:
    """A checkpoint's folder on this machine."""

    root: Path

    @property
    def name(self) -> str:
        return str(self.root)

    @property
    def files(self) -> frozenset[str]:
        more = [f"{MORE}/{path.name}" for path in (self.root / MORE).glob("*.jinja")]
        return frozenset([*(path.name for path in self.root.iterdir() if path.is_file()), *more])

    def read(self, file: str) -> bytes | None:
        path = self.path(file)
        try:
            return path.read_bytes() if path is not None else None
        except OSError as error:
            raise CheckpointError(f"cannot read {path}: {error.strerror}") from error

    def path(self, file: str) -> Path | None:
        path = self.root / file
        return path if path.is_file() else None


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's configuration, as its files have it.

    Attributes:
        files: where they are.
        config: the bytes of `tokenizer_config.json`.
    """

    files: Files
    config: bytes

    @property
    def name(self) -> str:
        return self.files.name

    @cached_property
    def members(self) -> Mapping[str, Any]:
        """The configuration. Raises ConfigError if it is no JSON object."""
        try:
            return members_of(self.config)
        except ConfigError as error:
            raise ConfigError(f"{CONFIG} of {self.name} is {error}") from error

    @property
    def response_template(self) -> Any:
        """The response template that is there, whatever it is; `MISSING` if there is none."""
        found = self.members.get(KEY, MISSING)
        return MISSING if found is None else found

    @cached_property
    def chat_templates(self) -> Mapping[str, str]:
        """The chat templates by name; the usual one is called `default`."""
        found = {JINJA: "default"} if JINJA in self.files.files else {}
        found |= {file: PurePosixPath(file).stem for file in sorted(self.files.files) if _is_additional(file)}
        texts = {name: self._text(file) for file, name in found.items()} or _named(self.members.get("chat_template"))
        return {name: text for name, text in texts.items() if text.strip()}

    @property
    def tokens(self) -> Mapping[str, str]:
        """The special tokens that the configuration names."""
        found = {name: self.members.get(name) for name in TOKENS}
        texts = {name: token.get("content") if isinstance(token, Mapping) else token for name, token in found.items()}
        return {name: text for name, text in texts.items() if isinstance(text, str)}

    def tokenizer_file(self) -> Path | None:
        """The file of the fast tokenizer, fetched if need be; None if there is none."""
        return self.files.path(TOKENIZER)

    def fitting(self) -> RegisteredTemplate | None:
        """The template of the registry that fits."""
        if self.chat_templates:
            return template_for(SimpleNamespace(chat_template=dict(self.chat_templates), name_or_path=self.name))
        return template_for(self.name)

    def _text(self, file: str) -> str:
        return (self.files.read(file) or b"").decode("utf-8", "replace")


def files_of(target: Any, revision: str | None, token: str | bool | None) -> Files:
    """Where the files of `target` are: a folder, or a snapshot of a repository.

    Raises:
        CheckpointError: there is no such folder or repository, or it may not be read.
    """
    if is_folder(target):
        return Folder(Path(target))
    return Repo(str(target), revision, token).snapshot()


def is_folder(target: str | os.PathLike[str]) -> bool:
    """Is a folder meant, rather than the id of a repository?"""
    return isinstance(target, os.PathLike) or os.path.isdir(target)


def read_checkpoint(files: Files) -> Checkpoint:
    """The checkpoint in `files`.

    Raises:
        NoTokenizerError: it has no `tokenizer_config.json`.
        CheckpointError: it cannot be read.
    """
    if isinstance(files, Folder) and not files.root.is_dir():
        raise CheckpointError(f"there is no folder {files.root}")
    config = files.read(CONFIG)
    if config is None:
        raise NoTokenizerError(f"{files.name} has no {CONFIG}, so there is no tokenizer to give a template to")
    return Checkpoint(files, config)


def _is_additional(file: str) -> bool:
    path = PurePosixPath(file)
    return path.suffix == ".jinja" and str(path.parent) == MORE


def _named(value: Any) -> dict[str, str]:
    """The chat templates of a configuration: one text, or a list of texts with names."""
    if isinstance(value, str):
        return {"default": value}
    if isinstance(value, Mapping):
        return {str(name): text for name, text in value.items() if isinstance(text, str)}
    entries = [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
    return {str(each.get("name")): each["template"] for each in entries if isinstance(each.get("template"), str)}
