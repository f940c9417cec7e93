import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from preparing import names, prepare, small_data

import unisono
from unisono.corpus import open_corpus
from unisono.errors import DataError
from unisono.prepare.up_to_date import remove_leftovers

PREPARE = textwrap.dedent("""
    import sys
    import time
    from pathlib import Path
    from preparing import corpus_settings, small_data
    from unisono.prepare import prepare_corpus

    directory = Path(sys.argv[1])
    data, settings = small_data(directory / "text"), corpus_settings(directory / "corpus")
    for progress in prepare_corpus(data, settings):
        if progress.stage == sys.argv[2]:
            print(progress.stage, flush=True)
            time.sleep(60)
""")


@pytest.fixture
def start(tmp_path):
    """Start a preparation that stands still at the beginning of a stage."""
    started = []

    def start(stage):
        paths = [Path(__file__).parent, Path(unisono.__file__).parents[1]]
        process = subprocess.Popen(
            [sys.executable, "-c", PREPARE, str(tmp_path), stage],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))},
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == f"{stage}\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.ranks
@pytest.mark.parametrize("stage", ["reading", "learning pieces", "encoding"])
def test_killed_in_the_middle_nothing_looks_complete_and_the_next_succeeds(
    tmp_path, start, stage
):
    process = start(stage)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "corpus").exists()
    assert not list(tmp_path.rglob("manifest.json"))
    prepare(small_data(tmp_path / "text"), tmp_path / "corpus")
    assert open_corpus(tmp_path / "corpus", verify=True)
    assert names(tmp_path) == ["corpus", "text"]


@pytest.mark.ranks
def test_a_second_preparation_is_refused_and_does_no_harm(tmp_path, start):
    process = start("encoding")
    at_work = names(tmp_path)
    with pytest.raises(DataError, match="another process is preparing"):
        prepare(small_data(tmp_path / "text"), tmp_path / "corpus")
    assert names(tmp_path) == at_work
    prepare(small_data(tmp_path / "text"), tmp_path / "corpus-2")
    assert process.poll() is None
    assert set(at_work) < set(names(tmp_path))


def test_only_the_leftovers_of_this_corpus_are_removed(tmp_path):
    for name in (".tmp-a-1", ".tmp-a-77", ".tmp-a-b-5", ".tmp-a-9-5", ".tmp-b-1", "a"):
        (tmp_path / name / "inside").mkdir(parents=True)
    remove_leftovers(tmp_path / "a")
    assert names(tmp_path) == [".tmp-a-9-5", ".tmp-a-b-5", ".tmp-b-1", "a"]
