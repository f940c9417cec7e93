import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.config.load import load_settings, resolve, to_toml
from unisono.errors import ConfigError
from unisono.schedules import Cosine

ROOT = Path(__file__).parents[2]
CONFIGS = sorted([*(ROOT / "configs").glob("*.toml"), *(ROOT / "examples").glob("*/*.toml")])
LEAST = {"data": {}, "corpus": {"directory": "corpora/x"}, "train": {"max_steps": 10}}


def with_table(table, /, **keys):
    return {**LEAST, table: {**LEAST.get(table, {}), **keys}}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.name)
def test_every_config_we_ship_loads(path):
    assert load_settings(path).run


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.name)
def test_settings_survive_the_trip_through_a_file(path):
    settings = load_settings(path)
    assert resolve(tomllib.loads(to_toml(settings)), where="again") == settings


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.name)
def test_each_line_of_a_config_is_explained(path):
    for line in path.read_text().splitlines():
        if "=" in line and not line.lstrip().startswith("#"):
            assert "#" in line, f"{path.name}: {line}"


def test_base_is_the_model_of_the_field():
    base = load_settings(ROOT / "configs" / "base.toml")
    assert (base.model.width, base.model.heads, base.model.inner) == (512, 8, 2048)
    assert (base.model.encoder_layers, base.model.decoder_layers) == (6, 6)
    assert base.model.tied_embeddings
    assert base.train.label_smoothing == 0.1
    optimizer, schedule = base.optimizer, base.schedule
    assert (optimizer.beta1, optimizer.beta2, optimizer.epsilon) == (0.9, 0.997, 1e-9)
    assert (schedule.scale, schedule.warmup_steps, schedule.d_model) == (2.0, 8000, 512)
    assert base.corpus.vocabulary == 32000


@pytest.mark.parametrize(
    ("table", "says", "where"),
    [
        (with_table("model", widht=3), "did you mean `width`?", "[model]"),
        (with_table("schedule", name="cosine"), "`total_steps` is missing", "[schedule]"),
        (
            with_table("schedule", name="inverse_sqrt", warmup=3),
            "did you mean `warmup_steps`?",
            "[schedule]",
        ),
        (with_table("schedule", name="cosin"), "cosin", "[schedule]"),
        (with_table("model", width="wide"), "got 'wide'", "[model] width"),
        (with_table("model", width=True), "got True", "[model] width"),
        (with_table("model", width=-4), "got -4", "[model] width"),
        (with_table("model", preset="bsae"), "did you mean `base`?", "[model] preset"),
        (with_table("model", width=30, heads=4), "30 cannot be split over 4", "[model]"),
        (with_table("model", positions="rotary", heads=512), "a head is 1 wide", "[model]"),
        (with_table("model", positions="learned"), "a largest position", "max_positions"),
        (
            with_table("model", positions="learned", max_positions=420),
            "may grow to",
            "max_positions",
        ),
        (with_table("checkpoint", keep=1), "got 1", "[checkpoint] keep"),
        (with_table("train", max_time="soon"), '"soon" is not a length of time', "max_time"),
        (with_table("train", max_steps=0), "nothing says when to stop", "[train]"),
        (with_table("batching", tokens_per_micro_batch=100), "does not fit", "[batching]"),
        (
            with_table("batching", tokens_per_update=1000, tokens_per_micro_batch=2000),
            "larger than the update",
            "[batching]",
        ),
        (
            with_table("batching", tokens_per_update=100),
            "raise it to 201 or more",
            "[batching] tokens_per_update",
        ),
        (with_table("validation", best="bleu", bleu=False), "by BLEU", "[validation]"),
        (
            with_table("schedule", name="linear", total_steps=10, warmup_steps=20),
            "before its warm-up",
            "[schedule]",
        ),
        (with_table("schedule", name="cosin"), "inverse_sqrt, cosine", "[schedule] name"),
        (with_table("model", norm="pr"), "one of: pre, post", "[model] norm"),
        ({"data": {}, "train": {"max_steps": 1}}, "the table [corpus] is missing", "run.toml"),
        ({**LEAST, "train": 5}, "Expected a table, got 5", "run.toml train"),
        ({**LEAST, "modle": {}}, "did you mean `model`?", "run.toml"),
        (with_table("data", train=[{"source": "a"}]), "`target` is missing", "[data.train"),
        (
            with_table("data", valid={"source": "a", "tsv": "b"}),
            "both `tsv` and `source`",
            "[data.valid]",
        ),
        (with_table("data", test={"tsv": "b", "columns": [2, 2]}), "column 2", "[data.test]"),
        (with_table("corpus", target_pieces_model="b"), "share one", "[corpus]"),
        (
            with_table("data", train=[{"tsv": "a"}, {"tsv": "b", "wieght": 2}]),
            "`wieght` is not a setting of [data.train] number 2\n  where: run.toml "
            "[data.train] number 2\n  fix:   did you mean `weight`?",
            "[data.train] number 2",
        ),
        (
            with_table("data", train=[{"tsv": "a", "columns": [1, 0]}]),
            "Expected a whole number >= 1, got 0\n  where: run.toml [data.train] number 1 "
            "columns\n  fix:   leave it out for the default, `columns = [1, 2]`",
            "columns",
        ),
        (with_table("data", train=[{"tsv": "a", "weight": 1e9}]), "<= 1000", "weight"),
        ({"data": {}, "corpus": {"directory": "c"}}, "nothing says when to stop", "[train]"),
        (with_table("corpus", joint=False, pieces_model="b"), "one model is given", "[corpus]"),
    ],
)
def test_refuses_and_says_what_to_do(table, says, where):
    with pytest.raises(ConfigError) as error:
        resolve(table, where="run.toml")
    assert says in str(error.value)
    assert where in error.value.where
    assert error.value.exit_code == 2


