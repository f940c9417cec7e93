import tomllib

import pytest
from click.testing import CliRunner

from unisono.cli import unisono
from unisono.config.load import load_settings
from unisono.errors import DataError
from unisono.importers.openseq2seq.build import read_settings, to_toml
from unisono.importers.openseq2seq.printed_config import Symbol, Unreadable
from unisono.importers.openseq2seq.python_config import read_source

SETTINGS = '''
import os
import tensorflow as tf
from open_seq2seq.encoders import TransformerEncoder
from open_seq2seq.decoders import TransformerDecoder
from open_seq2seq.optimizers.lr_policies import transformer_policy

"""A text that stands alone."""
d_model = 256
layers = 2 + 1
root = "/data/toy/"
print("reading", d_model)

base_params = {
  "use_horovod": True,
  "num_gpus": 1,
  "batch_size_per_gpu": 64,
  "max_steps": 3 * 10 ** 5,
  "eval_steps": 4001,
  "save_checkpoint_steps": 299998,
  "print_loss_steps": 100,
  "dtype": tf.float32,
  "optimizer": tf.contrib.opt.LazyAdamOptimizer,
  "optimizer_params": {"beta1": 0.9, "beta2": 0.997, "epsilon": 1e-09},
  "lr_policy": transformer_policy,
  "lr_policy_params": {"learning_rate": 2.0, "warmup_steps": 8000, "d_model": d_model},
  "encoder": TransformerEncoder,
  "encoder_params": {
    "encoder_layers": layers, "hidden_size": d_model, "num_heads": 8,
    "attention_dropout": 0.1, "filter_size": 4 * d_model, "relu_dropout": 0.1,
    "layer_postprocess_dropout": 0.2,
  },
  "decoder": TransformerDecoder,
  "decoder_params": {
    "num_hidden_layers": layers, "hidden_size": d_model, "num_heads": 8,
    "attention_dropout": 0.1, "filter_size": 4 * d_model, "relu_dropout": 0.1,
    "layer_postprocess_dropout": 0.2, "beam_size": 4, "alpha": 0.6,
    "extra_decode_length": 50,
  },
  "loss_params": {"label_smoothing": 0.1},
}
base_params["random_seed"] = 7

train_params = {
  "data_layer_params": {
    "src_vocab_file": root + "both.vocab", "tgt_vocab_file": root + "both.vocab",
    "source_file": os.path.join(root, "train.en.pieces"),
    "target_file": os.path.join(root, "train.de.pieces"),
    "max_length": 56,
  },
}
eval_params = {
  "data_layer_params": {"source_file": root + "valid.en", "target_file": root + "valid.de"},
}
'''


def made(tmp_path, text=SETTINGS, processes=0):
    path = tmp_path / "small.py"
    path.write_text(text)
    return read_settings(path, processes)


def parameters(tmp_path, text):
    path = tmp_path / "small.py"
    path.write_text(text)
    return read_source(path).train


