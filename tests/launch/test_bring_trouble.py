"""What goes wrong while things are brought to blank machines, and what is left then."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from support.bare import BareLab, has_bare_python
from support.tiny import tiny_settings
from support.wheels import wheel_with
from unisono.config.load import to_toml
from unisono.launch.bring.package import this_unisono

pytestmark = [
    pytest.mark.ranks,
    pytest.mark.usefixtures("able"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(not has_bare_python(), reason="the system has no Python 3.11"),
]
HOME = "/root/.cache/unisono"
TESTS = Path(__file__).parents[1]
LARGE, SMALL_DISK = 30_000_000, "24m"


@pytest.fixture(scope="module")
def home(corpus_home, tmp_path_factory):
    """A directory with files to bring, and a lock file of one small wheel."""
    home = tmp_path_factory.mktemp("trouble")
    for name, size in (("large", LARGE), ("small", 1000)):
        (home / name).mkdir()
        (home / name / 'a file\'s "name"').write_bytes(os.urandom(size))
        (home / name / "empty").write_bytes(b"")
    (home / "wheels").mkdir()
    made = wheel_with(home / "wheels", "tiny", {"tiny.py": "\n"})
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    (home / "tiny.lock").write_text(f"tiny==1.0 \\\n    --hash=sha256:{digest}\n")
    settings = tiny_settings(corpus_home, run=str(home / "run"))
    (home / "tiny.toml").write_text(to_toml(settings))
    return home


@pytest.fixture(scope="module")
def machines(home):
    """Three machines, the second with a small disk, and a laptop behind a slow cable."""
    with BareLab(home, 4, sizes={1: SMALL_DISK}) as lab:
        lab.set_link(lab.laptop, "60mbit")
        yield lab


def variables(home):
    return {
        "XDG_CACHE_HOME": str(home / "cache"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(home / "wheels"),
        "PYTHONPATH": os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)]),
    }


def words(machines, home, hosts, files):
    program = [sys.executable, "-m", "support.bringing", machines.config, hosts]
    return list(map(str, [*program, home / files, home / "tiny.lock"]))


def bring(machines, home, hosts="node0", files="small", **more):
    command = words(machines, home, hosts, files)
    return machines.run(machines.laptop, command, variables={**variables(home), **more})


def launch(machines, home, *more, ssh_config=None):
    """Call `unisono launch` on the laptop."""
    command = [sys.executable, "-m", "unisono", "launch", home / "tiny.toml"]
    command += ["--hosts", "node0", "--ssh-config", ssh_config or machines.config, *more]
    return machines.run(machines.laptop, list(map(str, command)), variables=variables(home))


def sent_by(machines):
    """Return how many bytes the laptop has sent in all."""
    path = "/sys/class/net/eth0/statistics/tx_bytes"
    return int(machines.run(machines.laptop, ["cat", path]).stdout)


def test_a_cut_link_costs_no_byte_twice(machines, home):
    before = sent_by(machines)
    job = machines.start(
        machines.laptop,
        words(machines, home, "node0", "large"),
        variables=variables(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while sent_by(machines) < before + LARGE // 3:
        assert job.poll() is None, job.communicate()
        time.sleep(0.05)
    machines.link_down(machines.laptop)
    for connection in psutil.Process(job.program).children():
        connection.kill()
    machines.link_up(machines.laptop)
    out, err = job.communicate()
    assert job.returncode == 0, err
    assert "the connection broke" in err and "goes on where it stopped" in err
    assert sent_by(machines) - before < 1.3 * (LARGE + len(this_unisono().data))
    (found,) = machines.there(0, "sh", "-c", f"sha256sum {HOME}/corpus-*/a*").splitlines()
    content = (home / "large" / 'a file\'s "name"').read_bytes()
    assert hashlib.sha256(content).hexdigest() in found
    assert machines.there(0, "ls", f"{HOME}/unfinished") == ""
    assert bring(machines, home, files="large").stdout.split() == [out.split()[0], "0"]


def test_a_machine_fetches_from_the_other_if_that_is_quicker(machines, home):
    (home / "large" / "another").write_bytes(os.urandom(LARGE))
    before = sent_by(machines)
    done = bring(machines, home, "node0,node2", "large")
    assert done.returncode == 0, done.stderr
    assert "node2 | fetches the rest from node0: " in done.stderr
    # node0 had the first half already, and a part of the second comes from here to measure.
    assert sent_by(machines) - before < 2.4 * LARGE
    found = machines.there(2, "sh", "-c", f"sha256sum {HOME}/corpus-*/another")
    assert hashlib.sha256((home / "large" / "another").read_bytes()).hexdigest() in found
    (home / "large" / "another").unlink()


def test_a_full_disk_is_a_sentence_and_leaves_nothing_unfinished(machines, home):
    done = bring(machines, home, "node1", "large")
    assert done.returncode == 1
    assert "node1 | there is no room left" in done.stderr
    assert "make room there" in done.stderr
    assert machines.there(1, "ls", f"{HOME}/unfinished") == ""
    assert "corpus" not in machines.there(1, "ls", HOME)
    assert bring(machines, home, "node1", "small").returncode == 0


def test_another_version_is_brought_beside_the_one_that_is_there(machines, home, tmp_path):
    before = bring(machines, home)
    assert before.returncode == 0, before.stderr
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(TESTS.parent / "src", tmp_path / "src", ignore=ignored)
    changed = tmp_path / "src" / "unisono" / "stopwatch.py"
    changed.write_text(changed.read_text() + "\n")
    path = os.pathsep.join([str(tmp_path / "src"), str(TESTS)])
    done = bring(machines, home, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    assert "node0 | has another version of Unisono" in done.stderr
    assert done.stdout.split()[0] != before.stdout.split()[0]
    code = "import unisono, pathlib; print(pathlib.Path(unisono.__file__).parts[-3])"
    used = [machines.there(0, one.stdout.split()[0], "-c", code) for one in (before, done)]
    assert used[0] != used[1]


def test_a_machine_that_cannot_be_used_is_said(machines, home):
    wrong = home / "wrong_config"
    (home / "wrong_hosts").write_text(f"{machines.name(0)} {(home / 'key.pub').read_text()}")
    wrong.write_text(machines.config.read_text().replace("known_hosts", "wrong_hosts"))
    done = launch(machines, home, "--sync", ssh_config=wrong)
    assert done.returncode == 2
    assert "Host key verification failed" in done.stderr
    assert "run `ssh node0 true` by hand" in done.stderr
    done = launch(machines, home, "--sync", "--python", "/no where/python3")
    assert done.returncode == 2
    assert "there is no Python (/no where/python3)" in done.stderr


def test_teardown_removes_what_was_brought_and_nothing_else(machines, home):
    assert bring(machines, home).returncode == 0
    tree = machines.there(0, "sh", "-c", f"cd {HOME}; ls -d corpus-*").split()[0]
    script = f"""
    mkdir -p /root/outside runs/mine-0123abcd
    cp {tree}/* /root/outside; echo kept > /root/outside/kept
    rm -r {tree}; ln -s /root/outside {tree}
    for one in environment-*; do echo mine > $one/mine; done
    echo record > runs/mine-0123abcd/record
    """
    machines.there(0, "sh", "-ec", f"cd {HOME}; {script}")
    outside = ["sh", "-c", "cd /root/outside; sha256sum *"]
    before = machines.there(0, *outside)
    looked = launch(machines, home, "--teardown", "--dry-run")
    assert "node0 | would remove" in looked.stderr
    done = launch(machines, home, "--teardown")
    assert done.returncode == 0, done.stderr
    assert "kept with their records: runs/ mine-0123abcd" in done.stderr
    left = machines.there(0, "sh", "-c", f"cd {HOME}; find . -type f -o -type l").split()
    foreign = [one for one in left if one.endswith("/mine")]
    assert sorted(left) == sorted([f"./{tree}", *foreign, "./runs/mine-0123abcd/record"])
    assert len(foreign) == 1
    assert machines.there(0, *outside) == before
    done = launch(machines, home, "--teardown", "--with-runs")
    assert done.returncode == 0, done.stderr
    assert "record" not in machines.there(0, "sh", "-c", f"cd {HOME}; find . -type f")