def test_a_micro_batch_nobody_set_is_never_larger_than_the_update():
    settings = resolve(with_table("batching", tokens_per_update=1000), where="run.toml")
    assert settings.batching.filled().tokens_per_micro_batch == 1000
    large = resolve(with_table("batching", tokens_per_update=50_000), where="run.toml")
    assert large.batching.filled().tokens_per_micro_batch == 4096
    assert large.batching.filled(25_000).tokens_per_micro_batch == 25_000
    set_by_hand = resolve(with_table("batching", tokens_per_micro_batch=512), where="run.toml")
    assert set_by_hand.batching.filled(25_000).tokens_per_micro_batch == 512


def test_an_automatic_micro_batch_is_written_and_read_by_that_name():
    auto = resolve(with_table("batching", tokens_per_micro_batch="auto"), where="run.toml")
    assert auto == resolve(LEAST, where="run.toml")
    assert 'tokens_per_micro_batch = "auto"\n' in to_toml(auto)
    with pytest.raises(ConfigError, match="Expected a whole number"):
        resolve(with_table("batching", tokens_per_micro_batch="automatic"), where="run.toml")


def test_a_micro_batch_that_was_set_stays_as_it_is(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(to_toml(resolve(LEAST, where="run.toml")))
    load_settings(path, ["batching.tokens_per_update=1000"])
    with pytest.raises(ConfigError, match="larger than the update"):
        load_settings(
            path, ["batching.tokens_per_update=1000", "batching.tokens_per_micro_batch=4096"]
        )


def test_a_corpus_needs_no_word_about_training():
    table = {"data": {}, "corpus": {"directory": "c", "max_pieces": 100_000}}
    assert resolve(table, where="x", training=False).corpus.directory == "c"
    table["corpus"]["target_pieces_model"] = "b"
    with pytest.raises(ConfigError, match="share one"):
        resolve(table, where="x", training=False)


def test_a_directory_is_no_settings(tmp_path):
    with pytest.raises(ConfigError, match="is a directory"):
        load_settings(tmp_path)


def test_an_override_changes_one_value(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(
        '[data]\n[corpus]\ndirectory = "c"\n[train]\nmax_steps = 5\n'
        '[schedule]\nname = "transformer"\nscale = 1.0\n'
    )
    settings = load_settings(path, ["train.max_steps=7", "run=elsewhere", "model.dropout=0.2"])
    assert (settings.train.max_steps, settings.run, settings.model.dropout) == (
        7,
        "elsewhere",
        0.2,
    )
    assert load_settings(path).run == "runs/my"
    other = load_settings(path, ["schedule.name=cosine", "schedule.total_steps=9000"])
    assert other.schedule == Cosine(total_steps=9000)
    with pytest.raises(ConfigError, match="does not set anything"):
        load_settings(path, ["train.max_steps"])
    with pytest.raises(ConfigError, match="did you mean `max_steps`"):
        load_settings(path, ["train.maxsteps=3"])


def test_a_file_that_is_not_toml_is_refused_with_its_line(tmp_path):
    path = tmp_path / "broken.toml"
    path.write_text("[train]\nmax_steps = = 3\n")
    with pytest.raises(ConfigError, match="line 2"):
        load_settings(path)
    with pytest.raises(ConfigError, match="no file"):
        load_settings(tmp_path / "absent.toml")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["seed", "run", "data", "corpus", "model", "train", "schedule", "x"]),
        json_values,
    )
)
def test_no_table_whatever_makes_anything_but_settings_or_a_clear_error(table):
    try:
        resolve({**LEAST, **table}, where="run.toml")
    except ConfigError as error:
        assert error.what
        assert "run.toml" in error.where


@pytest.mark.parametrize("strategy", ["powersgd", "diloco"])
def test_a_strategy_that_would_never_begin_is_refused(strategy):
    def table(steps):
        return {**LEAST, "sync": {"strategy": strategy, "warmup_steps": steps}}

    with pytest.raises(ConfigError, match=f"`{strategy}` would never begin") as caught:
        resolve(table(10), where="test")
    assert "warmup_steps" in caught.value.where
    assert resolve(table(9), where="test")


def test_closing_updates_need_an_end_that_is_known():
    sync = {"strategy": "diloco", "closing_steps": 5}
    with pytest.raises(ConfigError, match="when the closing updates begin is not known"):
        resolve({**LEAST, "sync": sync, "train": {"max_epochs": 3}}, where="test")
    with pytest.raises(ConfigError, match="6 updates are made together"):
        table = {**LEAST, "sync": {**sync, "warmup_steps": 1}, "train": {"max_steps": 6}}
        resolve(table, where="test")
