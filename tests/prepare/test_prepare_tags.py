"""Sources that carry a tag: from text to ids, to a corpus that grows, to a run."""

import msgspec
import pytest
from preparing import corpus_settings, pair, prepare, sentences, small_data

from support.tiny import tiny_settings
from unisono.cli.pages.corpus import corpus_page
from unisono.config.settings import Data
from unisono.corpus import open_corpus
from unisono.errors import ConfigError, DataError
from unisono.prepare import prepare_corpus
from unisono.text.normalise import encode_source
from unisono.text.sentence_pieces import learn_pieces
from unisono.train.run_lock import check_corpus_matches


def with_back_translation(directory, tag="<BT>", **more):
    data = small_data(directory)
    back = pair(directory, "back", sentences(90, 11), sentences(90, 12), tag=tag, **more)
    return msgspec.structs.replace(data, train=[*data.train, back])


def blocks(corpus, pairs_of="train"):
    """Return the ids of the source and the target sentences of each block."""
    split, start = corpus.split(pairs_of), 0
    for block in split.blocks:
        yield split.pairs(range(start, start + block.pairs))
        start += block.pairs


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("pieces", ["bpe", "unigram"])
def test_every_line_of_a_tagged_source_begins_with_the_tag(tmp_path, joint, pieces):
    data = with_back_translation(tmp_path / "text")
    prepare(data, tmp_path / "corpus", joint=joint, pieces=pieces, vocabulary=60)
    corpus = open_corpus(tmp_path / "corpus", verify=True)
    both = corpus.tokenizers()
    assert corpus.manifest.tags == ["<BT>"]
    assert [block.tag for block in corpus.split("train").blocks] == ["", "<BT>"]
    assert [entry.tag for entry in corpus.manifest.inputs] == ["", "", "", "<BT>"]
    tag = both.source.tags["<BT>"]
    (plain, plain_target), (tagged, tagged_target) = blocks(corpus)
    assert {int(row[0]) for row in tagged} == {tag}
    assert not any(tag in row for row in plain)
    if joint:
        assert not any(tag in row for row in (*plain_target, *tagged_target))
    else:
        assert not both.target.tags
    lines = sentences(90, 11)
    assert both.source.decode(tagged) == lines
    assert [row.tolist() for row in tagged] == encode_source(both.source, lines, "<BT>")


def test_a_tag_counts_as_a_piece(tmp_path):
    data = with_back_translation(tmp_path / "text")
    prepare(data, tmp_path / "corpus")
    longest = max(len(row) for row in list(blocks(open_corpus(tmp_path / "corpus")))[1][0])
    prepare(data, tmp_path / "shorter", max_pieces=longest - 1)
    shorter = list(blocks(open_corpus(tmp_path / "shorter")))[1][0]
    assert max(map(len, shorter)) < longest
    assert open_corpus(tmp_path / "shorter").manifest.dropped["too long"].count


def test_the_same_pair_with_another_tag_is_no_duplicate(tmp_path):
    text = tmp_path / "text"
    data = small_data(text)
    [train] = data.train
    sources = [
        train,
        msgspec.structs.replace(train, tag="<2de>"),
        msgspec.structs.replace(train, tag="<2nl>"),
        msgspec.structs.replace(train, tag="<2de>"),
    ]
    prepare(msgspec.structs.replace(data, train=sources), tmp_path / "corpus")
    manifest = open_corpus(tmp_path / "corpus").manifest
    sizes = [block.pairs for block in manifest.splits["train"].blocks]
    assert sizes[0] == sizes[1] == sizes[2] > 0
    assert sizes[3] == 0


