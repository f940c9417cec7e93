"""Marian and Pegasus models that the real transformers made, with random weights, as ours."""

import json
import warnings

import msgspec
import pytest
import sentencepiece
import torch

from unisono.bundle.huggingface import import_model, read_model
from unisono.bundle.huggingface_pieces import read_pieces
from unisono.bundle.reader import open_bundle
from unisono.errors import ConfigError, DataError
from unisono.models.output import loss_sums
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID

transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed: pip install transformers"
)
ENGLISH = ["a man walks home", "two dogs run in the snow", "the red house", "we see a tree"]
GERMAN = ["ein mann geht heim", "zwei hunde rennen im schnee", "das rote haus", "wir sehen"]
SIZES = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 64,
}


def learn(prefix, lines, **ids):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 20),
        model_prefix=str(prefix),
        vocab_size=48,
        hard_vocab_limit=False,
        model_type="unigram",
        minloglevel=3,
        **ids,
    )
    return sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")


def marian_directory(path, **changes):
    """Save a Marian model and its tokenizer files, as OPUS-MT models have them."""
    path.mkdir()
    pieces = []
    for side, lines in (("source", ENGLISH), ("target", GERMAN)):
        spm = learn(path / side, lines)
        (path / f"{side}.model").rename(path / f"{side}.spm")
        pieces += [spm.id_to_piece(i) for i in range(3, spm.get_piece_size())]
    # Two pieces of the models are not in the vocabulary, as happens: they are unknown.
    known = [piece for piece in dict.fromkeys(pieces) if piece not in ("s", "▁haus")]
    texts = ["</s>", "<unk>", *known, "<pad>"]
    vocabulary = {text: number for number, text in enumerate(texts)}
    (path / "vocab.json").write_text(json.dumps(vocabulary), "utf-8")
    languages = {"source_lang": "en", "target_lang": "de"}
    (path / "tokenizer_config.json").write_text(json.dumps(languages), "utf-8")
    last = len(texts) - 1
    config = transformers.MarianConfig(
        **SIZES,
        vocab_size=len(texts),
        pad_token_id=last,
        decoder_start_token_id=last,
        eos_token_id=0,
        **{"activation_function": "swish", "scale_embedding": True, **changes},
    )
    return save(transformers.MarianMTModel(config), path)


