import subprocess
import sys

import pytest
import tomli_w
from click.testing import CliRunner

from corpora.archives import zipped
from corpora.serving import serving
from unisono.cli import unisono
from unisono.config.load import load_settings
from unisono.corpora.known import catalogue


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
    assert "everything was there" in again.stderr
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
    assert "--only is for others" in refused(2, "get", "builtin", "--only", "train")
    assert "not a directory" in refused(
        3, "get", "wmt16-en-de", "--from", tmp_path / "no", "--to", tmp_path / "c"
    )


def test_the_builtin_corpus_as_ever(tmp_path):
    done = run("get", "builtin", "--to", tmp_path / "b", "--pairs", 50, "--seed", 3)
    assert done.exit_code == 0
    assert (tmp_path / "b" / "train.en").read_text().count("\n") == 50
