"""How fast is `unisono serve` beside `unisono translate`, how soon ready, how large?

    python benchmarks/serving.py --model RUN --text FILE [--rounds 3] [--requests 2000]
        [--precision bf16]

In turns: `translate` over the text without its start-up, then 32 clients that ask a server for
the same lines, one line a request, and again with 20 lines a request. Then one client alone,
for its latencies; then many requests, for the memory. The clients share the cores with the
server. Ratios mean something on a busy machine, clocks do not.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

import psutil
from measure import end_family, machine, median

CLIENTS = 32
LINES_PER_REQUEST = 20


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--precision", default="fp32", help="of the server's products")
    given = parser.parse_args()
    lines = given.text.read_text("utf-8").splitlines()
    print(f"{machine()}; load {os.getloadavg()[0]:.1f}")
    began = time.perf_counter()
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "unisono", "serve", given.model, "--port", "0"),
            f"--precision={given.precision}",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        port = int(re.search(r":(\d+)$", server.stderr.readline().strip())[1])
        print(f"ready after {time.perf_counter() - began:.1f} s")
        _detect(port)  # the detector loads after the start, and would compute meanwhile
        _throughput(given, lines, server.pid, port)
        _latency(lines, port)
        _memory(given.requests, server.pid, port)
    finally:
        end_family(server)
    print(f"load {os.getloadavg()[0]:.1f}")


def _throughput(given: argparse.Namespace, lines: list[str], pid: int, port: int) -> None:
    """Print rates on the clock, and for each second of CPU: others may use the machine."""
    groups = [lines[n : n + LINES_PER_REQUEST] for n in range(0, len(lines), LINES_PER_REQUEST)]
    ways = {"one line": [[line] for line in lines], f"{LINES_PER_REQUEST} lines": groups}
    ratios: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(given.rounds):
        alone = _translate_seconds(given.model, given.text, lines[0])
        print(f"  translate: {len(lines) / alone[0]:.1f} lines/s, {alone[1]:.1f} s of CPU")
        for name, requests in ways.items():
            before = _cpu(pid)
            seconds = _asked(requests, port, CLIENTS)[0]
            own, cpu = (now - then for now, then in zip(_cpu(pid), before, strict=True))
            ratios[name].append((alone[0] / seconds, alone[1] / cpu))
            print(
                f"  {name} a request: {len(lines) / seconds:.1f} lines/s, {cpu:.1f} s of CPU, "
                f"of these {own:.1f} s the server itself"
            )
    for name, found in ratios.items():
        clock, cpu = (median([pair[n] for pair in found]) for n in (0, 1))
        print(
            f"{CLIENTS} clients, {name} a request: {clock:.2f} of translate's rate on the "
            f"clock, {cpu:.2f} for each second of CPU"
        )


def _cpu(pid: int) -> tuple[float, float]:
    """Return the seconds of CPU of a process so far, and those with its children."""
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    used = [sum(one.cpu_times()[:2]) for one in family]
    return used[0], sum(used)


def _detect(port: int) -> None:
    address, body = f"http://127.0.0.1:{port}/detect", urlencode({"q": "a word"}).encode()
    urllib.request.urlopen(address, body, timeout=120).close()


def _translate_seconds(model: str, text: Path, first: str) -> tuple[float, float]:
    """Return what `translate` takes for the text, without its start-up: clock and CPU."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as one:
        one.write(first + "\n")
        one.flush()
        whole, start = _run_translate(model, text), _run_translate(model, Path(one.name))
        return whole[0] - start[0], whole[1] - start[1]


def _run_translate(model: str, text: Path) -> tuple[float, float]:
    command = [sys.executable, "-m", "unisono", "translate", "--device=cpu", "--model", model]
    before = os.times()
    with text.open("rb") as lines:
        subprocess.run(command, stdin=lines, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return after.elapsed - before.elapsed, sum(after[2:4]) - sum(before[2:4])


def _latency(lines: list[str], port: int) -> None:
    times = sorted(_asked([[line] for line in lines[:200]], port, 1)[1])
    shares = {
        name: times[int(share * len(times))] for name, share in (("p50", 0.5), ("p95", 0.95))
    }
    print("a single client: " + ", ".join(f"{n} {1000 * s:.0f} ms" for n, s in shares.items()))


def _memory(requests: int, pid: int, port: int) -> None:
    """Print the memory of the server and its workers, at first and after many requests."""
    done = 0
    for count in (requests // 10, requests - requests // 10):
        _asked([[f"word {n}"] for n in range(count)], port, CLIENTS)
        done += count
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        sizes = ", ".join(f"{one.memory_full_info().uss / 2**20:.1f}" for one in family)
        print(f"after {done:,} more requests: {sizes} MiB of their own (server, workers)")


def _asked(requests: list[list[str]], port: int, clients: int) -> tuple[float, list[float]]:
    """Return the seconds that `clients` take for all requests, and those of each request."""
    return asyncio.run(_ask_all(requests, port, clients))


async def _ask_all(
    requests: list[list[str]], port: int, clients: int
) -> tuple[float, list[float]]:
    waiting, times = iter(requests), []

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for texts in waiting:
            began = time.perf_counter()
            await _ask(reader, writer, texts)
            times.append(time.perf_counter() - began)
        writer.close()
        await writer.wait_closed()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return time.perf_counter() - began, times


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, texts: list[str]
) -> None:
    body = json.dumps({"q": texts, "source": "en", "target": "de"}).encode()
    head = "POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    if not answer.startswith(b"HTTP/1.1 200"):
        raise SystemExit(answer.decode())
    length = int(re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)[1])
    await reader.readexactly(length)


if __name__ == "__main__":
    main()
