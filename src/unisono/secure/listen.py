"""Listen at an address of this machine, for servers that people reach by a browser."""

import socket
from ipaddress import ip_address

from unisono.errors import ConfigError


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address of this machine; raise an error if it is taken."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind)
    except OSError as error:
        raise ConfigError(
            f"{host} is no address of this machine: {error}",
            where="--host",
            fix="name one, such as 127.0.0.1",
        ) from error
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
        bound.listen()  # now, because only this notices another server
    except OSError as error:
        bound.close()
        raise ConfigError(
            f"{host}:{port} cannot be used: {error.strerror}",
            where="--port",
            fix="stop what listens there, or choose another --port; 0 takes any free one",
        ) from error
    return bound


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach the address."""
    return ip_address(address).is_loopback
