"""The samples that are damaged: one of each format, as small as they come."""

import gzip
import json
import shutil
from collections.abc import Callable
from contextlib import chdir
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from datasets.archives import tar, zipped
from fuzz.readers import (
    AVERAGE,
    COMPARE,
    GET,
    GOLDEN,
    IMPORT_CONFIG,
    IMPORT_EVENTS,
    IMPORT_LOG,
    LIST_ENTRY,
    PREPARE,
    PREPARE_TEXT,
    REPORT,
    REPORT_JSON,
    REPORT_MD,
    ROOT,
    SCORE,
    SHOW,
    SHOW_CHECKPOINT,
    SHOW_JSON,
    TRAIN,
    TRAIN_ON,
    TRANSLATE,
    WATCH,
    Reader,
)
from fuzz.readers import run as execute
from support.tiny import tiny_corpus, tiny_settings, write_text
from unisono.config.load import to_toml

ENTRIES = ROOT.parent / "src" / "unisono" / "datasets" / "entries"
CONFIG = """
import tensorflow as tf
base_params = {"use_horovod": True, "num_gpus": 1, "batch_size_per_gpu": 256,
               "max_steps": 1000, "lr_policy_params": {"learning_rate": 2.0}}
train_params = {"data_layer_params": {"source_file": "a", "target_file": "b"}}
"""


def run(target: Path) -> Reader:
    """A run of ours, with what a sampler wrote."""
    shutil.copytree(GOLDEN / "run-1", target)
    shutil.rmtree(target / "checkpoints" / "step-0000120")
    (target / "monitor").mkdir()
    shutil.copy(GOLDEN / "monitor-1.jsonl", target / "monitor" / "rank-0000.jsonl")
    journal = target / "events" / "rank-0000.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:6] + lines[-12:]))
    status = {"state": "finished", "step": 120, "time": 1.0, "message": "", "format": 1}
    (target / "status.json").write_text(json.dumps(status))
    return Reader(target, (REPORT, REPORT_MD, REPORT_JSON, SHOW, WATCH, COMPARE))


def imported(target: Path) -> Reader:
    """A run of another trainer."""
    shutil.copytree(GOLDEN / "imported-1", target)
    for journal in target.glob("events/*.jsonl"):
        lines = journal.read_text().splitlines(keepends=True)
        journal.write_text("".join(lines[:12] + lines[-4:]))
    return Reader(target, (REPORT, SHOW_JSON))


def checkpoint(target: Path) -> Reader:
    """A checkpoint: damage is found by its checksums."""
    shutil.copytree(GOLDEN / "checkpoints-2" / "step-0000002", target / "step-0000002")
    return Reader(target, (SHOW_CHECKPOINT,), checked_by="manifest.json")


def checkpoint_rehashed(target: Path) -> Reader:
    """A checkpoint whose checksums were made to match the damage."""
    shutil.copytree(GOLDEN / "checkpoints-2" / "step-0000002", target / "step-0000002")
    return Reader(target, (SHOW_CHECKPOINT,), rehash="manifest.json")


def bundle(target: Path) -> Reader:
    """A bundle: damage is found by its checksums."""
    shutil.copytree(GOLDEN / "bundle-1", target)
    return Reader(target, (SHOW, TRANSLATE), given="one two\n", checked_by="manifest.json")


def bundle_rehashed(target: Path) -> Reader:
    """A bundle whose checksums were made to match the damage."""
    shutil.copytree(GOLDEN / "bundle-1", target)
    return Reader(target, (SHOW, TRANSLATE), given="one two\n", rehash="manifest.json")


def corpus(target: Path) -> Reader:
    """A prepared corpus."""
    shutil.copytree(ROOT / "corpus" / "golden" / "format-1", target)
    return Reader(target, (SHOW, SHOW_JSON), checked_by="manifest.json")


def entry(target: Path) -> Reader:
    """An entry of the catalogue of corpora."""
    target.mkdir()
    shutil.copy(ENTRIES / "multi30k-en-de.toml", target / "entry.toml")
    return Reader(target, (LIST_ENTRY,))


def foreign_config(target: Path) -> Reader:
    """Settings of OpenSeq2Seq: Python that is read and never run."""
    target.mkdir()
    (target / "config.py").write_text(CONFIG)
    return Reader(target, (IMPORT_CONFIG,))


def foreign_log(target: Path) -> Reader:
    """A log of OpenSeq2Seq."""
    from importers.made_logs import log

    target.mkdir()
    (target / "log.txt").write_text(log())
    return Reader(target, (IMPORT_LOG,))


def settings(target: Path) -> Reader:
    """Settings that a person wrote."""
    target.mkdir()
    shutil.copy(ROOT.parent / "configs" / "tiny.toml", target / "config.toml")
    return Reader(target, (TRAIN, PREPARE))


def texts(target: Path) -> Reader:
    """A translation and its reference."""
    target.mkdir()
    (target / "output.de").write_text("eins zwei drei vier\nfünf\n", "utf-8")
    (target / "test.de").write_text("eins zwei drei vier\nsechs\n", "utf-8")
    return Reader(target, (SCORE,))


