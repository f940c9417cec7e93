"""Send bytes from one machine to another, and say how fast they came: run with a role.

receive PORT   ·   send HOST PORT BYTES
"""

import socket
import sys
import time


def receive(port):
    with socket.create_server(("", port)) as server:
        print("listening", flush=True)
        connection, _ = server.accept()
        with connection:
            count = len(connection.recv(1))
            began = time.monotonic()
            while chunk := connection.recv(1 << 16):
                count += len(chunk)
        print(count * 8 / (time.monotonic() - began) / 1e6)


def send(host, port, count):
    with socket.create_connection((host, port), timeout=20) as connection:
        connection.sendall(bytes(count))


if __name__ == "__main__":
    role, *rest = sys.argv[1:]
    if role == "receive":
        receive(int(rest[0]))
    else:
        send(rest[0], *map(int, rest[1:]))
