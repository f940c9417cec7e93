"""A site with a corpus of every kind, and how to get it."""

import gzip
from hashlib import sha256

from datasets.archives import tar, zipped
from unisono.datasets.get import get_corpus

EN = "".join(f"sentence {n}\u2028!\n" for n in range(200))
DE = "".join(f"Satz {n}\n" for n in range(200))
TAGS = "<url>u{0}</url>\n<talkid>{0}</talkid>\n<title>title {0}</title>\n"
SEGS = '<doc docid="1"><seg id="1">{0} &amp; 1</seg>\n<seg id="2">{0} 2</seg></doc>'


def side(file, *members, **more):
    return {"file": file, **({"members": list(members)} if members else {}), **more}


def files():
    talk = "".join(TAGS.format(n) + f"line {n}\n" for n in range(4))
    return {
        "train.tgz": gzip.compress(tar(("d/a.en", EN.encode()), ("d/a.de", DE.encode()))),
        "val.en.gz": gzip.compress(b"one\ntwo\r\n"),
        "val.de.gz": gzip.compress(b"eins\nzwei"),
        "test.zip": zipped(
            *((f"t{n}.{lang}.sgm", SEGS.format(lang)) for n in (1, 2) for lang in ("en", "de")),
            *((f"talks.{lang}", talk) for lang in ("en", "de")),
            ("table.tsv", b"x\ty\nz\tw\n"),
        ),
    }


def table(site):
    sets = [
        {"name": "train", "role": "train", "pairs": 200},
        {"name": "valid", "role": "valid"},
        {"name": "test", "role": "test", "format": "sgml", "pairs": 4, "note": "both years"},
        {"name": "talks", "role": "train", "format": "iwslt-tags", "without_every": 4},
        {"name": "held-out", "role": "valid", "format": "iwslt-tags", "only_every": 4},
        {"name": "table", "role": "train", "format": "tsv"},
    ]
    for item in sets:
        item["sides"] = {}
    for column, lang in enumerate(("en", "de"), 1):
        train, valid, test, talks, held_out, columns = (item["sides"] for item in sets)
        train[lang] = side("train.tgz", f"d/a.{lang}")
        valid[lang] = side(f"val.{lang}.gz")
        test[lang] = side("test.zip", f"t2.{lang}.sgm", f"t1.{lang}.sgm")
        talks[lang] = held_out[lang] = side("test.zip", f"talks.{lang}")
        columns[lang] = side("test.zip", "table.tsv", column=column)
    downloads = [
        {"name": name, "urls": [site.url(f"gone/{name}"), site.url(name)]}
        for name in site.files
    ]
    downloads[0]["sha256"] = sha256(site.files["train.tgz"]).hexdigest()
    return {
        "name": "mine",
        "description": "a corpus of my own",
        "languages": ["en", "de"],
        "file": downloads,
        "set": sets,
    }


def get(entry, directory, **options):
    work = get_corpus(entry, directory, **options)
    steps = []
    while True:
        try:
            steps.append(next(work))
        except StopIteration as end:
            return end.value, steps


def content(directory):
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
