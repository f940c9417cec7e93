"""The image builds, and trains as an ordinary user; the files around it agree."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.tiny import tiny_settings
from unisono.comm.bootstrap.launcher_env import launcher_env_from
from unisono.config.load import to_toml
from unisono.lab.lab import Lab
from unisono.lab.plan import LabPlan
from unisono.records.view import read_run
from unisono.secure.secret import SECRET, new_secret

ROOT = Path(__file__).parents[1]
CONTAINERFILE = (ROOT / "Containerfile").read_text()
TRAINED = "unisono demo --set train.max_steps=4"


def test_the_machines_of_compose_are_the_ranks_of_one_run():
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    found = []
    for name, service in services.items():
        variables = {**service["environment"], SECRET: new_secret()}
        env = launcher_env_from(variables)
        assert (env.local_rank, env.local_size, env.address) == (0, 1, "node0")
        assert env.size == len(services)
        assert service["hostname"] == name == f"node{env.rank}"
        found.append(env.rank)
    assert sorted(found) == list(range(len(services)))


@pytest.mark.ranks
@pytest.mark.usefixtures("able")
def test_what_compose_starts_trains_on_two_machines(corpus_home, tmp_path):
    settings = tiny_settings(corpus_home, run=str(tmp_path / "run"), train={"max_steps": 2})
    (tmp_path / "run.toml").write_text(to_toml(settings))
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    unisono, secret = [sys.executable, "-m", "unisono"], new_secret()
    # The machines of a laboratory have the names of the services.
    with Lab(LabPlan(nodes=len(services))) as lab:
        jobs = []
        for node, service in enumerate(services.values()):
            command = shlex.join([*unisono, *service["command"]])
            words = ["bash", "-c", f"cd {shlex.quote(str(tmp_path))} && exec {command}"]
            variables = {**service["environment"], SECRET: secret}
            jobs.append(lab.start(node, words, variables=variables))
        assert [job.wait() for job in jobs] == [0, 0]
    assert [start.host for start in read_run(tmp_path / "run").starts] == list(services)


def test_compose_starts_nothing_without_a_secret():
    run = yaml.safe_load((ROOT / "compose.yaml").read_text())["x-run"]
    assert run[SECRET].startswith("${" + SECRET + ":?")


def test_docker_and_apptainer_copy_the_same_files():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", CONTAINERFILE, re.MULTILINE)
    files = {name for names in copied for name in names.split()}
    definition = (ROOT / "unisono.def").read_text()
    named = re.findall(r"^    (\S+) /source/(\S+)$", definition, re.MULTILINE)
    assert {here for here, _ in named} == files
    assert all(here == there for here, there in named)
    assert all((ROOT / name).exists() for name in files)
    kept = (ROOT / ".containerignore").read_text().splitlines()
    for name in files:
        assert any(Path(name).match(line[1:]) for line in kept if line.startswith("!")), name


def test_an_image_runs_as_an_ordinary_user_and_opens_nothing():
    last = CONTAINERFILE.rpartition("\nFROM ")[2]
    assert "\nUSER unisono\n" in last
    assert "EXPOSE" not in CONTAINERFILE
    assert "--require-hashes" in (ROOT / "tools" / "setup.sh").read_text()


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    """A directory for images; buildah leaves it behind empty."""
    if os.getuid() or not (shutil.which("buildah") and shutil.which("debootstrap")):
        pytest.skip("building an image needs root, buildah and debootstrap")
    directory = tmp_path_factory.mktemp("box")
    yield directory
    buildah(directory, "rm", "--all")
    buildah(directory, "rmi", "--all", "--force")


def buildah(box, *arguments):
    """Call buildah with its store in `box`; return what it says."""
    stores = [f"--root={box / 'store'}", f"--runroot={box / 'run'}", "--storage-driver=vfs"]
    return run("buildah", *stores, *arguments)


def run(*command):
    environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def make_base(box):
    """Make a small Debian with Python by its own packages, as an image."""
    included = "--include=python3,python3-venv,ca-certificates"
    run("debootstrap", "--variant=minbase", included, "bookworm", box / "debian")
    container = buildah(box, "from", "scratch")
    buildah(box, "add", "--quiet", container, box / "debian", "/")
    buildah(box, "commit", "--quiet", container, "base")


def fetch_wheels(directory):
    """Fetch the packages that the lock files name."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", directory]
    run(*pip, "--requirement", "requirements.lock", "--requirement", "requirements-build.lock")
    run(*pip, "--requirement", "requirements-cpu.lock")


@pytest.mark.container
@pytest.mark.timeout(2400)
def test_the_image_builds_without_a_network_and_trains_as_an_ordinary_user(box):
    make_base(box)
    fetch_wheels(box / "wheels")
    wheels = f"--volume={box / 'wheels'}:/wheels:ro"
    build = ["bud", "--quiet", "--format=docker", "--build-arg=BASE=localhost/base", wheels]
    buildah(box, *build, "--tag=unisono", "--file=Containerfile", ".")
    container = buildah(box, "from", "localhost/unisono")
    inside = ["run", container, "--"]
    assert buildah(box, *inside, "id", "-u") == "1000"
    assert (
        buildah(box, *inside, "sh", "-c", "find /source /wheels -type f 2>/dev/null || true")
        == ""
    )
    assert "The demo took" in buildah(box, *inside, "sh", "-c", f"{TRAINED} 2>&1")
    kept = buildah(box, *inside, "unisono", "report", "runs/demo", "--json")
    assert "4 updates" in json.loads(kept)["headline"]
    tools = buildah(box, *inside, "python", "-m", "pip", "list", "--format=freeze")
    assert "pytest" not in tools
