"""Only files whose hash is in a lock file are installed; the bill of materials is complete."""

import json
import os
import re
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = sorted(ROOT.glob("requirements*.lock"))
HASH = r"    --hash=sha256:[0-9a-f]{64}"
PIN = re.compile(rf"[A-Za-z0-9._-]+==[0-9][0-9a-z.+]* \\\n({HASH} \\\n)*{HASH}\n")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def wheel(folder: Path, name: str, version: str = "1.0") -> Path:
    """Write a wheel with one empty module, as an index would offer it."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n")
    return path


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_line_of_a_lock_file_is_a_pin_with_hashes(path):
    text = re.sub(r"(?m)^#.*\n", "", path.read_text())
    assert PIN.sub("", text) == ""
    assert len(PIN.findall(text)) >= 1


def test_all_that_is_declared_is_locked():
    declared = (ROOT / "pyproject.toml").read_text()
    wanted = re.findall(r'"([A-Za-z0-9_-]+)(?:>=|==)[^"]*"', declared)
    locked = "".join(path.read_text() for path in LOCKS)
    pinned = {
        re.sub(r"[-_.]+", "-", n).lower() for n in re.findall(r"(?m)^([\w.-]+)==", locked)
    }
    assert {normal(name) for name in wanted} <= pinned
    built_with = re.search(r'requires = \["(setuptools==[\d.]+)"\]', declared)
    assert built_with and built_with[1] in locked


@pytest.mark.ranks
def test_a_file_with_another_hash_is_refused(tmp_path):
    """pip is called as tools/setup.sh calls it, with a wheel that somebody exchanged."""
    flags = re.search(
        r"pip install (--no-deps [^\n]*?) --report", (ROOT / "tools/setup.sh").read_text()
    )
    made = wheel(tmp_path, "harmless")
    lock = tmp_path / "some.lock"
    lock.write_text(f"harmless==1.0 --hash=sha256:{sha256(made.read_bytes()).hexdigest()}\n")
    pip = [sys.executable, "-m", "pip", "install", *flags[1].split(), "--dry-run", "--no-index"]
    command = [*pip, "--find-links", str(tmp_path), "-r", str(lock)]
    environment = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": ""}

    def run():
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    assert run().returncode == 0
    with zipfile.ZipFile(made, "a") as archive:
        archive.writestr("planted.py", "print('mine now')")
    refused = run()
    assert refused.returncode != 0
    assert "DO NOT MATCH THE HASHES" in refused.stderr


@pytest.mark.ranks
def test_the_bill_names_every_package_with_its_hash(tmp_path):
    """In an environment of its own; a package that nobody recorded is an error."""
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True
    )
    made = [wheel(tmp_path, "unisono", "0.2"), wheel(tmp_path, "one"), wheel(tmp_path, "two")]
    reports = tmp_path / "venv" / "reports"
    reports.mkdir()
    pip = [
        sys.executable,
        "-m",
        "pip",
        f"--python={python}",
        "install",
        "--no-index",
        "--no-deps",
    ]
    for path in made[:2]:
        report = f"--report={reports / path.stem}.json"
        subprocess.run([*pip, report, path], check=True, capture_output=True)

    def bill():
        command = [python, ROOT / "tools" / "sbom.py"]
        return subprocess.run(command, capture_output=True, text=True)

    (reports / "begun.json").touch()  # pip was interrupted before it wrote its report
    (found,) = json.loads(bill().stdout)["components"]
    digest = sha256(made[1].read_bytes()).hexdigest()
    assert found["purl"] == "pkg:pypi/one@1.0"
    assert found["hashes"] == [{"alg": "SHA-256", "content": digest}]
    subprocess.run([*pip, made[2]], check=True, capture_output=True)
    refused = bill()
    assert refused.returncode == 1
    assert "did not install two 1.0" in refused.stderr
