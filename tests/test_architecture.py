"""The rules of the house, checked: who may import whom, and how long things may get."""

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "unisono"
FILES = sorted(SOURCE.rglob("*.py"))

FOUNDATION = {"errors", "units", "atomic", "lock", "stopwatch", "process_pool"}
FOUNDATION |= {
    "__init__",
    "exit_codes",
    "thread_lanes",
    "parent_process",
    "printable",
    "source_address",
    "clock_skew",
    "decompress",
    "nvidia",
    "small_files",
}
FOUNDATION |= {"secure"}
FORMATS = {"text", "corpus", "datasets", "records", "schedules", "cost_model"}
PARTS = {"models", "optim", "comm", "batching", "bundle", "translate", "score", "monitor"}
PARTS |= {"heartbeat"}
MIDDLE = {"config", "diagnose"}
STAGES = {"prepare", "train", "serve", "export", "live", "report", "launch", "lab", "check"}
STAGES |= {"importers", "selftest", "publish", "live_page"}

MAY_IMPORT = {
    "errors": {"exit_codes"},
    "units": {"errors"},
    "atomic": {"small_files"},
    "lock": {"errors"},
    "stopwatch": set(),
    "process_pool": {"errors"},
    "exit_codes": set(),
    "thread_lanes": set(),
    "parent_process": set(),
    "printable": {"errors"},
    "source_address": set(),
    "secure": {"errors"},
    "clock_skew": set(),
    "decompress": set(),
    "nvidia": set(),
    "small_files": {"errors"},
    "__init__": set(),
    "__main__": {"cli"},
    "text": FOUNDATION,
    "corpus": FOUNDATION | {"text"},
    "datasets": FOUNDATION,
    "records": FOUNDATION | {"cost_model"},
    "schedules": FOUNDATION,
    "cost_model": FOUNDATION,
    "models": FOUNDATION | {"text"},
    "optim": FOUNDATION,
    "comm": FOUNDATION | {"cost_model"},
    "heartbeat": FOUNDATION | {"records"},
    "monitor": FOUNDATION | {"records"},
    "batching": FOUNDATION | {"text", "corpus"},
    "translate": FOUNDATION | {"text", "models"},
    "bundle": FOUNDATION | {"text", "models", "translate", "records"},
    "score": FOUNDATION,
    "config": FOUNDATION
    | FORMATS
    | {"models", "optim", "comm", "batching", "translate", "heartbeat", "monitor"},
    "diagnose": FOUNDATION | {"records", "schedules", "cost_model", "models"},
    "prepare": FOUNDATION | {"text", "corpus", "config"},
    "train": FOUNDATION | FORMATS | PARTS | {"config"},
    "report": FOUNDATION | {"records", "diagnose"},
    "live": FOUNDATION | {"records", "diagnose", "cost_model"},
    "publish": FOUNDATION | {"records", "diagnose", "live"},
    # The words of the live page of a terminal, the drawings of the report.
    "live_page": FOUNDATION | {"records", "diagnose", "cost_model", "live", "report"},
    # What it asks other machines is what training would: settings, corpus, size of a model.
    "launch": FOUNDATION | {"records", "corpus", "models", "config"},
    "lab": FOUNDATION | {"launch"},
    # It writes what the others read: run directories and settings.
    "importers": FOUNDATION | {"records", "config"},
    "export": FOUNDATION | {"text", "models", "translate", "bundle", "score"},
    "serve": FOUNDATION | {"text", "models", "translate", "bundle", "export"},
    # It makes real updates before the run, to measure them.
    # Its picture is drawn by the drawer of the report.
    "check": FOUNDATION | FORMATS | PARTS | {"config", "train", "report"},
    # It prepares, trains and probes in small, to prove an installation.
    "selftest": FOUNDATION | FORMATS | PARTS | {"config", "prepare", "train", "check"},
    "cli": FOUNDATION | FORMATS | PARTS | MIDDLE | STAGES,
    # The Python API: above all stages, beside the command line.
    "api": FOUNDATION | FORMATS | PARTS | MIDDLE | STAGES,
    "api_torch": FOUNDATION | FORMATS | PARTS | MIDDLE | STAGES | {"api"},
}
WITHOUT_TORCH = sorted(
    {"text", "corpus", "datasets", "prepare", "records", "schedules", "score", "config"}
    | {"diagnose", "report", "live", "launch", "lab", "cli", "heartbeat", "importers"}
    | {"monitor", "api", "secure", "live_page"}
)
FORBIDDEN = re.compile(
    r"\bpickle\b|torch\.load\(|_object\(|_object_list\(|yaml|(?<!\.)\beval\(|\bexec\(|shell=True"
    r"|extractall"
)


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module


