"""Benchmarks and examples are not run by the tests: a renamed module must not break them."""

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted(
    path for folder in ("benchmarks", "examples") for path in (ROOT / folder).rglob("*.py")
)


def imports_of(path):
    """Yield the modules of Unisono that a file imports, each with a name in it, or ""."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                yield node.module, alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, ""


def exists(module, name):
    if importlib.util.find_spec(module) is None:
        return False
    if not name or hasattr(importlib.import_module(module), name):
        return True
    return importlib.util.find_spec(f"{module}.{name}") is not None


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_everything_a_program_imports_from_unisono_exists(path):
    for module, name in imports_of(path):
        if module.partition(".")[0] == "unisono":
            assert exists(module, name), f"{module}.{name}"
