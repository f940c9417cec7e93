"""Exports against our own search, through the real CTranslate2; refusals; the proof."""

import errno
import json
import zipfile
from itertools import product

import pytest
from click.testing import CliRunner

from support.random_bundles import made_bundle
from unisono.cli.export import export
from unisono.errors import ConfigError, DataError
from unisono.export.export_files import open_export, write_export
from unisono.export.proof import Difference, ExportProof
from unisono.text.load import BytePieces
from unisono.text.sentence_pieces import learn_pieces
from unisono.text.tokenizer import Tokenizers

LINES = ["to be or not to be", "", "a", "that is the question", "Ünïcödé", "be be be"]
GOOD = ExportProof(1, 1.0, 1.0, 1.0, 1.0, 1.0)


def exported(bundle, path, quantization="", proof=GOOD, **choices):
    write = {"force": False, "workers": 1, **choices}
    write_export(path, bundle, quantization, lambda *_: proof, **write)
    return open_export(path, 1)


CHOICES = list(
    product(["pre", "post"], ["sinusoid", "learned", "rotary"], ["relu", "gelu", "swiglu"])
)


@pytest.mark.parametrize(("norm", "positions", "activation"), CHOICES)
def test_every_architecture_translates_as_before(tmp_path, norm, positions, activation):
    changes = {"norm": norm, "positions": positions, "activation": activation}
    tied = activation != "gelu"
    rows = {"max_positions": 64 if positions == "learned" else 0, "tied_embeddings": tied}
    # Two tokenizers, of equal pieces, are two vocabularies.
    sides = Tokenizers(BytePieces(), BytePieces()) if positions == "rotary" else None
    bundle = made_bundle(tmp_path / "bundle", sides, **changes, **rows)
    before, after = bundle.translator(), exported(bundle, tmp_path / "export")
    ours = before.translate(LINES)
    assert after.translate(LINES) == ours
    assert len(set(ours)) > 3
    given = [line[::-1] for line in LINES if line]
    sources, targets = (
        [[after.engine.source_tokens[i] for i in ids] for ids in BytePieces().encode(some)]
        for some in ([line for line in LINES if line], given)
    )
    expected = before.score_given([line for line in LINES if line], given)
    found = after.engine.translator.score_batch(sources, targets)
    for one, other in zip(expected, found, strict=True):
        assert sum(other.log_probs) == pytest.approx(one.log_probability, abs=2e-3)


def test_an_export_keeps_prefixes_and_alternatives(tmp_path):
    bundle = made_bundle(tmp_path / "bundle")
    before, after = bundle.translator(), exported(bundle, tmp_path / "export")
    starts = ["ab", "", "xyz", "", "q", ""]
    expected = [line.text for line in before.translations(LINES, starts)]
    assert [line.text for line in after.translations(LINES, starts)] == expected


def test_a_damaged_or_foreign_export_is_refused(tmp_path):
    bundle = made_bundle(tmp_path / "bundle")
    exported(bundle, tmp_path / "export")
    with pytest.raises(DataError, match=r"no unisono\.json"):
        open_export(tmp_path / "bundle", 1)
    model = tmp_path / "export" / "model.bin"
    good = model.read_bytes()
    model.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(DataError, match=r"model\.bin is damaged"):
        open_export(tmp_path / "export", 1)
    (tmp_path / "export" / "unisono.json").write_text("{}")
    with pytest.raises(DataError, match=r"unisono\.json is damaged"):
        open_export(tmp_path / "export", 1)


def test_an_export_that_loses_too_much_is_not_kept_unless_forced(tmp_path):
    bundle = made_bundle(tmp_path / "bundle")
    lost = Difference(30.0, 29.4, -0.6, -0.9, -0.3)
    bad = ExportProof(1, 0.1, 1.0, 1.0, 1.0, 1.0, lost)
    with pytest.raises(DataError, match=r"loses 0\.60 BLEU"):
        exported(bundle, tmp_path / "export", "int8", bad)
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
    assert exported(bundle, tmp_path / "export", "int8", bad, force=True).translate(LINES)


def pieces_of(lines):
    return learn_pieces(lines, size=90, character_coverage=1.0)


