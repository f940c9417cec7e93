import signal
import socket
import subprocess
import sys

import pytest
import tomli_w
from click.testing import CliRunner

from datasets.archives import zipped
from datasets.serving import serving
from unisono.cli import unisono
from unisono.cli.corpora import _next
from unisono.cli.pages.dataset import draw
from unisono.config.load import load_settings
from unisono.datasets.assemble import AssemblyStep
from unisono.datasets.catalogue import catalogue
from unisono.datasets.fetch import Received
from unisono.errors import DataError


def run(*arguments):
    return CliRunner().invoke(unisono, ["corpora", *map(str, arguments)])


def program(cwd, *arguments):
    command = [sys.executable, "-m", "unisono", "corpora", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_list_names_everything_and_fits_the_screen():
    lines = run("list").output.splitlines()
    assert max(map(len, lines)) <= 80
    for name in ("builtin", *catalogue()):
        assert sum(line.startswith(f"{name} ") for line in lines) == 1
    assert any("opus:" in line for line in lines)
    assert any(".toml" in line for line in lines)
    assert any("4,562,102" in line for line in lines)


@pytest.mark.ranks
def test_a_corpus_of_ones_own_from_its_file_to_a_config(tmp_path):
    names = [f"{name}.{lang}" for name in ("train", "valid") for lang in ("en", "de")]
    text = {name: "".join(f"{name} {n}\n" for n in range(30)) for name in names}
    with serving({"a.zip": zipped(*text.items())}) as site:
        sets = [
            {
                "name": name,
                "role": name,
                "note": "mine",
                "sides": {
                    lang: {"file": "a.zip", "members": [f"{name}.{lang}"]}
                    for lang in ("en", "de")
                },
            }
            for name in ("train", "valid")
        ]
        entry = {
            "name": "mine",
            "description": "of my own",
            "languages": ["en", "de"],
            "licence": "free",
            "file": [{"name": "a.zip", "urls": [site.url("a.zip")]}],
            "set": sets,
        }
        (tmp_path / "mine.toml").write_text(tomli_w.dumps(entry))
        done = program(tmp_path, "get", "./mine.toml")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        again = program(tmp_path, "get", "mine.toml", "--offline")
    assert site.asked == ["a.zip"]
    assert "30 pairs" in done.stderr
    assert "data/mine/data.toml" in done.stderr
    assert "already there and verified" in again.stderr
    assert "fetching a.zip: 0 B of" in done.stderr
    assert "\nfetched a.zip, " in done.stderr
    assert "copy configs/tiny.toml" in done.stderr
    section = (tmp_path / "data" / "mine" / "data.toml").read_text()
    rest = '[corpus]\ndirectory = "c"\n[train]\nmax_steps = 1\n'
    (tmp_path / "config.toml").write_text(section + rest)
    settings = load_settings(tmp_path / "config.toml")
    assert settings.data.train[0].source == "data/mine/train.en"
    assert settings.data.valid.target == "data/mine/valid.de"


def refused(code, *arguments):
    done = run(*arguments)
    assert done.exception.exit_code == code
    return str(done.exception)


def test_slips_are_explained(tmp_path):
    assert "did you mean `wmt16-en-de`" in refused(2, "get", "wmt16-en-dee")
    assert "opus:Books/v1/de-en" in refused(2, "get", "opus:Books")
    assert "--seed is for builtin" in refused(2, "get", "wmt16-en-de", "--seed", 2)
    assert "--only is for corpora other than builtin" in refused(
        2, "get", "builtin", "--only", "train"
    )
    assert "not a directory" in refused(
        3, "get", "wmt16-en-de", "--from", tmp_path / "no", "--to", tmp_path / "c"
    )


def test_the_builtin_corpus_as_ever(tmp_path):
    done = run("get", "builtin", "--to", tmp_path / "b", "--pairs", 50, "--seed", 3)
    assert done.exit_code == 0
    assert (tmp_path / "b" / "train.en").read_text().count("\n") == 50
    assert f"put {tmp_path / 'b' / 'data.toml'} in place" in done.output
    again = run("get", "builtin", "--to", tmp_path / "b", "--pairs", 50, "--seed", 3)
    assert "already there and verified" in again.output
    message = refused(3, "get", "builtin", "--to", tmp_path / "b", "--pairs", 50)
    assert "train.en: 50 pairs, seed 3" in message


def test_the_page_of_one_corpus():
    page = run("list", "multi30k-en-fr").output
    for word in (
        *("test_2017_mscoco", "461 pairs", "train.en.gz  569 kB, SHA-256"),
        *("train.fr.gz  unknown size, no checksum", "/raw/train.fr.gz", "licence: captions"),
        "trusted at first use",
    ):
        assert word in page
    assert "200,000 pairs" in run("list", "builtin").output
    assert "Books-v1-de-en.txt.zip" in run("list", "opus:Books/v1/de-en").output
    assert "did you mean" in refused(2, "list", "wmt16-en-dee")


def test_what_needs_no_download_is_not_called_fetched(capsys):
    def work():
        yield Received("here.gz", 7, 7)
        yield AssemblyStep("unpacking", "here.gz", 7, 7)
        yield Received("new.gz", 0, 2_000)
        yield Received("new.gz", 2_000, 2_000)
        return "done"

    assert draw(work()) == "done"
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "here.gz is here already, 7 B"
    assert lines[-1] == "fetched new.gz, 2.0 kB"
    assert len(lines) == 3
    assert "fetched here.gz" not in "".join(lines)


def test_what_failed_is_not_called_fetched(capsys):
    def work():
        yield Received("new.gz", 0, 2_000)
        raise DataError("it broke")

    with pytest.raises(DataError):
        draw(work())
    assert "fetched" not in capsys.readouterr().err


@pytest.mark.parametrize("pairs, config", [(999_999, "tiny"), (1_000_000, "base")])
def test_the_next_step_fits_the_size_of_the_corpus(tmp_path, pairs, config):
    assert f"copy configs/{config}.toml" in _next(tmp_path, pairs)


@pytest.mark.ranks
def test_a_command_stopped_by_hand_says_so(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/a"
        sides = {lang: {"file": "a"} for lang in ("en", "de")}
        entry = {
            "name": "mine",
            "description": "never comes",
            "languages": ["en", "de"],
            "file": [{"name": "a", "urls": [url]}],
            "set": [{"name": "train", "role": "train", "sides": sides}],
        }
        (tmp_path / "mine.toml").write_text(tomli_w.dumps(entry))
        command = [sys.executable, "-m", "unisono", "corpora", "get", "mine.toml"]
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as got:
            connection, _ = silent.accept()
            with connection:
                got.send_signal(signal.SIGINT)
                said = got.communicate()[1]
    assert got.returncode == 130
    assert said.strip() == "stopped by Ctrl-C; the same command continues or starts over"
