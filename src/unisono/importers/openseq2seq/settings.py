"""Convert OpenSeq2Seq's parameters to settings of Unisono.

What has no counterpart, and what cannot be read, is listed and never guessed.
"""

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from unisono.importers.openseq2seq.printed_config import Parameters, Symbol, Unreadable, inner

Schedule = tuple[dict[str, object], list[str], str]
NONE: Schedule = ({}, [], "")
LARGEST_STEP = 10**12


def schedule_of(policy: str, settings: dict[str, object]) -> Schedule:
    """Return our schedule, the names of `settings` it covers, and a note; empty if none."""
    numbers = {
        name: float(value)
        for name, value in settings.items()
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 <= value <= LARGEST_STEP
    }
    policies = {"transformer_policy": _transformer, "fixed_lr": _fixed, "poly_decay": _line}
    try:
        return policies[policy](numbers) if policy in policies else NONE
    except KeyError:
        return NONE  # a number it needs is unreadable


def _transformer(numbers: dict[str, float]) -> Schedule:
    scale = numbers["learning_rate"] * numbers.get("coefficient", 1.0)
    if not scale or numbers["d_model"] < 1:
        return NONE
    table: dict[str, object] = {
        "name": "transformer",
        "scale": scale,
        "warmup_steps": int(numbers["warmup_steps"]),
        "d_model": int(numbers["d_model"]),
    }
    note = "OpenSeq2Seq counts updates from 0 and adds 1, so the learning rates are the same"
    return table, ["learning_rate", "coefficient", "warmup_steps", "d_model"], note


def _fixed(numbers: dict[str, float]) -> Schedule:
    table: dict[str, object] = {"name": "constant", "peak": numbers["learning_rate"]}
    return table, ["learning_rate"], ""


def _line(numbers: dict[str, float]) -> Schedule:
    """Convert linear decay; Unisono has no other polynomial, and decays after the warm-up."""
    warmup = int(numbers.get("warmup_steps", 0))
    if numbers.get("power", 1.0) != 1.0 or numbers.get("begin_decay_at", 0) > warmup:
        return NONE
    table: dict[str, object] = {
        "name": "linear",
        "peak": numbers["learning_rate"],
        "warmup_steps": warmup,
        "total_steps": warmup + int(numbers["decay_steps"]),
        "floor": numbers.get("min_lr", 0.0),
    }
    names = "learning_rate power begin_decay_at warmup_steps decay_steps min_lr"
    return table, names.split(), ""


LARGEST_SETTING = 10**15
ENCODER, DECODER = "encoder_params", "decoder_params"
MODEL = (
    ("width", ENCODER, "hidden_size"),
    ("heads", ENCODER, "num_heads"),
    ("inner", ENCODER, "filter_size"),
    ("encoder_layers", ENCODER, "encoder_layers"),
    ("decoder_layers", DECODER, "num_hidden_layers"),
    ("dropout", ENCODER, "layer_postprocess_dropout"),
    ("attention_dropout", ENCODER, "attention_dropout"),
    ("activation_dropout", ENCODER, "relu_dropout"),
)
BOTH_SIDES = [name for _, _, name in MODEL if name != "encoder_layers"]
OTHERS = (
    ("train", "max_steps", "", "max_steps"),
    ("train", "max_epochs", "", "num_epochs"),
    ("train", "show_every_steps", "", "print_loss_steps"),
    ("train", "clip_norm", "", "max_grad_norm"),
    ("train", "label_smoothing", "loss_params", "label_smoothing"),
    ("validation", "every_steps", "", "eval_steps"),
    ("checkpoint", "every_steps", "", "save_checkpoint_steps"),
    ("decoding", "beam", DECODER, "beam_size"),
    ("decoding", "length_penalty", DECODER, "alpha"),
    ("decoding", "max_extra", DECODER, "extra_decode_length"),
)
OPTIMIZERS = {
    **dict.fromkeys(("LazyAdamOptimizer", "AdamOptimizer", "Adam"), "adam"),
    **dict.fromkeys(("AdamWOptimizer", "AdamW"), "adamw"),
    **dict.fromkeys(("GradientDescentOptimizer", "SGD"), "sgd"),
    **dict.fromkeys(("MomentumOptimizer", "Momentum"), "sgd"),
}
OPTIMIZER_SETTINGS = {
    "adam": ("beta1", "beta2", "epsilon"),
    "adamw": ("beta1", "beta2", "epsilon", "weight_decay"),
    "sgd": ("momentum",),
}
NOT_NEEDED = frozenset(
    {
        *("use_horovod", "num_gpus", "gpu_ids", "iter_size", "logdir", "load_model", "hooks"),
        *("save_summaries_steps", "print_samples_steps", "print_bench_info_steps", "summaries"),
        *("bench_start", "bench_steps", "num_checkpoints", "use_xla_jit", "loss_scaling"),
        *("data_layer", "base_model", "encoder", "decoder", "loss"),
        *(f"encoder_params.{n}" for n in ("remove_padding", "pad_embeddings_2_eight")),
        *(f"decoder_params.{n}" for n in ("EOS_ID", "GO_SYMBOL", "END_SYMBOL", "PAD_SYMBOL")),
        *(f"data_layer_params.{n}" for n in ("delimiter", "shuffle", "repeat", "use_targets")),
        *(f"data_layer_params.{n}" for n in ("shuffle_buffer_size", "map_parallel_calls")),
        *(f"data_layer_params.{n}" for n in ("prefetch_buffer_size", "pad_vocab_to_eight")),
        *(f"{n}.batch_size" for n in ("data_layer_params", "decoder_params", "loss_params")),
        *(f"loss_params.{n}" for n in ("offset_target_by_one", "do_mask")),
        "loss_params.average_across_timestep",
    }
)