def pegasus_directory(path, **changes):
    path.mkdir()
    spm = learn(path / "spiece", ENGLISH + GERMAN, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    config = transformers.PegasusConfig(
        **SIZES,
        vocab_size=spm.get_piece_size() + 103,
        **{"activation_function": "relu", "scale_embedding": True, **changes},
    )
    return save(transformers.PegasusForConditionalGeneration(config), path)


def save(model, path):
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" not in name:  # sinusoids, which are not saved
                weight.normal_(std=0.3)
        model.final_logits_bias.normal_()
    model.save_pretrained(path)
    return model.eval()


MODELS = {
    "marian": (marian_directory, {}),
    "marian without scale": (marian_directory, {"scale_embedding": False}),
    "marian gelu": (marian_directory, {"activation_function": "gelu"}),
    "pegasus": (pegasus_directory, {}),
}


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_transformers(tmp_path, name):
    make, changes = MODELS[name]
    theirs = make(tmp_path / "model", **changes)
    pieces = read_pieces(tmp_path / "model")
    ours, rows = read_model(tmp_path / "model", pieces), torch.tensor(pieces.rows)
    known = rows >= 0
    generator = torch.Generator().manual_seed(2)
    source = torch.randint(4, len(rows), (3, 9), generator=generator)
    source[:, -1] = END_ID
    source[1, 6:] = torch.tensor([END_ID, PADDING_ID, PADDING_ID])
    target = torch.randint(4, len(rows), (3, 7), generator=generator)
    target[:, 0] = BEGIN_ID
    start = theirs.config.pad_token_id  # what a decoder of theirs begins with
    assert rows[BEGIN_ID] == start
    with torch.no_grad():
        wanted = theirs(
            input_ids=rows.clamp_min(0)[source],
            attention_mask=(source != PADDING_ID).long(),
            decoder_input_ids=rows[target],
        ).logits
        found = ours(source, target)
    assert (found[..., known] - wanted[..., rows[known]]).abs().max() < 1e-4
    # Our own row for padding takes no probability from the others.
    together = found.softmax(-1)[..., known]
    assert (together - wanted.softmax(-1)[..., rows[known]]).abs().max() < 1e-5


def test_lines_have_the_ids_of_their_tokenizer(tmp_path):
    marian_directory(tmp_path / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package
        theirs = transformers.MarianTokenizer.from_pretrained(tmp_path / "model")
        pieces = read_pieces(tmp_path / "model")
        source, target = pieces.tokenizers.source, pieces.tokenizers.target
        for side, lines, how in ((source, ENGLISH, "text"), (target, GERMAN, "text_target")):
            wanted = theirs(**{how: lines})["input_ids"]
            found = [[pieces.rows[i] for i in ids] for ids in side.encode(lines)]
            assert found == [ids[:-1] for ids in wanted]  # the last is their end
    assert any(UNKNOWN_ID in ids for ids in target.encode(GERMAN))
    known = [line for line in GERMAN if UNKNOWN_ID not in target.encode([line])[0]]
    assert target.decode(target.encode(known)) == known


@pytest.mark.parametrize("make", [marian_directory, pegasus_directory])
def test_the_bundle_translates_as_the_model_generates(tmp_path, make):
    theirs = make(tmp_path / "model")
    with torch.no_grad():  # so that translations end, sooner or later
        theirs.final_logits_bias[0, theirs.config.eos_token_id] += 4
    pieces, found = read_pieces(tmp_path / "model"), {}
    for penalty in (0.0, 2.0):
        search = {"num_beams": 3, "length_penalty": penalty, "early_stopping": True}
        theirs.generation_config.update(**search)
        theirs.save_pretrained(tmp_path / "model")
        bundle_path = tmp_path / f"bundle {penalty}"
        import_model(tmp_path / "model", bundle_path, ("en", "de"))
        bundle = open_bundle(bundle_path)
        assert bundle.tokenizers.fingerprint == pieces.tokenizers.fingerprint
        decoding = bundle.description.decoding
        assert (decoding.beam, decoding.length_penalty) == (3, penalty)
        decoding = msgspec.structs.replace(decoding, max_ratio=0.01, max_extra=12)
        found[penalty] = bundle.translator(decoding=decoding).translate(ENGLISH)
        generated = [generate(theirs, bundle, pieces.rows, line) for line in ENGLISH]
        assert bundle.tokenizers.target.decode(generated) == found[penalty]
    assert found[0.0] != found[2.0]


def generate(theirs, bundle, rows, line):
    """Return our ids of what transformers generates, of at most 12 pieces."""
    [ids] = bundle.tokenizers.source.encode([line])
    given = torch.tensor([[rows[i] for i in [*ids, END_ID]]])
    never = [rows[BEGIN_ID], theirs.config.pad_token_id]
    found = theirs.generate(given, max_new_tokens=13, suppress_tokens=never)[0]
    ours = [rows.index(int(row)) for row in found[1:] if int(row) not in never]
    return ours[: ours.index(END_ID)] if END_ID in ours else ours


def test_a_search_that_ours_cannot_follow_is_refused(tmp_path):
    marian_directory(tmp_path / "model")
    (tmp_path / "model" / "generation_config.json").write_text('{"length_penalty": -1.0}')
    with pytest.raises(DataError, match="none that ours can follow") as caught:
        import_model(tmp_path / "model", tmp_path / "bundle")
    assert "generation_config.json" in caught.value.where
    assert not (tmp_path / "bundle").exists()


def test_a_model_with_a_bias_can_be_trained(tmp_path):
    marian_directory(tmp_path / "model")
    model = read_model(tmp_path / "model", read_pieces(tmp_path / "model")).train()
    source = torch.tensor([[5, 6, END_ID]])
    loss_sums(model, source, source, source, 0.1).backward()
    assert model.output_bias.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"activation_function": "tanh"}, "activation 'tanh'"),
        ({"tie_word_embeddings": False}, "output layer"),
    ],
)
def test_what_ours_cannot_do_is_refused(tmp_path, changes, words):
    marian_directory(tmp_path / "model", **changes)
    with pytest.raises(DataError, match=words):
        import_model(tmp_path / "model", tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_pickles_other_models_and_damage_are_refused(tmp_path):
    path = tmp_path / "model"
    marian_directory(path)
    with pytest.raises(ConfigError, match="which languages"):
        (path / "tokenizer_config.json").unlink()
        import_model(path, tmp_path / "bundle")
    (path / "model.safetensors").rename(path / "pytorch_model.bin")
    with pytest.raises(DataError, match="pickled") as caught:
        import_model(path, tmp_path / "bundle", ("en", "de"))
    assert "save_pretrained" in caught.value.fix
    (path / "model.safetensors").write_bytes(b"garbage")
    with pytest.raises(DataError, match="damaged"):
        import_model(path, tmp_path / "bundle", ("en", "de"))
    (path / "source.spm").write_bytes(b"garbage")
    with pytest.raises(DataError, match=r"source\.spm"):
        import_model(path, tmp_path / "bundle", ("en", "de"))
    (path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(DataError, match="bert"):
        import_model(path, tmp_path / "bundle", ("en", "de"))
    assert not (tmp_path / "bundle").exists()