def test_tags_in_the_text_are_read_as_in_translation(tmp_path):
    text = tmp_path / "text"
    source, target = sentences(60, 1), sentences(60, 2)
    written = [f"<2de> {line}" for line in source[:30]] + [
        f"{line} <2de> 2<d>e tree" for line in source[30:]
    ]
    data = msgspec.structs.replace(
        small_data(text), train=[pair(text, "mixed", written, target)]
    )
    data = msgspec.structs.replace(
        data, valid=pair(text, "tagged", [f"<2de> {s}" for s in source], target[::-1])
    )
    prepare(data, tmp_path / "corpus", tags=("<2de>",), drop_overlap=False)
    corpus = open_corpus(tmp_path / "corpus")
    pieces = corpus.tokenizers().source
    rows = [row.tolist() for row in next(blocks(corpus))[0]]
    assert rows == encode_source(pieces, written)
    tag = pieces.tags["<2de>"]
    assert [row.count(tag) for row in rows] == [1] * 30 + [0] * 30
    held_out = next(blocks(corpus, "valid"))[0]
    assert {int(row[0]) for row in held_out} == {tag}
    assert corpus.split("valid").source_text()[0] == f"<2de> {source[0]}"


def test_a_target_line_has_no_tag_even_if_it_looks_like_it(tmp_path):
    text = tmp_path / "text"
    target = [f"<BT> {line} <BT> B<T>" for line in sentences(60, 2)]
    data = msgspec.structs.replace(
        small_data(text), train=[pair(text, "odd", sentences(60, 1), target, tag="<BT>")]
    )
    prepare(data, tmp_path / "corpus")
    corpus = open_corpus(tmp_path / "corpus")
    pieces = corpus.tokenizers().target
    rows = next(blocks(corpus))[1]
    assert not any(pieces.tags["<BT>"] in row for row in rows)
    assert pieces.decode(rows) == target


def test_held_out_sets_can_be_tagged_and_keep_their_text(tmp_path):
    text = tmp_path / "text"
    data = small_data(text)
    data = msgspec.structs.replace(data, valid=msgspec.structs.replace(data.valid, tag="<2de>"))
    prepare(data, tmp_path / "corpus")
    corpus = open_corpus(tmp_path / "corpus")
    tag = corpus.tokenizers().source.tags["<2de>"]
    assert {int(row[0]) for row in next(blocks(corpus, "valid"))[0]} == {tag}
    assert corpus.split("valid").source_text() == sentences(10, 3)
    assert not any(tag in row for row in next(blocks(corpus, "test"))[0])


@pytest.mark.parametrize(("in_train", "in_valid"), [("<2de> ", ""), ("", "<2de> ")])
def test_a_held_out_sentence_is_recognised_behind_any_tag(tmp_path, in_train, in_valid):
    text = tmp_path / "text"
    data = small_data(text)
    source, target = ["short one"], ["kurz"]  # too short to tell without its translation
    valid = pair(text, "v", [in_valid + s for s in source], target)
    lines = [*sentences(50, 21), *(in_train + s for s in source)]
    train = pair(text, "t", lines, [*sentences(50, 22), *target])
    data = msgspec.structs.replace(data, train=[train], valid=valid)
    prepare(data, tmp_path / "corpus", tags=("<2de>",), vocabulary=60)
    dropped = open_corpus(tmp_path / "corpus").manifest.dropped
    assert dropped["overlap with valid/test"].count == 1


def test_the_page_of_a_corpus_shows_tags_and_shares(tmp_path):
    data = with_back_translation(tmp_path / "text", weight=2.0)
    prepare(data, tmp_path / "corpus")
    corpus = open_corpus(tmp_path / "corpus")
    page = "\n".join(corpus_page(corpus))
    sizes = [block.pairs for block in corpus.split("train").blocks]
    share = 2 * sizes[1] / (sizes[0] + 2 * sizes[1])
    assert f"{share:.1%} of an epoch, each pair 2 times per epoch, tagged <BT>" in page
    assert "tags: <BT>" in page


# A corpus that is there


def test_a_tagged_source_is_added_if_its_tag_was_foreseen(tmp_path):
    data = with_back_translation(tmp_path / "text")
    first = msgspec.structs.replace(data, train=data.train[:1])
    prepare(first, tmp_path / "corpus", tags=("<BT>",))
    assert prepare(data, tmp_path / "corpus", tags=("<BT>",))[-1].stage == "added"
    grown = open_corpus(tmp_path / "corpus", verify=True)
    (_, _), (tagged, _) = blocks(grown)
    assert {int(row[0]) for row in tagged} == {grown.tokenizers().source.tags["<BT>"]}
    assert [block.tag for block in grown.split("train").blocks] == ["", "<BT>"]
    assert prepare(data, tmp_path / "corpus", tags=("<BT>",))[-1].stage == "up to date"


