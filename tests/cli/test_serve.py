"""What `unisono serve` refuses, and with which exit code."""

import shutil

import pytest
from click.testing import CliRunner

from support.random_bundles import made_bundle
from unisono.cli.serve import serve
from unisono.errors import UnisonoError
from unisono.secure.listen import bind


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return made_bundle(tmp_path_factory.mktemp("models") / "en-de").path


def refused(*words):
    with pytest.raises(UnisonoError) as found:
        CliRunner().invoke(serve, [str(word) for word in words], catch_exceptions=False)
    return found.value.exit_code, str(found.value)


def test_what_is_no_bundle_is_refused(tmp_path, bundle):
    assert refused(tmp_path)[0] == 3
    code, text = refused(bundle, "--engine", "ctranslate2")
    assert code == 3
    assert "no export of Unisono" in text


def test_a_bundle_with_damaged_weights_is_refused(tmp_path, bundle):
    shutil.copytree(bundle, tmp_path / "damaged")
    with (tmp_path / "damaged" / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01")
    code, text = refused(tmp_path / "damaged", "--port", 0)
    assert code == 3
    assert "model.safetensors is damaged" in text


def test_two_models_of_one_pair_are_refused(bundle):
    code, text = refused(bundle, bundle)
    assert code == 2
    assert "two models translate en → de" in text


def test_a_model_without_languages_is_refused(tmp_path):
    nameless = made_bundle(tmp_path / "nameless", pair=("", "de")).path
    code, text = refused(nameless)
    assert code == 2
    assert "does not say between which languages" in text


def test_a_port_in_use_is_refused(bundle):
    with bind("127.0.0.1", 0) as bound:
        code, text = refused(bundle, "--port", bound.getsockname()[1])
    assert code == 2
    assert "cannot be used" in text


def test_a_missing_file_of_keys_is_refused(tmp_path, bundle):
    code, text = refused(bundle, "--keys", tmp_path / "none")
    assert code == 2
    assert "the keys cannot be read" in text
