"""Do something to a module once somebody imports it, and not before.

The plugin patches a class of a module that loads torch; whoever never uses that class shouldn't wait for it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Action = Callable[[ModuleType], None]


def when_imported(name: str, action: Action) -> Callable[[], None]:
    """Call `action` with the module `name` once it is imported: now, if it already is.

    Returns:
        A function that calls it off.
    """
    module = sys.modules.get(name)
    if module is not None:
        action(module)
        return lambda: None
    finder = _Finder(name, action)
    sys.meta_path.insert(0, finder)
    return finder.call_off


class _Finder(MetaPathFinder):
    """Finds only the one module, by asking the other finders, and has its loader call the action."""

    def __init__(self, name: str, action: Action) -> None:
        self._name = name
        self._action = action
        self._asking = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name or self._asking:
            return None
        self._asking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenAct(spec.loader, self)
        return spec

    def done(self, module: ModuleType) -> None:
        self.call_off()
        self._action(module)

    def call_off(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)


class _ThenAct(Loader):
    """Loads as `loader` does, then acts."""

    def __init__(self, loader: Loader, finder: _Finder) -> None:
        self._loader = loader
        self._finder = finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._finder.done(module)