def archives(target: Path) -> Reader:
    """Files of a corpus that somebody has downloaded: damage is found by the entry's sums."""
    (target / "given").mkdir(parents=True)
    files = {"train.tar": tar(("a.en", b"one\ntwo\n"), ("a.de", b"eins\nzwei\n"))}
    files |= {f"valid.{lang}.gz": gzip.compress(b"three\n", mtime=0) for lang in ("en", "de")}
    files["test.zip"] = zipped(("t.en", b"four\n"), ("t.de", b"vier\n"))
    entry = 'name = "mine"\ndescription = "d"\nlanguages = ["en", "de"]\n'
    for name, data in files.items():
        (target / "given" / name).write_bytes(data)
        entry += f'[[file]]\nname = "{name}"\nurls = ["https://localhost/{name}"]\n'
        entry += f'sha256 = "{sha256(data).hexdigest()}"\n'
    for role, file, member in (
        *(("train", "train.tar", "a.{}"), ("valid", "valid.{}.gz", "")),
        ("test", "test.zip", "t.{}"),
    ):
        entry += f'[[set]]\nname = "{role}"\nrole = "{role}"\n'
        for lang in ("en", "de"):
            members = f'members = ["{member.format(lang)}"]\n' if member else ""
            entry += f'[set.sides.{lang}]\nfile = "{file.format(lang)}"\n{members}'
    (target / "entry.toml").write_text(entry)
    return Reader(target, (GET,), checked_by="entry.toml", cost=4)


def archives_unchecked(target: Path) -> Reader:
    """The same without sums: unpacking has to hold by itself."""
    reader = archives(target)
    lines = (target / "entry.toml").read_text().splitlines()
    kept = [line for line in lines if not line.startswith("sha256")]
    (target / "entry.toml").write_text("\n".join(kept))
    return replace(reader, checked_by="")


def events(target: Path) -> Reader:
    """Event files of TensorBoard."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(target / "events"))
    for step in range(1, 9):
        values = [Summary.Value(tag="train/loss", simple_value=9.0 - step)]
        writer.add_event(Event(wall_time=step, step=step, summary=Summary(value=values)))
    writer.close()
    return Reader(target, (IMPORT_EVENTS,))


def lines(target: Path) -> Reader:
    """Lines to translate."""
    target.mkdir()
    (target / "input.en").write_text("one two\nthree\n")
    model = TRANSLATE(GOLDEN / "bundle-1")
    return Reader(target, (lambda _: model,), given="@input.en", cost=16)


def page(target: Path) -> Reader:
    """A page whose text is translated."""
    target.mkdir()
    html = "<!DOCTYPE html><p>one <b>two</b> &amp; <i class=x>three</i><pre>four\n</pre>\n"
    (target / "page.html").write_text(html)
    model = TRANSLATE(GOLDEN / "bundle-1")
    words = [*model, "--html"]
    return Reader(target, (lambda _: words,), given="@page.html", cost=16, at_terminal=True)


def raw_text(target: Path) -> Reader:
    """Text that becomes a corpus."""
    write_text(target / "text", "train", 40, seed=1)
    write_text(target / "text", "valid", 4, seed=2)
    (target / "text" / "train.de").rename(target / "text" / "plain.de")
    (target / "text" / "train.de.gz").write_bytes(
        gzip.compress((target / "text" / "plain.de").read_bytes(), mtime=0)
    )
    text = to_toml(tiny_settings(Path()))
    start, end = text.index("[data.test]"), text.index("[corpus]")
    text = (text[:start] + text[end:]).replace("text/train.de", "text/train.de.gz")
    (target / "config.toml").write_text(text)
    (target / "text" / "plain.de").unlink()
    return Reader(target, (PREPARE_TEXT,), damaged="text", cost=2)


def _trained(target: Path) -> None:
    tiny_corpus(target)
    settings = tiny_settings(Path(), train={"max_steps": 3}, checkpoint={"every_steps": 1})
    (target / "config.toml").write_text(to_toml(settings))
    with chdir(target):
        code, said, crashed = execute(["train", "config.toml"])
    assert code == 0, said + crashed


def continued(target: Path) -> Reader:
    """A run that goes on: a damaged checkpoint is passed over for an older one."""
    _trained(target)
    return Reader(target, (TRAIN_ON,), damaged="run", cost=120)


def averaged(target: Path) -> Reader:
    """Checkpoints that become one bundle: damage is found by their checksums."""
    _trained(target)
    shutil.rmtree(target / "run" / "checkpoints" / "step-0000001", ignore_errors=True)
    return Reader(target, (AVERAGE,), damaged="run/checkpoints", cost=8)


def corpus_in_use(target: Path) -> Reader:
    """A corpus on which a run goes on: damage is found by its checksums."""
    _trained(target)
    return Reader(target, (TRAIN_ON,), damaged="corpus", checked_by="manifest.json", cost=40)


READERS: dict[str, Callable[[Path], Reader]] = {
    made.__name__: made
    for made in (
        *(run, imported, checkpoint, checkpoint_rehashed, bundle, bundle_rehashed, corpus),
        *(entry, foreign_config, foreign_log, settings, texts, archives, archives_unchecked),
        *(events, lines, page, raw_text, continued, averaged, corpus_in_use),
    )
}
