"""Which network is used, as this machine's own kernel sees it."""

import socket

import pytest

from unisono.comm.bootstrap.network import (
    LOOPBACK_NETWORK,
    Network,
    backend_variables,
    interfaces,
    is_loopback,
    is_written_as_loopback,
    network_by_name,
    network_of,
    own_addresses,
    requested_network,
    resolve,
    source_address,
)
from unisono.errors import ConfigError


def test_every_machine_has_loopback_and_it_is_no_address_for_others():
    assert "127.0.0.1" in interfaces()["lo"]
    assert not any(is_loopback(address) for address in own_addresses())
    assert network_of("127.0.1.1") == LOOPBACK_NETWORK


def test_the_way_to_oneself_starts_at_the_address_that_others_use():
    for address in ["127.0.0.1", *own_addresses()]:
        assert source_address(address) == address
        assert address in interfaces()[network_of(address).interface]


def test_names_that_nobody_knows_have_no_address():
    assert resolve("no-such-host.invalid") == []
    assert resolve("localhost")[0] == "127.0.0.1"


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_loopback_that_is_written_is_meant(name):
    assert is_written_as_loopback(name)
    assert network_by_name(name) == LOOPBACK_NETWORK
    assert not is_written_as_loopback(socket.gethostname())


def test_a_variable_counts_for_more_than_the_setting_and_both_for_more_than_the_route():
    lo = Network("lo", "127.0.0.1")
    assert requested_network("", {}) is None
    assert requested_network("lo", {}) == lo
    assert requested_network("no-such", {"GLOO_SOCKET_IFNAME": "lo"}) == lo
    assert requested_network("", {"NCCL_SOCKET_IFNAME": "lo"}) == lo


def test_patterns_of_nccl_are_left_to_it():
    assert requested_network("", {"NCCL_SOCKET_IFNAME": "^docker"}) is None
    assert requested_network("", {"NCCL_SOCKET_IFNAME": "l"}) is None  # a prefix, to NCCL
    assert requested_network("lo", {"NCCL_SOCKET_IFNAME": "=lo"}) == LOOPBACK_NETWORK


@pytest.mark.parametrize(
    ("setting", "variables", "where"),
    [
        ("eth77", {}, "sync.interface"),
        ("", {"GLOO_SOCKET_IFNAME": "eth77"}, "GLOO_SOCKET_IFNAME"),
        ("", {"GLOO_SOCKET_IFNAME": "lo,eth77"}, "GLOO_SOCKET_IFNAME"),
        ("", {"NCCL_SOCKET_IFNAME": "eth77"}, "NCCL_SOCKET_IFNAME"),
    ],
)
def test_an_interface_that_is_none_is_an_error_with_those_that_are(setting, variables, where):
    with pytest.raises(ConfigError) as error:
        requested_network(setting, variables)
    assert error.value.where == where
    assert "eth77" in error.value.what
    assert "lo (127.0.0.1)" in error.value.fix


def test_backends_are_told_unless_somebody_has_told_them():
    network = Network("eth0", "10.0.0.1")
    both = {"GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "=eth0"}
    assert backend_variables(network, {}) == both
    told = {"NCCL_SOCKET_IFNAME": "ib0"}
    assert backend_variables(network, told) == {"GLOO_SOCKET_IFNAME": "eth0"}
