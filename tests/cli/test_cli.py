import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.tiny import tiny_corpus, tiny_settings
from unisono.cli import VERBS, unisono
from unisono.config.load import to_toml
from unisono.records.view import read_run


def run(*arguments, **options):
    return CliRunner().invoke(unisono, list(map(str, arguments)), **options)


def program(*arguments, cwd, **options):
    """Run the real program, as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "unisono", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **options.pop("env", {})},
        **options,
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A directory with a config, a corpus and a finished run of two processes."""
    home = tiny_corpus(tmp_path_factory.mktemp("cli"))
    config = home / "my.toml"
    config.write_text(to_toml(tiny_settings(home, train={"max_steps": 8})))
    done = program("launch", config, "--workers", 2, cwd=home)
    assert done.returncode == 0, done.stderr
    return home


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb):
    shown = run(verb, "--help")
    assert shown.exit_code == 0
    assert "Usage" in shown.output


@pytest.mark.ranks
def test_help_lists_all_verbs_and_does_not_import_torch():
    code = (
        "import sys; sys.argv = ['unisono', '--help']\n"
        "from unisono.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(verb in done.stdout for verb in VERBS)


@pytest.mark.ranks
def test_a_misspelt_key_is_an_error_of_three_lines_and_code_2(tmp_path):
    (tmp_path / "bad.toml").write_text(
        '[data]\n[corpus]\ndirectory = "c"\n[train]\nmax_stps = 5\n'
    )
    done = program("train", "bad.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: `max_stps` is not a setting of [train]",
        "  where: bad.toml [train]",
        "  fix:   did you mean `max_steps`? known: average, clip_norm, compile, deterministic, "
        "guard, label_smoothing, max_epochs, max_steps, max_time, patience, precision, "
        "show_every_steps, tf32, word_rate",
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.toml"]


@pytest.mark.ranks
def test_training_without_a_corpus_is_code_3_and_leaves_nothing(tmp_path):
    (tmp_path / "x.toml").write_text(to_toml(tiny_settings(tmp_path)))
    done = program("train", "x.toml", cwd=tmp_path)
    assert done.returncode == 3
    assert "fix:" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.toml"]


def test_a_dry_run_shows_the_command_and_starts_nothing(tmp_path):
    config = tmp_path / "x.toml"
    config.write_text(to_toml(tiny_settings(tmp_path)))
    shown = run("launch", config, "--workers", 3, "--dry-run")
    assert shown.exit_code == 0
    assert "--nproc-per-node=3" in shown.output
    assert "-m unisono train" in shown.output
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.toml"]


@pytest.mark.ranks
def test_a_run_leaves_the_directory_the_documentation_describes(trained):
    found = {p.name for p in (trained / "run").iterdir()}
    expected = {"config.toml", "environment.json", "corpus.json", "events", "tensorboard"}
    expected |= {"checkpoints", "samples", "losses", "bundle", "lock", "status.json"}
    assert expected == found
    names = {p.name for p in (trained / "run" / "events").iterdir()}
    assert names == {"rank-0000.jsonl", "rank-0001.jsonl"}


@pytest.mark.ranks
def test_report_prints_eleven_answers_and_json(trained):
    done = run("report", trained / "run", "--json")
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    assert report["format"] == 1
    assert len(report["answers"]) == 11
    for suffix in ("html", "md", "json"):
        assert (trained / "run" / f"report.{suffix}").is_file()
        (trained / "run" / f"report.{suffix}").unlink()


@pytest.mark.ranks
def test_translating_keeps_order_and_count(trained):
    lines = "one two\n\nthree\n   \nfour five six\r\nsein\u2028six"
    done = program("translate", "--model", "run", cwd=trained, input=lines)
    assert done.returncode == 0, done.stderr
    answers = done.stdout.split("\n")
    assert answers[-1] == ""
    assert len(answers) - 1 == 6
    assert answers[1] == answers[3] == ""
    alone = program("translate", "--model", "run/bundle", cwd=trained, input="three\n")
    assert alone.stdout == answers[2] + "\n"


@pytest.mark.ranks
def test_what_cannot_be_translated_is_refused(trained):
    broken = subprocess.run(
        [sys.executable, "-m", "unisono", "translate", "--model", "run"],
        cwd=trained,
        input=b"one\nt\xffwo\n",
        capture_output=True,
        check=False,
    )
    assert broken.returncode == 3
    assert b"line 2 is not UTF-8" in broken.stderr
    for model, said in (
        ("run/checkpoints/step-0000008", "not a bundle"),
        ("nosuch", "no bundle"),
    ):
        done = program("translate", "--model", model, cwd=trained, input="one\n")
        assert done.returncode == 3
        assert said in done.stderr
    assert (
        program("translate", "--model", "run", "--batch-lines", 0, cwd=trained).returncode == 2
    )


@pytest.mark.ranks
def test_translating_nothing_gives_nothing(trained):
    done = program("translate", "--model", "run", cwd=trained, input="")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.ranks
def test_show_says_what_things_are(trained):
    for path, says in [
        ("corpus", "training pairs|pairs"),
        ("run", "updates"),
        ("run/bundle", "parameters"),
        ("run/checkpoints/step-0000008", "optimizer.safetensors"),
    ]:
        shown = run("show", trained / path)
        assert shown.exit_code == 0, shown.output
        assert says.split("|")[-1] in shown.output
    assert program("show", "text", cwd=trained).returncode == 3


@pytest.mark.ranks
def test_the_test_score_is_what_translate_and_score_say(trained):
    text = trained / "text"
    done = program(
        "translate", "--model", "run", cwd=trained, input=(text / "test.en").read_text()
    )
    (trained / "out.de").write_text(done.stdout)
    scored = run("score", trained / "out.de", text / "test.de", "--json")
    (tested,) = read_run(trained / "run").tests
    told = json.loads(scored.output)
    assert told["bleu"] == pytest.approx(tested.bleu, abs=1e-9)
    assert (told["low"], told["high"]) == pytest.approx((tested.bleu_low, tested.bleu_high))
    assert told["signature"] == tested.bleu_signature
    said = run("score", trained / "out.de", text / "test.de").output
    half = (tested.bleu_high - tested.bleu_low) / 2
    bleu = f"BLEU {tested.bleu:.2f} ± {half:.2f}  {tested.bleu_signature}"
    assert said.splitlines()[0] == bleu


@contextmanager
def launched(settings, directory):
    """A run that was launched and has saved its first checkpoint."""
    config = directory / "long.toml"
    config.write_text(to_toml(settings))
    command = [sys.executable, "-m", "unisono", "launch", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line.startswith("saved"):
                break
        yield process


@pytest.mark.ranks
def test_stopping_the_launcher_saves_and_says_so(trained, tmp_path):
    settings = tiny_settings(trained, "long", train={"max_steps": 100_000})
    with launched(settings, tmp_path) as process:
        process.terminate()
        rest = process.stderr.read()
        assert process.wait() == 75
    assert "stopped by a signal" in rest
    assert "Traceback" not in rest
    checkpoints = Path(settings.run) / "checkpoints"
    assert (checkpoints / (checkpoints / "latest").read_text().strip()).is_dir()


@pytest.mark.ranks
def test_two_processes_that_fail_say_it_once_and_nothing_else(trained):
    settings = tiny_settings(trained, "run", model={"width": 32})
    (trained / "other.toml").write_text(to_toml(settings))
    done = program("launch", "other.toml", cwd=trained)
    assert done.returncode == 2
    # On a busy machine one process says that it waits for the other.
    said = [line for line in done.stderr.splitlines() if " waits for process " not in line]
    assert len(said) == 3, done.stderr
    what, where, fix = said
    assert what.startswith("error: this run was started with model.width = 16, now it is 32")
    assert where.startswith("  where:")
    assert fix.startswith("  fix:")


@pytest.mark.ranks
def test_a_worker_that_is_killed_is_named_and_the_rest_ends(trained, tmp_path):
    settings = tiny_settings(trained, "killed", train={"max_steps": 100_000})
    with launched(settings, tmp_path) as process:
        victim = read_run(Path(settings.run)).starts[1]
        os.kill(victim.pid, signal.SIGKILL)
        rest = process.stderr.read()
        assert process.wait() == 76
    assert f"(pid {victim.pid}): process died (killed by SIGKILL)" in rest
    assert "Traceback" not in rest
