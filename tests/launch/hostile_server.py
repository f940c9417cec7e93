"""A record server as somebody would write it who wants to harm the machine that fetches."""

import json
import os
import sys
import time

HOW, IDENTITY = sys.argv[1], "bad0" * 8
CHUNK = b"x" * 1023 + b"\n"
MOST_BYTES = 60_000_000  # if nobody stops it


def say(kind, payload=b"", **fields):
    line = json.dumps({"type": kind, **fields}).encode() + b"\n"
    sys.stdout.buffer.write(line + payload)
    sys.stdout.buffer.flush()


def listing():
    entries = {
        "grows": [["events/rank-0007.jsonl", 2**50, 1]],
        "numbers": [["events/rank-0007.jsonl", 2**64, 1]],
        "start": [["events/rank-0007.jsonl", 2**50, 1]],
        "outside": [["../../outside.jsonl", 10, 1], ["events/../../x.jsonl", 10, 1]],
        "node": [["stream/node-0000.json", 10, 1], ["stream/node-0000.log", 10, 1]],
    }
    checkpoints = ["step-0000001"] if HOW in ("manifest", "checkpoint") else []
    say("RecordList", entries=entries.get(HOW, []), checkpoints=checkpoints)


def contents(request):
    if HOW == "start":
        return say("RecordBytes", CHUNK, start=2**63, length=len(CHUNK))
    offset = request.get("offset", 0)
    if HOW == "checkpoint" and request["file"] == "manifest.json":
        known = {"model.safetensors": {"bytes": 1000, "sha256": "0" * 64}}
        data = json.dumps({"files": known}).encode()[offset:]
    else:
        data = CHUNK * 1000 if offset < MOST_BYTES else b""
    return say("RecordBytes", data, start=offset, length=len(data))


def say_nothing():
    if HOW == "deaf":
        os.close(1)
        time.sleep(10_000)
    while HOW in ("errors", "slow"):
        os.write(*((2, CHUNK * 64) if HOW == "errors" else (1, b" ")))
        time.sleep(0.01)


def main():
    greeting = json.loads(sys.stdin.readline())
    say_nothing()
    leads = "../" * 20 if HOW == "identity" else IDENTITY
    while HOW == "replays":  # what a record server said over another connection
        say("Greeted", token="0" * 32, identity=IDENTITY)
    say("Greeted", token=greeting["token"], identity=leads)
    for line in sys.stdin:
        request = json.loads(line)
        if request["type"] == "ListRecords":
            listing()
        elif request["type"].startswith("Read"):
            contents(request)
        else:
            say("YesOrNo", yes=True)


main()