def text(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def run(*words):
    return CliRunner().invoke(export, [str(word) for word in words], catch_exceptions=False)


@pytest.mark.ranks
@pytest.mark.parametrize("quantize", [(), ("--quantize", "int8"), ("--quantize", "bfloat16")])
def test_the_command_proves_what_it_writes(tmp_path, quantize):
    tokenizers = Tokenizers(*[pieces_of([*LINES, "abcdefghijklmnopqrstuvwxyz"])] * 2)
    made_bundle(tmp_path / "bundle", tokenizers)
    source = text(tmp_path / "source", LINES * 3)
    checks = ("--check", source, "--check", source, "--output", tmp_path / "out", "--force")
    shown = run(tmp_path / "bundle", "--to", "ctranslate2", *quantize, *checks).output
    assert "sentences a second" in shown
    kept = json.loads((tmp_path / "out" / "unisono.json").read_text())["proof"]
    assert kept["sentences"] == 18
    assert kept["bleu"]["before"] == pytest.approx(kept["bleu"]["after"], abs=30)
    if not quantize:
        assert kept["identical"] == 1.0
        assert "100.0% of 18" in shown
    with pytest.raises(DataError, match="in the way"):
        run(tmp_path / "bundle", "--to", "ctranslate2", *checks)


@pytest.mark.ranks
def test_an_argos_package_has_what_argos_looks_for(tmp_path):
    tokenizers = Tokenizers(*[pieces_of([*LINES, "abcdefghijklmnopqrstuvwxyz"])] * 2)
    made_bundle(tmp_path / "bundle", tokenizers)
    checks = ("--check", text(tmp_path / "source", LINES), "--output", tmp_path / "out")
    run(tmp_path / "bundle", "--to", "argos", *checks)
    with zipfile.ZipFile(tmp_path / "out.argosmodel") as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
        about = json.loads(archive.read("translate-en_de/metadata.json"))
    assert {"metadata.json", "sentencepiece.model", "model/model.bin"} <= names
    assert (about["from_code"], about["to_code"]) == ("en", "de")
    assert {path.name for path in tmp_path.iterdir()} == {"bundle", "source", "out.argosmodel"}


@pytest.mark.ranks
@pytest.mark.filterwarnings("ignore")
def test_a_huggingface_export_proves_itself_with_the_real_transformers(tmp_path):
    pytest.importorskip("transformers", reason="pip install unisono[huggingface]")
    tokenizers = Tokenizers(*[pieces_of([*LINES, "abcdefghijklmnopqrstuvwxyz"])] * 2)
    made_bundle(tmp_path / "bundle", tokenizers)
    source = text(tmp_path / "source", [line for line in LINES if "Ü" not in line])
    checks = ("--check", source, "--check", source, "--output", tmp_path / "out", "--force")
    shown = run(tmp_path / "bundle", "--to", "huggingface", *checks).output
    assert "sentences a second" in shown
    kept = json.loads((tmp_path / "out" / "unisono.json").read_text())
    assert kept["to"] == "huggingface"
    assert kept["proof"]["sentences"] == 5
    with pytest.raises(DataError, match="for huggingface, not for ctranslate2"):
        open_export(tmp_path / "out", 1)
    with pytest.raises(ConfigError, match="32 or 16 bits, not int8"):
        run(tmp_path / "bundle", "--to", "huggingface", "--quantize", "int8", *checks)


def test_what_a_killed_export_left_is_removed_by_the_next_one(tmp_path):
    bundle = made_bundle(tmp_path / "bundle")
    left = tmp_path / ".tmp-export-4194305"  # no process has such a number
    left.mkdir()
    exported(bundle, tmp_path / "export")
    assert {path.name for path in tmp_path.iterdir()} == {"bundle", "export"}


def test_an_export_that_fails_in_the_middle_leaves_nothing(tmp_path):
    bundle = made_bundle(tmp_path / "bundle")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_export(tmp_path / "export", bundle, "", full, force=False, workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_what_argos_cannot_hold_is_refused_before_anything_is_written(tmp_path):
    made_bundle(tmp_path / "bundle")
    with pytest.raises(ConfigError, match="argos cannot hold this model: its pieces are bytes"):
        run(tmp_path / "bundle", "--to", "argos", "--output", tmp_path / "out")
    with pytest.raises(ConfigError, match="no text to prove"):
        run(tmp_path / "bundle", "--to", "ctranslate2")
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