@dataclass
class ConfigTranslation:
    """The converted settings, notes on them, and what could not be converted."""

    table: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def put(self, table: str, name: str, value: object) -> None:
        """Set one of our settings; `table` is "" for one outside of any table."""
        place = self.table.setdefault(table, {}) if table else self.table
        place[name] = value


def settings_of(parameters: Parameters, processes: int = 0) -> ConfigTranslation:
    """Convert `parameters`; `processes` is the number that shared an update."""
    made = ConfigTranslation()
    _put_model(made, parameters)
    for table, name, place, theirs in OTHERS:
        _put_number(made, parameters, (table, name), (place, theirs))
    if "max_extra" in made.table.get("decoding", {}):
        made.put("decoding", "max_ratio", 1.0)  # theirs is relative to the source
    _put_precision(made, parameters)
    _put_seed(made, parameters)
    _put_optimizer(made, parameters)
    _put_schedule(made, parameters)
    _put_corpus(made, parameters)
    _put_batching(made, parameters, processes)
    _list_the_rest(made, parameters)
    return made


def value_of(parameters: Parameters, place: str, name: str) -> object:
    """Return a parameter for training, or None."""
    table = inner(parameters.train, place) if place else parameters.train
    return table.get(name)


def is_number(value: object) -> bool:
    """Return whether `value` is a number of sensible size; booleans are not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -LARGEST_SETTING <= value <= LARGEST_SETTING  # neither is infinity nor NaN


def _dotted(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _put_number(
    made: ConfigTranslation,
    parameters: Parameters,
    ours: tuple[str, str],
    theirs: tuple[str, str],
) -> None:
    value = value_of(parameters, *theirs)
    if is_number(value):
        made.put(*ours, value)
        made.used.add(_dotted(*theirs))
    elif value is None and theirs[1] in parameters.train:
        made.used.add(_dotted(*theirs))


def _put_model(made: ConfigTranslation, parameters: Parameters) -> None:
    encoder, decoder = parameters.train.get("encoder"), parameters.train.get("decoder")
    kinds = [thing.last for thing in (encoder, decoder) if isinstance(thing, Symbol)]
    if any(not kind.startswith("Transformer") for kind in kinds):
        made.left.append(f"the model: {' and '.join(kinds)} is not one of Unisono's")
        return
    for ours, place, theirs in MODEL:
        _put_number(made, parameters, ("model", ours), (place, theirs))
    for name in BOTH_SIDES:
        here, there = (value_of(parameters, side, name) for side in (ENCODER, DECODER))
        if here is not None and there is not None and here == there:
            made.used.add(_dotted(DECODER, name))
    if kinds and "width" in made.table.get("model", {}):
        # What OpenSeq2Seq's Transformer always has, whatever the settings say.
        made.table["model"] |= {"norm": "pre", "tied_embeddings": True, "positions": "sinusoid"}
        made.notes.append("norm, positions and tied embeddings are OpenSeq2Seq's defaults")


def _put_precision(made: ConfigTranslation, parameters: Parameters) -> None:
    value = parameters.train.get("dtype")
    name = value.last if isinstance(value, Symbol) else value
    precision = {"mixed": "fp16", "float32": "fp32"}.get(str(name)) if name else None
    if precision:
        made.put("train", "precision", precision)
        made.used.add("dtype")


def _put_seed(made: ConfigTranslation, parameters: Parameters) -> None:
    value = parameters.train.get("random_seed")
    if isinstance(value, int) and value >= 0:
        made.put("", "seed", value)
        made.used.add("random_seed")


def _put_optimizer(made: ConfigTranslation, parameters: Parameters) -> None:
    value = parameters.train.get("optimizer")
    theirs = value.last if isinstance(value, Symbol) else value
    name = OPTIMIZERS.get(theirs) if isinstance(theirs, str) else None
    if name is None:
        return
    made.used.add("optimizer")
    made.put("optimizer", "name", name)
    for setting in OPTIMIZER_SETTINGS[name]:
        place = ("optimizer_params", setting)
        _put_number(made, parameters, ("optimizer", setting), place)
    if theirs == "LazyAdamOptimizer":
        made.notes.append(
            "LazyAdam does not update the moments of words that are not in the batch; adam does"
        )


def _put_schedule(made: ConfigTranslation, parameters: Parameters) -> None:
    value = parameters.train.get("lr_policy")
    name = value.last if isinstance(value, Symbol) else value
    table, used, note = schedule_of(str(name), inner(parameters.train, "lr_policy_params"))
    if not table:
        return
    width = made.table.get("model", {}).get("width")
    if table.get("d_model") == width:
        del table["d_model"]  # ours takes it from the model
    made.table["schedule"] = table
    made.used |= {"lr_policy", *(f"lr_policy_params.{name}" for name in used)}
    made.notes += [note] if note else []


def _put_corpus(made: ConfigTranslation, parameters: Parameters) -> None:
    train = inner(parameters.train, "data_layer_params")
    longest = train.get("max_length")
    if isinstance(longest, int) and longest > 0:
        made.put("corpus", "max_pieces", longest)
        made.used.add("data_layer_params.max_length")
        made.notes.append(
            "corpus.max_pieces is max_length, which in OpenSeq2Seq includes the tokens for "
            "beginning and end"
        )
    vocabularies = [train.get("src_vocab_file"), train.get("tgt_vocab_file")]
    if all(isinstance(name, str) for name in vocabularies):
        made.put("corpus", "joint", vocabularies[0] == vocabularies[1])
        made.used |= {"data_layer_params.src_vocab_file", "data_layer_params.tgt_vocab_file"}
        made.left.append(
            f"corpus.vocabulary: its size is in {vocabularies[0]}, which is not read"
        )
    _put_files(made, parameters)


def _put_files(made: ConfigTranslation, parameters: Parameters) -> None:
    sets = {"train": parameters.train, "valid": parameters.valid, "test": parameters.test}
    for split, table in sets.items():
        layer = inner(table, "data_layer_params")
        source, target = layer.get("source_file"), layer.get("target_file")
        if not (isinstance(source, str) and isinstance(target, str)):
            continue
        if source == target:
            made.left.append(f"data.{split}: source and target are the same file, {source}")
            continue
        pair: dict[str, object] = {"source": source, "target": target}
        made.put("data", split, [pair] if split == "train" else pair)
        if split == "train":
            made.used |= {"data_layer_params.source_file", "data_layer_params.target_file"}
            made.notes.append(
                "the files may already hold subwords instead of text (names with BPE or tok): "
                "name the plain text they were made from"
            )
            _put_languages(made, source, target)


def _put_languages(made: ConfigTranslation, source: str, target: str) -> None:
    """Take the languages from the file names, if these differ in nothing else."""
    parts = [PurePosixPath(name).name.split(".") for name in (source, target)]
    if len(parts[0]) == len(parts[1]):
        differ = [(a, b) for a, b in zip(*parts, strict=True) if a != b]
        codes = [code for pair in differ for code in pair]
        if len(differ) == 1 and all(c.isalpha() and 2 <= len(c) <= 3 for c in codes):
            made.put("data", "source_language", codes[0])
            made.put("data", "target_language", codes[1])
            made.notes.append("the languages come from the names of the training files")
            return
    made.left.append("data.source_language and data.target_language: the file names do not say")


def _put_batching(made: ConfigTranslation, parameters: Parameters, processes: int) -> None:
    sentences = parameters.train.get("batch_size_per_gpu")
    longest = inner(parameters.train, "data_layer_params").get("max_length")
    if not (isinstance(sentences, int) and isinstance(longest, int)):
        return
    if sentences <= 0 or longest <= 0:
        return
    passes = parameters.train.get("iter_size")
    passes = passes if isinstance(passes, int) and passes > 0 else 1
    horovod = parameters.train.get("use_horovod") is True
    gpus = parameters.train.get("num_gpus")
    devices = processes if horovod else (gpus if isinstance(gpus, int) and gpus > 0 else 0)
    tokens = sentences * (longest + 1)
    made.put("batching", "tokens_per_micro_batch", tokens)
    made.put("batching", "tokens_per_update", tokens * max(1, devices) * passes)
    made.used.add("batch_size_per_gpu")
    made.notes.append(
        f"batching counts tokens, OpenSeq2Seq counts sentences: {sentences:,} of at most "
        f"{longest} subwords and an end token fit into {tokens:,}; "
        + (
            f"an update is {devices} × {passes} of them"
            if devices
            else "an update is one of them"
        )
    )
    if not devices:
        made.left.append(
            "batching.tokens_per_update: the settings do not say how many GPUs shared an "
            "update (give --processes N); it assumes one"
        )


def _list_the_rest(made: ConfigTranslation, parameters: Parameters) -> None:
    for name, value in _leaves(parameters.train):
        if isinstance(value, Unreadable):
            made.left.append(f"{name}: {value.why}")
        elif name not in made.used and name not in NOT_NEEDED and value is not None:
            made.left.append(f"{name} = {_shown(value)}: Unisono has no such setting")


def _leaves(table: dict[str, object]) -> list[tuple[str, object]]:
    leaves: list[tuple[str, object]] = []
    for name, value in table.items():
        if isinstance(value, dict) and value:
            leaves += [(f"{name}.{inside}", item) for inside, item in value.items()]
        elif value != {}:
            leaves.append((name, value))
    return leaves


def _shown(value: object) -> str:
    text = value.name if isinstance(value, Symbol) else repr(value)
    return text if len(text) <= 80 else text[:80] + "…"