def package_of(path):
    return path.relative_to(SOURCE).with_suffix("").parts[0]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_downwards(path):
    package = package_of(path)
    for name in imports_of(path):
        root, *rest = name.split(".")
        if root == "unisono" and rest and rest[0] != package:
            assert rest[0] in MAY_IMPORT[package], f"{package} must not import {rest[0]}"
        if name.startswith(("torch.distributed", "torch.nn.parallel")):
            assert package == "comm", "only comm speaks to other processes"


def test_only_the_command_line_imports_inside_functions():
    for path in FILES:
        if package_of(path) == "cli":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                inner = [
                    n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom)
                ]
                assert not inner, f"{path}: {node.name} imports"


@pytest.mark.ranks
def test_half_of_unisono_runs_without_torch():
    modules = [
        ".".join(("unisono", *path.relative_to(SOURCE).with_suffix("").parts))
        for path in FILES
        if package_of(path) in WITHOUT_TORCH or path.stem == "settings"
    ]
    lines = [f"import {name.removesuffix('.__init__')}" for name in modules]
    code = "; ".join([*lines, "import sys", "assert 'torch' not in sys.modules"])
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_nothing_grows_too_long(path):
    assert len(path.read_text().splitlines()) <= 400, "split this module"
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < 60, f"split {node.name}"


def test_no_package_has_too_many_modules_side_by_side():
    folders = Counter(path.parent for path in FILES)
    assert not {str(folder): count for folder, count in folders.items() if count > 20}


def definitions(kind):
    """Return where each public name of a kind is defined, and as what, in the whole tree."""
    found = defaultdict(dict)
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            for name, value in kind(node):
                if not name.startswith("_"):
                    found[name][str(path.relative_to(SOURCE))] = value
    return found


def classes(node):
    if isinstance(node, ast.ClassDef):
        yield node.name, node.name


def constants(node):
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
        if name.isupper() and len(name) > 1:
            yield name, ast.unparse(node.value)


def test_a_class_name_means_one_thing():
    assert not {name: list(at) for name, at in definitions(classes).items() if len(at) > 1}


def test_a_constant_has_one_value():
    found = definitions(constants).items()
    assert not {name: at for name, at in found if len(set(at.values())) > 1}


def test_modules_do_not_import_each_other_in_circles():
    left = {name: imported - {name} for name, imported in module_graph().items()}
    while free := {name for name, imported in left.items() if not imported & left.keys()}:
        left = {name: imported for name, imported in left.items() if name not in free}
    assert not left, "these modules need each other, or something that does"


def module_graph():
    """Return which modules of ours each module imports when it is imported itself."""
    names = {path: module_name(path) for path in FILES}
    known, graph = set(names.values()), {}
    for path, name in names.items():
        graph[name] = set()
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom):
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                graph[name] |= ({node.module} | inner) & known
    return graph


def module_name(path):
    return ".".join(("unisono", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
        ".__init__"
    )


def test_no_module_is_called_after_nothing():
    banned = {"utils", "util", "helpers", "common", "misc", "base", "core", "manager"}
    assert not {path.stem for path in FILES} & banned


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_of_others_are_data_never_code(path):
    assert not FORBIDDEN.search(path.read_text())
