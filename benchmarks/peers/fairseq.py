"""fairseq 0.12.2, the last release. `inside/fairseq_shim.py` makes it run on Python 3.11."""

import os
import subprocess
from pathlib import Path

from peers.peer import INSIDE, Start, Translation, hooked
from peers.task import (
    BEAM,
    BETA1,
    BETA2,
    DROPOUT,
    EPSILON,
    LABEL_SMOOTHING,
    LONGEST,
    PEAK_RATE,
    SEED,
    SENTENCES_AT_ONCE,
    Job,
    Texts,
)


class Fairseq:
    """`fairseq-train` on the CPU; its data is made by `fairseq-preprocess`, once."""

    name = "fairseq"
    package = "fairseq"
    # Newer pips refuse the metadata of the omegaconf it asks for; without isolation it is
    # built against the torch that is there, which setuptools 81 and later no longer do.
    steps = (
        ("pip<24.1", "setuptools<81", "wheel"),
        ("torch==2.13.0", "fairseq==0.12.2"),
    )
    note = "pre-norm; one process that loads data"
    ends_itself = False

    def start(self, job: Job, python: Path) -> Start:
        data = _binary(job.texts, python)
        return hooked(python, "fairseq_train.py", _arguments(job, data), job)

    def translate(self, job: Job, python: Path, split: str) -> Translation | None:
        arguments = f"""
            {job.texts.directory / "fairseq"} --path={job.directory}/model/checkpoint_last.pt
            --source-lang=en --target-lang=de --cpu --beam={BEAM} --buffer-size=1000
            --batch-size={SENTENCES_AT_ONCE} --input={job.texts.stem(split)}.en
        """.split()
        script = INSIDE / "fairseq_interactive.py"
        result = job.directory / f"{split}.out"
        return Translation([python, script, *arguments], result, to_stdout=True)


def _binary(texts: Texts, python: Path) -> Path:
    data = texts.directory / "fairseq"
    if (data / "preprocess.log").is_file() and (data / "complete").is_file():
        return data
    data.mkdir(exist_ok=True)
    dictionary = texts.directory / "fairseq-dictionary.txt"
    lines = (f"{piece} 1\n" for piece in texts.plain_pieces())
    dictionary.write_text("".join(lines), encoding="utf-8")
    command = [
        *(python, INSIDE / "fairseq_preprocess.py", "--source-lang=en", "--target-lang=de"),
        *(f"--trainpref={texts.stem('train')}", f"--validpref={texts.stem('valid')}"),
        *(f"--testpref={texts.stem('test')}", f"--destdir={data}", "--joined-dictionary"),
        *(f"--srcdict={dictionary}", "--workers=1"),
    ]
    with (data / "out.txt").open("wb") as out:
        subprocess.run(command, stdout=out, stderr=out, check=True, env=dict(os.environ))
    (data / "complete").touch()
    return data


def _arguments(job: Job, data: Path) -> list[str]:
    model = job.size.model
    sides = [
        f"--{side}-{name}={value}"
        for side, layers in (
            ("encoder", model.encoder_layers),
            ("decoder", model.decoder_layers),
        )
        for name, value in (
            ("layers", layers),
            ("embed-dim", model.width),
            ("ffn-embed-dim", model.inner),
            ("attention-heads", model.heads),
        )
    ]
    every = job.save_every or 1_000_000
    return f"""
        {data} --source-lang=en --target-lang=de --cpu --seed={SEED}
        --arch=transformer --share-all-embeddings {" ".join(sides)}
        --encoder-normalize-before --decoder-normalize-before
        --dropout={DROPOUT} --attention-dropout={DROPOUT} --activation-dropout={DROPOUT}
        --max-source-positions={LONGEST + 2} --max-target-positions={LONGEST + 2}
        --criterion=label_smoothed_cross_entropy --label-smoothing={LABEL_SMOOTHING}
        --optimizer=adam --adam-betas=({BETA1},{BETA2}) --adam-eps={EPSILON} --clip-norm=0
        --lr-scheduler=inverse_sqrt --lr={PEAK_RATE} --warmup-updates={job.warmup}
        --max-tokens={job.tokens} --update-freq=1 --max-update=1000000
        --log-format=json --log-interval=10 --no-epoch-checkpoints
        --save-dir={job.directory / "model"} --save-interval=1000000
        --save-interval-updates={every} --keep-interval-updates=1
        --validate-interval=1000000 --validate-interval-updates={job.validate_every}
        {"" if job.save_every else "--no-save"}
        {"" if job.validate_every else "--disable-validation"}
    """.split()
