"""Two models with random weights, and one server of both that tests share."""

import pytest

from serve.running import RunningServer
from support.random_bundles import made_bundle


@pytest.fixture(scope="package")
def bundle(tmp_path_factory):
    """The bundle of a model from English to German; treat it as read-only."""
    return made_bundle(tmp_path_factory.mktemp("models") / "en-de")


@pytest.fixture(scope="package")
def back(tmp_path_factory):
    """One from German to English; treat it as read-only."""
    return made_bundle(tmp_path_factory.mktemp("models") / "de-en", pair=("de", "en"), seed=4)


@pytest.fixture(scope="package")
def server(bundle, back):
    with RunningServer(bundle.path, back.path) as running:
        yield running


@pytest.fixture(scope="package")
def english_to_german(bundle):
    """What the model makes of lines, by `translate`'s own way."""
    return bundle.translator().translate
