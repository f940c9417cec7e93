"""tools/setup.sh with indexes that lie, lack something or do not answer: whole or nothing."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest

from test_supply_chain import wheel

pytestmark = pytest.mark.ranks

ROOT = Path(__file__).parents[1]
CPU = re.search(r"^torch==(\S+)", (ROOT / "requirements-cpu.lock").read_text(), re.M)[1]
BACKEND = """
from pathlib import Path
Path({owned!r}).write_text("")
"""


class Place:
    """A copy of the script with lock files of its own, and an index of a few empty wheels."""

    def __init__(self, home):
        self.home, self.venv, self.index = home, home / "venv", home / "index"
        self.index.mkdir()
        (home / "tools").mkdir()
        shutil.copy(ROOT / "tools" / "setup.sh", home / "tools")
        self.lock("build", self.offer("builder"))
        self.lock("", self.offer("needed"))
        self.lock("cpu", self.offer("torch", CPU))
        self.lock("cuda", self.offer("torch", "2.0"))

    def offer(self, name, version="1.0"):
        return wheel(self.index, name, version)

    def lock(self, kind, *wheels):
        lines = []
        for path in wheels:
            name, version = path.name.split("-")[:2]
            digest = sha256(path.read_bytes()).hexdigest()
            lines.append(f"{name}=={version} \\\n    --hash=sha256:{digest}\n")
        self.path_of(kind).write_text("".join(lines))

    def path_of(self, kind):
        return self.home / f"requirements{f'-{kind}' if kind else ''}.lock"

    def environment(self, **given):
        known = {name: value for name, value in os.environ.items() if name[:4] != "PIP_"}
        ours = {"PYTHON": sys.executable, "VENV": str(self.venv), "ONLY": "packages"}
        index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.index)}
        return {**known, **ours, "PIP_CONFIG_FILE": os.devnull, **index, **given}

    def set_up(self, **given):
        """Run the script; return its exit code and all it said."""
        done = subprocess.run(
            [str(self.home / "tools" / "setup.sh")],
            env=self.environment(**given),
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout + done.stderr

    @property
    def installed(self):
        names = (path.name for path in self.venv.glob("lib/python*/site-packages/*.dist-info"))
        found = {name.removesuffix(".dist-info") for name in names}
        return {one for one in found if not one.startswith(("pip-", "setuptools-"))}


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_what_is_locked_and_nothing_else_is_installed(place):
    place.offer("needed", "2.0")
    code, said = place.set_up()
    assert (code, said) == (0, "")
    assert place.installed == {"builder-1.0", "needed-1.0", f"torch-{CPU}"}


@pytest.mark.parametrize("kind", ["", "cpu"])
def test_another_content_ends_the_set_up(place, kind):
    """Of torch's build for CPUs, too: the one for GPUs is no way around a wrong hash."""
    name = re.match(r"(\S+)==(\S+)", place.path_of(kind).read_text())
    made = place.index / f"{name[1]}-{name[2]}-py3-none-any.whl"
    made.write_bytes(made.read_bytes() + b"\0")
    code, said = place.set_up()
    assert code != 0
    assert "DO NOT MATCH THE HASHES" in said
    assert f"setup: installing from {place.path_of(kind).name} failed" in said
    assert not {one for one in place.installed if one.startswith(name[1])}


def test_a_line_without_a_hash_ends_the_set_up(place):
    place.path_of("").write_text("needed==1.0\n")
    code, said = place.set_up()
    assert code != 0
    assert "--require-hashes" in said
    assert place.installed == {"builder-1.0"}


def test_a_missing_package_is_named(place):
    (place.index / "needed-1.0-py3-none-any.whl").unlink()
    code, said = place.set_up()
    assert code != 0
    assert "No matching distribution found for needed==1.0" in said
    assert "setup: installing from requirements.lock failed" in said
    assert place.installed == {"builder-1.0"}


def source(place, name, version, owned):
    """Offer a source archive that runs a program where its metadata is asked for."""
    folder = place.home / f"{name}-{version}"
    folder.mkdir()
    (folder / "backend.py").write_text(BACKEND.format(owned=str(owned)))
    (folder / "PKG-INFO").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    )
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    with tarfile.open(place.index / f"{name}-{version}.tar.gz", "w:gz") as archive:
        archive.add(folder, folder.name)


@pytest.mark.parametrize(("name", "version"), [("needed", "1.0"), ("torch", CPU)])
def test_no_source_archive_is_run(place, name, version, tmp_path):
    """pip runs one already to learn what it needs; only wheels have a hash in our files."""
    (place.index / f"{name}-{version}-py3-none-any.whl").unlink()
    source(place, name, version, tmp_path / "owned")
    code, said = place.set_up()
    assert not (tmp_path / "owned").exists()
    if name == "torch":  # the build for CUDA, whose hash is known, takes its place
        assert f"no torch=={CPU} in pip's index; taking PyPI's build for CUDA" in said
        assert code == 0
        assert "torch-2.0" in place.installed
    else:
        assert code != 0


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_an_index_that_is_not_there_ends_the_set_up(place):
    nowhere = f"http://127.0.0.1:{free_port()}/simple"
    given = {"PIP_NO_INDEX": "0", "PIP_FIND_LINKS": "", "PIP_INDEX_URL": nowhere}
    code, said = place.set_up(**given, PIP_RETRIES="0")
    assert code != 0
    assert "No matching distribution found for builder==1.0" in said
    assert "setup: installing from requirements-build.lock failed" in said
    assert not place.installed


def test_what_was_killed_is_continued(place):
    """In the middle of pip, by kill -9; afterwards the bill is complete."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        given = {
            "PIP_NO_INDEX": "0",
            "PIP_FIND_LINKS": "",
            "PIP_INDEX_URL": f"http://127.0.0.1:{port}",
        }
        process = subprocess.Popen(
            [str(place.home / "tools" / "setup.sh")],
            env=place.environment(**given),
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        silent.accept()[0].close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() != 0
    place.lock("", place.offer("needed"), place.offer("unisono", "0.2"))
    code, said = place.set_up()
    assert (code, said) == (0, "")
    for name in ("pip", "setuptools"):  # of Python itself: in truth the build's lock has them
        for path in place.venv.glob(f"lib/python*/site-packages/{name}-*.dist-info"):
            shutil.rmtree(path)
    bill = [place.venv / "bin" / "python", ROOT / "tools" / "sbom.py"]
    done = subprocess.run(bill, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    named = {entry["name"] for entry in json.loads(done.stdout)["components"]}
    assert named == {"builder", "needed", "torch"}
