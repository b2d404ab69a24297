"""`import response_templates.auto` installs the plugin."""

from __future__ import annotations

from .tokenizer import install

install()
