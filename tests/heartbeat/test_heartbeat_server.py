"""The server of heartbeats while strangers fill it."""

import socket
import time
from contextlib import ExitStack

from unisono.heartbeat import server as servers
from unisono.heartbeat.messages import GroupMember, Heartbeat, SidecarConfig
from unisono.heartbeat.server import HeartbeatServer
from unisono.secure.server import PLACES_PER_ADDRESS


def test_silence_does_not_count_while_strangers_fill_it(monkeypatch):
    monkeypatch.setattr(servers, "CROWDED_SECONDS", float("inf"))
    listening = socket.create_server(("127.0.0.1", 0))
    address, port = listening.getsockname()
    members = tuple(GroupMember(rank, f"host{rank}", 100 + rank) for rank in (0, 1))
    config = SidecarConfig(
        rank=0,
        members=members,
        address=address,
        port=port,
        token="5e" * 32,
        limit=0.5,
        listen=listening.detach(),
    )
    server = HeartbeatServer(config, lambda _: None)
    with ExitStack() as idle:
        for _ in range(PLACES_PER_ADDRESS + 1):
            idle.enter_context(socket.create_connection((address, port)))
        while server._server.crowded_at < 0:
            time.sleep(0.01)
        for rank in (0, 1):
            server.beat(Heartbeat(rank=rank, condition="alive"))
        for _ in range(30):  # three times as long as a rank may be silent
            assert not server.lost()
            time.sleep(0.05)
        monkeypatch.setattr(servers, "CROWDED_SECONDS", 0.0)
        while not server.lost():
            time.sleep(0.05)
    server._server.close()
