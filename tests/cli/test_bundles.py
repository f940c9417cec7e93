"""What `translate` and `show` say of a bundle, in this process."""

import pytest
import torch
from click.testing import CliRunner

from models.sample import SETTINGS
from unisono.bundle.reader import open_bundle
from unisono.bundle.writer import write_bundle
from unisono.cli import unisono
from unisono.models.transformer import build_model
from unisono.text.load import BytePieces
from unisono.text.normalise import Normalisation
from unisono.text.tokenizer import Tokenizers
from unisono.translate.settings import Decoding


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("cut") / "bundle"
    torch.manual_seed(1)
    write_bundle(
        path,
        model=build_model(SETTINGS, BytePieces.size, BytePieces.size),
        tokenizers=Tokenizers(BytePieces(), BytePieces()),
        normalisation=Normalisation(lowercase=True),
        source_language="de",
        target_language="en",
        decoding=Decoding(beam=1, max_ratio=1.0, max_extra=1),
        max_pieces=10,
        step=1,
        scores={
            "valid_loss": 2.5,
            "test_bleu": 31.5,
            "test_bleu_low": 30,
            "test_bleu_high": 33,
        },
        bleu_signature="nrefs:1|tok:13a",
    )
    return path


def translate(bundle, lines):
    given = "".join(f"{line}\n" for line in lines)
    done = CliRunner().invoke(
        unisono, ["translate", "--model", str(bundle), "--device", "cpu"], input=given
    )
    assert done.exit_code == 0, done.output
    assert done.stdout_bytes.count(b"\n") == len(lines)
    return done.stderr.splitlines()


def test_lines_that_fit_are_nothing_to_talk_about(bundle):
    assert translate(bundle, ["short", "", "x" * 10]) == []


def test_a_line_that_was_cut_is_told_of(bundle):
    told = translate(bundle, ["short", "x" * 11, "", "x" * 21])
    assert told == [
        "note: line 2 has over 10 pieces and was translated in 2 parts",
        "note: line 4 has over 10 pieces and was translated in 3 parts",
    ]


def test_many_cut_lines_are_counted(bundle):
    told = translate(bundle, ["x" * 11] * 7)
    assert len(told) == 6
    assert told[4].startswith("note: line 5 ")
    assert told[5] == "note: 7 lines in total were longer than 10 pieces"


def test_show_names_both_vocabularies_and_how_text_is_written(bundle):
    shown = CliRunner().invoke(unisono, ["show", str(bundle)])
    assert shown.exit_code == 0, shown.output
    assert "260 source and 260 target pieces" in shown.output
    assert "lower case" in shown.output
    weights = sum(weight.numel() for weight in open_bundle(bundle).model().parameters())
    assert f"{weights:,}" in shown.output


def test_show_tells_bleu_with_its_interval_and_signature(bundle):
    lines = CliRunner().invoke(unisono, ["show", str(bundle)]).output.splitlines()
    assert next(line for line in lines if line.startswith("valid loss")).endswith(" 2.5000")
    (told,) = (line for line in lines if "bleu" in line)
    assert told.split(maxsplit=2)[2] == (
        "31.50 (30.00 to 33.00, 95 % interval)  nrefs:1|tok:13a"
    )
