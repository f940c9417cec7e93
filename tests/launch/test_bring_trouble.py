"""What goes wrong while things are brought to blank machines, and what is left then."""

import hashlib
import os
import re
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
LARGE, MIDDLE, SMALL_DISK = 30_000_000, 8_000_000, "24m"
USUAL_LINK, SLOW_LINK = "60mbit", "4mbit"
AHEAD = 3600
# What faketime does: all programs on the machine see another time.
CLOCK = f"""
#define _GNU_SOURCE
#include <time.h>
#include <sys/syscall.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *found) {{
    int failed = syscall(SYS_clock_gettime, clock, found);
    if (!failed && clock == CLOCK_REALTIME) found->tv_sec += {AHEAD};
    return failed;
}}
"""


@pytest.fixture(scope="module")
def home(corpus_home, tmp_path_factory):
    """A directory with files to bring, and a lock file of one small wheel."""
    home = tmp_path_factory.mktemp("trouble")
    for name, size in (("large", LARGE), ("middle", MIDDLE), ("small", 1000)):
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
    """Four machines, the second with a small disk, and a laptop behind a slow cable."""
    with BareLab(home, 5, sizes={1: SMALL_DISK}) as lab:
        lab.set_link(lab.laptop, USUAL_LINK)
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


def bring(machines, home, hosts="node0", files="small", options=(), **more):
    command = [*words(machines, home, hosts, files), *options]
    return machines.run(machines.laptop, command, variables={**variables(home), **more})


def start_bringing(machines, home, hosts, files):
    """Bring files in the background."""
    return machines.start(
        machines.laptop,
        words(machines, home, hosts, files),
        variables=variables(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def launch(machines, home, *more, ssh_config=None):
    """Call `unisono launch` on the laptop."""
    command = [sys.executable, "-m", "unisono", "launch", home / "tiny.toml"]
    command += ["--hosts", "node0", "--ssh-config", ssh_config or machines.config, *more]
    return machines.run(machines.laptop, list(map(str, command)), variables=variables(home))


def sent_by(machines):
    """Return how many bytes the laptop has sent in all."""
    path = "/sys/class/net/eth0/statistics/tx_bytes"
    return int(machines.run(machines.laptop, ["cat", path]).stdout)


def wait_until_sent(machines, job, count):
    while sent_by(machines) < count:
        assert job.poll() is None, job.communicate()
        time.sleep(0.05)


def test_a_cut_link_costs_no_byte_twice(machines, home):
    before = sent_by(machines)
    job = start_bringing(machines, home, "node0", "large")
    wait_until_sent(machines, job, before + LARGE // 3)
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


def test_machines_fetch_from_another_one_if_that_is_quicker(machines, home):
    (home / "large" / "another").write_bytes(os.urandom(LARGE))
    before = sent_by(machines)
    done = bring(machines, home, "node0,node2,node3", "large")
    assert done.returncode == 0, done.stderr
    content = hashlib.sha256((home / "large" / "another").read_bytes()).hexdigest()
    for node in (2, 3):
        assert f"node{node} | fetches the rest from node0: " in done.stderr
        found = machines.there(node, "sh", "-c", f"sha256sum {HOME}/corpus-*/another")
        assert content in found
    # node0 had the first half already, and a part of the second comes from here to measure:
    # less than half of what three machines get.
    assert sent_by(machines) - before < 2.5 * LARGE
    (home / "large" / "another").unlink()


def test_what_does_not_fit_is_said_before_anything_is_sent(machines, home):
    before = sent_by(machines)
    done = bring(machines, home, "node1", "large")
    assert done.returncode == 1
    assert "node1 | there is no room: what is missing takes 3" in done.stderr
    assert "make room there, or choose a directory on another disk" in done.stderr
    assert sent_by(machines) - before < len(this_unisono().data) / 2
    assert machines.there(1, "ls", "-A", "/root") == ""
    assert bring(machines, home, "node1", "small").returncode == 0
    there = machines.there(1, "find", "/root", "-type", "f")
    before = sent_by(machines)
    done = bring(machines, home, "node1", "large")  # now the machine knows what it lacks
    assert done.returncode == 1
    assert "node1 | there is no room: what is missing takes 30 MB" in done.stderr
    assert "--remove-unused" in done.stderr
    assert sent_by(machines) - before < len(this_unisono().data) / 2
    assert machines.there(1, "find", "/root", "-type", "f") == there
    assert bring(machines, home, "node1", "small").returncode == 0


def test_a_disk_that_others_fill_is_a_sentence_and_leaves_nothing_unfinished(machines, home):
    before = sent_by(machines)
    machines.set_link(machines.laptop, SLOW_LINK)
    try:
        job = start_bringing(machines, home, "node1", "middle")
        wait_until_sent(machines, job, before + MIDDLE // 8)
        machines.there(1, "sh", "-c", "cat /dev/zero > /root/others 2>/dev/null; true")
    finally:
        machines.set_link(machines.laptop, USUAL_LINK)
    err = job.communicate()[1]
    assert job.returncode == 1
    assert "node1 | there is no room left" in err
    assert "make room there" in err
    machines.there(1, "rm", "/root/others")
    assert machines.there(1, "ls", f"{HOME}/unfinished") == ""
    done = bring(machines, home, "node1", "middle")
    assert done.returncode == 0, done.stderr
    assert "node1 | unused: corpus-" in done.stderr  # that of the small files


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
    # The same run goes on with the new one, so nobody needs the old one any more.
    old, new = (one.stdout.split()[0] for one in (before, done))
    assert str(Path(old).parts[-3]) in done.stderr.partition("unused: ")[2].split()
    done = bring(machines, home, options=["--remove-unused"], PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    machines.there(0, "test", "!", "-e", old)
    machines.there(0, new, "-c", code)


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


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_a_clock_that_is_off_is_said_before_packages_and_corpus_are_sent(home, tmp_path):
    (tmp_path / "clock.c").write_text(CLOCK)
    command = ["cc", "-shared", "-fPIC", "-o", "clock.so", "clock.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    wrong = {1: {"LD_PRELOAD": str(tmp_path / "clock.so")}}
    (tmp_path / "lab").mkdir()
    with BareLab(tmp_path / "lab", 3, variables=wrong, shared=[tmp_path]) as machines:
        done = bring(machines, home, "node0,node1")
        assert done.returncode, done.stderr
        assert re.search(r"node1 \| the clock of node1 is 3[56]\d\d\.\d s ahead", done.stderr)
        assert "synchronize the clocks" in done.stderr
        assert "nothing was started" in done.stderr
        for node in (0, 1):
            brought = machines.there(node, "ls", f"{HOME}/brought").split()
            assert [name.partition("-")[0] for name in brought] == ["code"]


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
