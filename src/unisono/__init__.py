"""Unisono: train translation models on one machine or many, and know what happened.

This is the Python API; docs/how-to/python.md shows it at work. `__init__.pyi` holds the types.
"""

import sys
from importlib import import_module
from types import ModuleType

__version__ = "0.2.0"


class _Lazy:
    """A name of the API that is imported when somebody first uses it.

    `import unisono` stays quick: torch comes with the first `unisono.train`, not before.

    Some of these names are submodules too: `unisono.train` is a function here, and
    `unisono/train/` a package. When Python loads a submodule, it assigns the module to an
    attribute of the parent package. A plain function, or the `__getattr__` of a module, would
    lose its place as soon as anything imports `unisono.train.job`. This class is a data
    descriptor on the class of the module: Python asks it before it looks into the attributes
    of the module, and hands it every assignment; it ignores those of the import system. So
    `unisono.train` is the function, whatever was imported before. `from unisono.train.job
    import ...` works as always, because it finds modules in `sys.modules`.
    """

    def __init__(self, home: str) -> None:
        self._home, self._name = home, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, module: ModuleType, owner: type) -> object:
        found = vars(module)
        if self._name not in found:
            found[self._name] = getattr(import_module(self._home), self._name)
        return found[self._name]

    def __set__(self, module: ModuleType, value: object) -> None:
        if not isinstance(value, ModuleType):
            vars(module)[self._name] = value


class _Unisono(ModuleType):
    """The class of this module: every name of the API and the module that defines it."""

    get_corpus = _Lazy("unisono.api")
    prepare = _Lazy("unisono.api")
    train = _Lazy("unisono.api_torch")
    open_run = _Lazy("unisono.api")
    load = _Lazy("unisono.api_torch")
    score = _Lazy("unisono.api")
    simulate = _Lazy("unisono.api")
    Run = _Lazy("unisono.api")
    Curves = _Lazy("unisono.api")
    UnisonoError = _Lazy("unisono.errors")
    ConfigError = _Lazy("unisono.errors")
    DataError = _Lazy("unisono.errors")
    RunError = _Lazy("unisono.errors")


__all__ = [name for name, value in vars(_Unisono).items() if isinstance(value, _Lazy)]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


sys.modules[__name__].__class__ = _Unisono
