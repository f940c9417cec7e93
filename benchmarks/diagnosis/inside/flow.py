"""A copy between two machines that has nothing to do with the training.

    flow.py receive PORT
    flow.py send HOST PORT BYTES_PER_SECOND FILE

The sender keeps to its rate on average, and writes into FILE how much it has sent, and when.
"""

import socket
import sys
import time
from pathlib import Path

PIECE = bytes(64 * 1024)
PORTION_SECONDS = 0.02


def receive(port: int) -> None:
    """Take in whatever comes."""
    with socket.create_server(("", port)) as server:
        connection, _ = server.accept()
        with connection:
            while connection.recv(1 << 20):
                pass


def send(host: str, port: int, bytes_per_second: float, file: Path) -> None:
    """Send at a rate until somebody ends it."""
    with _connected(host, port) as connection, file.open("w") as journal:
        began, sent = time.time(), 0
        while True:
            while sent < bytes_per_second * (time.time() - began):
                connection.sendall(PIECE)
                sent += len(PIECE)
            journal.write(f"{time.time()} {sent}\n")
            journal.flush()
            time.sleep(PORTION_SECONDS)


def _connected(host: str, port: int) -> socket.socket:
    for _ in range(100):
        try:
            return socket.create_connection((host, port))
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise SystemExit("nobody listens")


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(int(sys.argv[2]))
    else:
        send(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), Path(sys.argv[5]))