def test_a_tag_that_the_vocabulary_lacks_is_refused(tmp_path):
    data = with_back_translation(tmp_path / "text")
    prepare(msgspec.structs.replace(data, train=data.train[:1]), tmp_path / "corpus")
    before = open_corpus(tmp_path / "corpus").fingerprint
    with pytest.raises(ConfigError, match="has no tag <BT>") as caught:
        prepare(data, tmp_path / "corpus")
    assert caught.value.where == "[[data.train]] number 2"
    assert 'corpus.tags = ["<BT>"]' in caught.value.fix
    assert open_corpus(tmp_path / "corpus", verify=True).fingerprint == before


@pytest.mark.parametrize(("then", "now"), [("", "<BT>"), ("<BT>", ""), ("<BT>", "<2de>")])
def test_another_tag_on_the_same_source_is_refused(tmp_path, then, now):
    tags = ("<BT>", "<2de>")
    prepare(with_back_translation(tmp_path / "text", then), tmp_path / "corpus", tags=tags)
    with pytest.raises(ConfigError, match=f"the tag of .* was '{then}', now '{now}'"):
        prepare(with_back_translation(tmp_path / "text", now), tmp_path / "corpus", tags=tags)


def test_a_run_refuses_a_corpus_with_other_tags(tmp_path):
    prepare(with_back_translation(tmp_path / "text"), tmp_path / "corpus")
    corpus = open_corpus(tmp_path / "corpus")
    settings = tiny_settings(tmp_path)
    for tag, fits in (("<BT>", True), ("", False)):
        told = msgspec.structs.replace(
            settings,
            data=with_back_translation(tmp_path / "text", tag),
            corpus=corpus_settings(tmp_path / "corpus"),
        )
        if fits:
            check_corpus_matches(told, corpus)
            continue
        with pytest.raises(ConfigError, match="<BT>"):
            check_corpus_matches(told, corpus)


def test_models_made_elsewhere_must_have_the_tag(tmp_path):
    data = with_back_translation(tmp_path / "text")
    lines = [*sentences(90, 1), *sentences(90, 2)]
    for tags in ([], ["<BT>"]):
        model = learn_pieces(lines, size=60, character_coverage=1.0, tags=tags).model
        (tmp_path / "my.model").write_bytes(model)
        given = corpus_settings(tmp_path / "corpus", pieces_model=str(tmp_path / "my.model"))
        if tags:
            list(prepare_corpus(data, given))
            continue
        with pytest.raises(DataError, match=r"no symbol <BT>") as caught:
            list(prepare_corpus(data, given))
        assert caught.value.where.endswith("my.model")
        assert not (tmp_path / "corpus").exists()
    assert open_corpus(tmp_path / "corpus").tokenizers().source.tags


BAD = [
    ({"tag": "BT"}, {}, "mistaken for a word"),
    ({"tag": "<B T>"}, {}, "space"),
    ({"tag": "<BT>"}, {"lowercase": True}, "normalising the text turns it into <bt>"),
    ({"tag": "<“x”>"}, {"plain_quotes": True}, "normalising the text turns it into"),
    ({}, {"tags": ["<unk>"]}, "SentencePiece"),
]


@pytest.mark.parametrize(("source", "corpus", "says"), BAD)
def test_what_cannot_be_a_tag_is_refused_at_once(tmp_path, source, corpus, says):
    train = [{"source": "a", "target": "b"}, {"source": "c", "target": "d", **source}]
    with pytest.raises(ConfigError, match=says) as caught:
        tiny_settings(tmp_path, data={"train": train}, corpus=corpus)
    place = "[data.train] number 2" if source else "[corpus] tags"
    assert caught.value.where == f"test {place}"


def test_a_tag_in_lower_case_goes_with_text_in_lower_case(tmp_path):
    data = Data(train=with_back_translation(tmp_path / "text", "<bt>").train)
    assert data.train[1].tag == "<bt>"
    settings = tiny_settings(tmp_path, corpus={"lowercase": True, "tags": ["<bt>"]})
    assert settings.corpus.tags == ("<bt>",)