def test_the_toml_passes_the_strict_reader_and_says_the_same(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(to_toml(made(tmp_path, processes=4), "small.py"))
    settings = load_settings(path)
    model, schedule = settings.model, settings.schedule
    assert (model.width, model.heads, model.inner) == (256, 8, 1024)
    assert (model.encoder_layers, model.decoder_layers) == (3, 3)
    assert (model.dropout, model.attention_dropout, model.norm) == (0.2, 0.1, "pre")
    assert (schedule.scale, schedule.warmup_steps, schedule.d_model) == (2.0, 8000, 256)
    assert (settings.optimizer.beta2, settings.optimizer.epsilon) == (0.997, 1e-9)
    assert settings.train.max_steps == 300_000
    assert settings.train.label_smoothing == 0.1
    assert settings.train.precision == "fp32"
    assert settings.validation.every_steps == 4001
    assert settings.seed == 7
    assert settings.decoding.beam == 4
    assert settings.data.train[0].source == "/data/toy/train.en.pieces"
    assert settings.data.valid.target == "/data/toy/valid.de"
    assert (settings.data.source_language, settings.data.target_language) == ("en", "de")
    assert settings.batching.tokens_per_micro_batch == 64 * 57
    assert settings.batching.tokens_per_update == 4 * 64 * 57


def test_how_sentences_became_tokens_is_said(tmp_path):
    text = to_toml(made(tmp_path), "small.py")
    assert "64 of at most 56 subwords" in text
    assert "the settings do not say how many GPUs shared an update" in text


def test_settings_with_no_counterpart_are_listed_at_the_end_and_never_guessed(tmp_path):
    text = SETTINGS.replace(
        '"num_gpus": 1,', '"num_gpus": 1, "larc_params": {"larc_eta": 0.002},'
    )
    text = text.replace("300", "300")
    found = made(tmp_path, text)
    assert "larc_params.larc_eta = 0.002: Unisono has no such setting" in found.left
    end = to_toml(found, "small.py").partition("# Not converted:")[2]
    assert "larc_eta" in end


@pytest.mark.parametrize(
    "change",
    [
        "steps = int(input())",
        "steps = __import__('os').getpid()",
        "steps = 5\nif root:\n  steps = 7",
        "steps = 5\nfor steps in (1, 2): pass",
        "steps = [5 for _ in root]",
        "steps = 5\nsteps += 1",
        "def steps(): return 5",
        "steps = 9 ** 99999999",
        "steps = 'x' * 10 ** 12",
        "steps = 1 / 0",
        "steps, other = 5, 6",
        "steps = 5 if root else 6",
        "steps = lambda: 5",
    ],
)
def test_what_only_running_would_tell_is_not_told(tmp_path, change):
    text = SETTINGS.replace("d_model = 256", f"root = 'x'\n{change}\nd_model = 256")
    text = text.replace('"max_steps": 3 * 10 ** 5', '"max_steps": steps, "num_epochs": 3')
    found = made(tmp_path, text)
    assert "max_steps" not in found.table["train"]
    assert any(entry.startswith("max_steps: ") for entry in found.left), found.left


@pytest.mark.parametrize(
    "change",
    [
        "base_params.update(more())",
        "change(base_params['encoder_params'])",
        "inner = base_params['encoder_params']\nchange(inner)",
        "alias = base_params\ndel alias['encoder_params']",
        "if root:\n  base_params['encoder_params']['hidden_size'] = 5",
    ],
)
def test_a_table_that_may_have_been_changed_is_not_believed(tmp_path, change):
    path = tmp_path / "small.py"
    path.write_text(SETTINGS + "\n" + change + "\n")
    with pytest.raises(DataError):
        read_settings(path)


def test_changes_that_can_be_followed_are(tmp_path):
    more = (
        "base_params['encoder_params']['num_heads'] = 4\nbase_params.update({'max_steps': 9})"
    )
    more += "\ntrain_params = {**train_params, 'eval_steps': 5}"
    train = parameters(tmp_path, SETTINGS + more)
    assert train["encoder_params"]["num_heads"] == 4
    assert (train["max_steps"], train["eval_steps"]) == (9, 5)


def test_the_file_is_never_run(tmp_path):
    proof = tmp_path / "proof"
    text = f"open({str(proof)!r}, 'w').write('ran')\n" + SETTINGS
    text += f"\nclass A:\n  open({str(proof)!r}, 'w')\n"
    made(tmp_path, text)
    assert not proof.exists()


def test_names_of_things_stay_names(tmp_path):
    train = parameters(tmp_path, SETTINGS)
    assert train["dtype"] == Symbol("tensorflow.float32")
    unknown = parameters(tmp_path, "base_params = {'a': nobody, 'b': nobody.knows}")
    assert all(isinstance(value, Unreadable) for value in unknown.values())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "print 'python 2'",
        "base_params = 5",
        "\x00",
        "base_params = " + "(" * 5000,
        "x = " + "+".join(["1"] * 50_000),
        "base_params = {'encoder': RNN}\nfrom x import RNN",
    ],
    ids=["empty", "python2", "number", "nul", "deep", "long", "no-transformer"],
)
def test_another_file_is_refused_in_words(tmp_path, text):
    with pytest.raises(DataError):
        made(tmp_path, text)


def test_a_file_that_was_cut_off_is_refused_or_says_less_and_never_something_else(tmp_path):
    whole = made(tmp_path).table
    for place in range(0, len(SETTINGS), 3):
        try:
            cut = made(tmp_path, SETTINGS[:place]).table
        except DataError:
            continue
        assert cut["model"] == whole["model"]
        assert cut["train"] == whole["train"]


def test_a_model_of_another_kind_is_refused(tmp_path):
    text = SETTINGS.replace('"encoder": TransformerEncoder', '"encoder": tf.GNMTLikeEncoder')
    with pytest.raises(DataError, match="does not describe a Transformer"):
        made(tmp_path, text)


def test_comments_cannot_be_broken_out_of(tmp_path):
    text = SETTINGS.replace('"num_gpus": 1,', '"num_gpus": 1, "x\\nrun": "\\nseed = 99",')
    path = tmp_path / "small.toml"
    path.write_text(to_toml(made(tmp_path, text), "a\nseed = 3\n.py"))
    assert tomllib.loads(path.read_text())["seed"] == 7


def test_the_command_lists_what_it_left_out_and_overwrites_nothing(tmp_path):
    (tmp_path / "small.py").write_text(SETTINGS)
    to = tmp_path / "small.toml"
    arguments = ["import", "config", str(tmp_path / "small.py"), "--to", str(to)]
    done = CliRunner().invoke(unisono, arguments)
    assert done.exit_code == 0, done.output
    assert "not converted: corpus.vocabulary" in done.stderr
    assert load_settings(to).model.width == 256
    again = CliRunner().invoke(unisono, arguments)
    assert "exists already" in str(again.exception)
