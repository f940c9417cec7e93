"""Texts and exports that nobody should send, to the commands that use a model."""

import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from cli.test_translate import bundle_at
from unisono.cli import unisono
from unisono.export.export_files import write_export
from unisono.export.proof import ExportProof
from unisono.translate.settings import Decoding


def done(*words, given=b""):
    """Return what went wrong, standard output and standard error."""
    found = CliRunner().invoke(unisono, [str(word) for word in words], input=given)
    return found.exception, found.stdout, found.stderr


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A model that writes a piece or two for each part of a line."""
    quick = Decoding(beam=1, max_ratio=0.01, max_extra=1)
    return bundle_at(tmp_path_factory.mktemp("models") / "quick", seed=1, decoding=quick)


@pytest.mark.parametrize("engine", ["unisono", "ctranslate2"])
def test_a_long_line_is_translated_in_parts_and_a_megabyte_in_one_refused(
    tmp_path, bundle, engine
):
    model = bundle
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2")
        model = exported(bundle, tmp_path / "export")
    words = ("translate", "--engine", engine, "--model", model)
    failed, out, said = done(*words, given=b"to be " * 16_000 + b"\nto be\n")
    assert failed is None
    assert out.count("\n") == 2
    assert "was translated in 3" in said
    failed, out, _ = done(*words, given=b"to be " * 170_000 + b"\nto be\n")
    assert "line 1 has over 100,000 bytes" in str(failed)
    assert "--documents" in str(failed)
    assert (failed.exit_code, out) == (3, "")


@pytest.mark.parametrize("options", [(), ("--json",), ("--documents",), ("--html",)])
def test_an_empty_text_gives_an_empty_text(bundle, options):
    assert done("translate", *options, "--model", bundle)[:2] == (None, "")


def test_a_damaged_or_foreign_export_is_refused_with_the_exit_code_of_data(tmp_path, bundle):
    pytest.importorskip("ctranslate2")
    good = exported(bundle, tmp_path / "export")
    for name in ("model.bin", "unisono.json"):
        shutil.copytree(good, tmp_path / name)
        with (tmp_path / name / name).open("r+b") as file:
            file.truncate(20)
        failed, out, _ = done(
            "translate", "--model", tmp_path / name, "--engine", "ctranslate2"
        )
        assert name in str(failed)
        assert (failed.exit_code, out) == (3, "")
    failed, _, _ = done("translate", "--model", good)
    assert failed.exit_code == 3
    assert str(good) in str(failed)


@pytest.mark.parametrize(
    ("source", "reference", "words"),
    [
        (b"one\nt\xffwo\n", b"eins\nzwei\n", "source, line 2"),
        (b"one\ntwo\n", b"eins\n", "2 lines"),
        (b"", b"", "empty"),
        (None, b"eins\n", "such file or directory"),
    ],
)
def test_a_text_that_proves_nothing_is_refused_and_nothing_is_written(
    tmp_path, bundle, source, reference, words
):
    pytest.importorskip("ctranslate2")
    for name, content in (("source", source), ("reference", reference)):
        if content is not None:
            (tmp_path / name).write_bytes(content)
    before = set(tmp_path.iterdir())
    checks = ("--check", tmp_path / "source", "--check", tmp_path / "reference")
    failed, _, _ = done(
        "export", bundle, "--to", "ctranslate2", *checks, "--output", tmp_path / "out"
    )
    assert words.lower() in str(failed).lower()
    assert failed.exit_code in (2, 3)
    assert set(tmp_path.iterdir()) == before


def exported(bundle, path):
    from unisono.bundle.reader import open_bundle

    proof = ExportProof(1, 1.0, 1.0, 1.0, 1.0, 1.0)
    write_export(path, open_bundle(bundle), "", lambda *_: proof, force=False, workers=1)
    return path


@pytest.mark.ranks
def test_a_damaged_export_is_refused_once_whatever_the_workers(tmp_path, bundle):
    pytest.importorskip("ctranslate2")
    damaged = exported(bundle, tmp_path / "export")
    with (damaged / "model.bin").open("r+b") as file:
        file.truncate(20)
    words = ("serve", damaged, "--engine", "ctranslate2", "--port", "0", "--workers", "4")
    found = subprocess.run(
        [sys.executable, "-m", "unisono", *map(str, words)], capture_output=True, text=True
    )
    assert found.returncode == 3
    assert found.stderr.startswith("error: model.bin is damaged: it has 20 bytes")
    assert found.stderr.count("\n") == 3
