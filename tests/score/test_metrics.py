"""chrF, TER and comparisons, against sacreBLEU itself."""

import gzip
import json
import sys

import pytest
from click.testing import CliRunner
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from score.test_score import AWKWARD, many, written
from unisono.cli.score import score
from unisono.errors import ConfigError, DataError
from unisono.score.metrics import METRICS, score_by
from unisono.score.paired import Comparison, compare, disagreement

THEIRS = {"BLEU": lambda: BLEU(force=True), "chrF": CHRF, "TER": TER}


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("pairs", [AWKWARD, many(), many(7)], ids=["awkward", "many", "few"])
def test_scores_intervals_and_signatures_are_sacrebleus(name, pairs):
    translations, references = map(list, zip(*pairs, strict=True))
    theirs = THEIRS[name]()
    expected = theirs.corpus_score(translations, [references], n_bootstrap=1000)
    ours = score_by(METRICS[name], translations, references)
    assert ours.score == pytest.approx(expected.score, abs=1e-9)
    told = json.loads(expected.format(width=6, signature="nrefs:1", is_json=True))
    assert (ours.high - ours.low) / 2 == pytest.approx(told["confidence_var"], abs=2e-4)
    assert ours.signature == str(theirs.get_signature())


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("pair", [("", ""), ("", "a b"), ("a b", ""), ("a", "b")])
def test_texts_without_anything_in_common_score_as_sacrebleu_says(name, pair):
    expected = THEIRS[name]().corpus_score([pair[0]], [[pair[1]]]).score
    assert score_by(METRICS[name], [pair[0]], [pair[1]]).score == pytest.approx(expected)


def worse(lines, every):
    return [line[::-1] if n % every == 0 else line for n, line in enumerate(lines)]


def test_a_comparison_has_sacrebleus_p_value():
    references = [pair[1] for pair in many(200)]
    first, second = [pair[0] for pair in many(200)], [pair[0] for pair in many(200)]
    second = worse(second, 9)
    named = {name: THEIRS[name]() for name in THEIRS}
    _, table = PairedTest([("a", first), ("b", second)], named, [references], "bs")()
    theirs = {
        name: table[key][1].p_value for name, key in zip(named, list(table)[1:], strict=True)
    }
    for name, metric in METRICS.items():
        assert compare(metric, first, second, references).p == pytest.approx(theirs[name])


def test_a_comparison_names_the_better_system_whichever_way_the_metric_points():
    references = [pair[1] for pair in many(200)]
    bad = worse(references, 3)
    for metric in METRICS.values():
        assert compare(metric, references, bad, references).better == "A"
        found = compare(metric, bad, references, references)
        assert (found.better, found.sentence) == ("B", "B is better; not chance")
        same = compare(metric, bad, list(bad), references)
        assert (same.better, same.difference, same.low, same.high) == ("", 0, 0, 0)


def test_a_difference_that_may_be_chance_has_no_winner():
    chance = Comparison("BLEU", True, 30.0, 30.5, low=-0.2, high=1.2, p=0.03)
    assert not chance.better
    assert "chance" in chance.sentence


def test_metrics_that_disagree_say_so():
    for_b = Comparison("BLEU", True, 30.0, 32.0, low=1.0, high=3.0, p=0.001)
    for_a = Comparison("TER", False, 50.0, 52.0, low=1.0, high=3.0, p=0.001)
    assert disagreement([for_b, for_a]) == "the metrics disagree: TER for A, BLEU for B"
    assert not disagreement([for_b, for_b])


def run(*words):
    return CliRunner().invoke(score, [str(word) for word in words], catch_exceptions=False)


def test_the_command_compares_two_systems_in_a_plain_sentence(tmp_path):
    lines = [pair[1] for pair in many(100)]
    reference = tmp_path / "reference.gz"
    reference.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    bad, good = written(tmp_path, "bad", worse(lines, 2)), written(tmp_path, "good", lines)
    shown = run(bad, good, "--against", reference).output
    assert shown.count("B is better; not chance") == 3
    told = json.loads(run(bad, good, "--against", reference, "--json").output)
    assert [row["better"] for row in told["metrics"]] == ["B", "B", "B"]
    assert json.loads(run(good, reference, "--json").output)["ter"]["score"] == 0.0


COUNTS_WORDS = "import sys\nfor l in sys.stdin: s, t, r = l.split('\\t'); print(len(t.split()))"


@pytest.mark.ranks
def test_a_command_of_another_environment_scores_too(tmp_path):
    program = tmp_path / "metric.py"
    program.write_text(COUNTS_WORDS)
    files = [written(tmp_path, name, ["a b c", "a\tb"]) for name in ("source", "out", "ref")]
    command = f"{sys.executable} {program}"
    told = run(files[1], files[2], "--source", files[0], "--with", command, "--json").output
    assert json.loads(told)[command.lower()]["score"] == 2.5
    with pytest.raises(ConfigError, match="needs the source"):
        run(files[1], files[2], "--with", command)


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("print(1)", "wrote 1 lines for 2 sentences"),
        ("print(1); print('nan')", "line 2 of its output is no number"),
        ("raise SystemExit(3)", "exit code 3"),
    ],
)
def test_a_command_that_does_not_write_a_number_a_line_is_refused(tmp_path, code, says):
    program = tmp_path / "metric.py"
    program.write_text(f"import sys; sys.stdin.read(); {code}")
    files = [written(tmp_path, name, ["a", "b"]) for name in ("source", "out", "ref")]
    command = f"{sys.executable} {program}"
    with pytest.raises(DataError, match=says):
        run(files[1], files[2], "--source", files[0], "--with", command)


def test_a_packed_file_that_is_not_packed_is_named(tmp_path):
    bad = tmp_path / "plain.gz"
    bad.write_text("not packed\n")
    with pytest.raises(DataError, match="plain.gz cannot be decompressed"):
        run(bad, bad)
