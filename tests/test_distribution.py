"""The wheel and the source archive, used outside of the checkout; and shell completion."""

import os
import shutil
import site
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILD = "from setuptools import build_meta as b; print(b.build_{kind}('{to}'))"
SHELLS = ["bash", "zsh", "fish"]


def run(*words, cwd, **more):
    done = subprocess.run(words, cwd=cwd, text=True, capture_output=True, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(kind, source, to):
    to.mkdir(exist_ok=True)
    out = run(sys.executable, "-c", BUILD.format(kind=kind, to=to), cwd=source)
    return to / out.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from the source archive: so both are whole."""
    here = tmp_path_factory.mktemp("dist")
    source = here / "checkout"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", symlinks=True, ignore=ignored)
    shutil.copytree(ROOT / "configs", source / "configs")
    locks = [path.name for path in ROOT.glob("requirements*.lock")]  # src/unisono/locks
    for name in ("pyproject.toml", "README.md", "LICENSE", *locks):
        shutil.copy(ROOT / name, source)
    archive = build("sdist", source, here / "sdist")
    with tarfile.open(archive) as tar:
        tar.extractall(here, filter="data")
    return build("wheel", here / archive.name.removesuffix(".tar.gz"), here / "wheel")


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """An environment of its own with the wheel; its dependencies are those of the tests."""
    home = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", str(home), cwd=home)
    pip = [sys.executable, "-m", "pip", f"--python={home / 'bin' / 'python'}", "install"]
    run(*pip, "--quiet", "--no-deps", "--no-index", str(wheel), cwd=home, env=environment())
    (packages,) = home.glob("lib/python*/site-packages")
    # Only a directory to look in: the checkout's own link in it is not followed.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    return home / "bin"


def environment():
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}


@pytest.mark.long(minutes=3)
@pytest.mark.timeout(900)  # a demo on a busy machine
def test_the_wheel_runs_the_demo_outside_of_the_checkout(installed, tmp_path):
    python = str(installed / "python")
    where = run(
        python, "-c", "import unisono; print(unisono.__file__)", cwd=tmp_path, env=environment()
    )
    assert str(ROOT) not in where
    unisono = str(installed / "unisono")
    few = [unisono, "corpora", "get", "builtin", "--pairs", "500"]
    run(*few, cwd=tmp_path, env=environment())
    for name in ("valid", "test"):
        for path in (tmp_path / "data" / "builtin").glob(f"{name}.*"):
            path.write_text("".join(path.read_text().splitlines(keepends=True)[:20]))
    changes = [
        "corpus.vocabulary=300",
        "train.max_steps=8",
        "validation.every_steps=8",
        "decoding.beam=1",
    ]
    options = [word for change in changes for word in ("--set", change)]
    demo = [unisono, "demo", "--workers", "1", *options]
    shown = run(*demo, cwd=tmp_path, env=environment())
    assert "report.html shows the same" in shown
    assert (tmp_path / "runs" / "demo" / "report.html").is_file()
    assert "unisono" in run(
        python, "-m", "unisono", "--version", cwd=tmp_path, env=environment()
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_reads_its_completion(shell, tmp_path):
    words = [sys.executable, "-m", "unisono", "completion", shell]
    script = tmp_path / f"unisono.{shell}"
    script.write_text(run(*words, cwd=tmp_path))
    assert "_UNISONO_COMPLETE" in script.read_text()
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: its script is printed, and not read")
    run(shell, "-n", str(script), cwd=tmp_path)


def test_bash_completes_verbs(tmp_path):
    command = "import sys; sys.argv = ['unisono']; from unisono.cli import main; main()"
    asked = {"COMP_WORDS": "unisono tr", "COMP_CWORD": "1"}
    asked["_UNISONO_COMPLETE"] = "bash_complete"
    shown = run(sys.executable, "-c", command, cwd=tmp_path, env={**os.environ, **asked})
    assert shown.split() == ["plain,train", "plain,translate"]
