"""Words may learn at another rate than all else: the setting reaches the update."""

import numpy as np
from test_resume import final_state, link_corpus

from support.tiny import tiny_settings
from unisono.comm.group import Solo
from unisono.train.job import run_with

SGD = {"optimizer": {"name": "sgd"}, "schedule": {"name": "constant", "peak": 0.5}}


def after_an_update(home, word_rate):
    train = {"max_steps": 1, "word_rate": word_rate}
    list(run_with(Solo(), tiny_settings(home, f"at-{word_rate}", **SGD, train=train)))
    return final_state(home / f"at-{word_rate}", step=1)["model.safetensors"]


def test_only_words_take_the_rate_of_words(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    one, two, three = (after_an_update(home, rate) for rate in (1.0, 2.0, 3.0))
    for name, weight in one.items():
        if not name.startswith("embeddings"):
            assert weight.tobytes() == two[name].tobytes() == three[name].tobytes()
            continue
        further = two[name] - weight
        assert abs(further).max() > 1e-3
        np.testing.assert_allclose(three[name] - weight, 2 * further, atol=1e-6)
