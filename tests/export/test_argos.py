"""Argos packages in the real argostranslate, which lives beside our environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from export.test_export import GOOD, pieces_of
from support.random_bundles import made_bundle
from unisono import atomic
from unisono.export.argos import write_argos
from unisono.text.tokenizer import Tokenizers

# Without what they require: argostranslate pins stanza, which would bring another torch.
ALONE = ("argostranslate==1.11.0", "stanza==1.10.1", "minisbd", "sacremoses")
WITH_ALL = ("spacy<4", "joblib", "emoji", "onnxruntime", "requests", "tqdm")
LINES = ["to be or not to be", "that is the question", "a", "be be be", "the mind to suffer"]


@pytest.fixture(scope="module")
def argos_path():
    """The directory of argostranslate and all it needs but torch: 400 MB, installed once."""
    caches = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    place = caches / "unisono-tests" / f"{ALONE[0]}-{sys.version_info[0]}.{sys.version_info[1]}"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with atomic.new_directory(place) as new:
            for words in (("--no-deps", *ALONE), WITH_ALL):
                pip = (sys.executable, "-m", "pip", "install", "-q", "--only-binary", ":all:")
                done = subprocess.run(
                    [*pip, "--target", str(new), *words], capture_output=True, text=True
                )
                if done.returncode:
                    pytest.skip(f"pip cannot install argostranslate: {done.stderr[-300:]}")
    return place


@pytest.mark.long(minutes=2)
@pytest.mark.ranks
def test_the_real_argostranslate_translates_as_the_proof_says(tmp_path, argos_path):
    bundle = made_bundle(
        tmp_path / "bundle",
        Tokenizers(*[pieces_of([*LINES, "abcdefghijklmnopqrstuvwxyz"])] * 2),
        positions="learned",
        max_positions=64,
        end_after=4,
        seed=6,
    )
    proved = []

    def prove(translator, megabytes):
        proved.extend(translator.translate(LINES))
        return GOOD

    write_argos(tmp_path / "en-de", bundle, "", prove, force=False, workers=1)
    done = subprocess.run(
        [
            *(sys.executable, str(Path(__file__).with_name("argos_translate.py"))),
            *(str(tmp_path / "en-de.argosmodel"), str(tmp_path / "scratch")),
        ],
        input="\n".join(LINES) + "\n",
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(argos_path), "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == proved
    assert len(set(proved)) >= 3
    assert max(map(len, proved)) > 4
