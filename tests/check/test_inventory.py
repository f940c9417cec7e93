"""What a process says that it has."""

import psutil

from support.tiny import tiny_settings
from unisono.check.inventory import describe_process, nominal_mbit
from unisono.comm.group import Solo
from unisono.monitor import counters as control_group


def described(corpus_home):
    return describe_process(tiny_settings(corpus_home), Solo(), [], [])


def test_the_memory_of_a_container_is_what_it_is_allowed(corpus_home, tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("1000000000\n")
    for root, memory in ((tmp_path, 10**9), (tmp_path / "no", psutil.virtual_memory().total)):
        monkeypatch.setattr(control_group.ControlGroup.__init__, "__defaults__", (root, root))
        assert described(corpus_home).memory_bytes == memory


def test_what_a_virtual_cable_says_of_its_rate_is_not_believed(tmp_path, monkeypatch):
    link = psutil.net_if_stats()["lo"]._replace(speed=10_000)
    monkeypatch.setattr(psutil, "net_if_stats", lambda: dict.fromkeys(("eth0", "bond0"), link))
    for name, uevent in (("eth0", "INTERFACE=eth0\n"), ("bond0", "DEVTYPE=bond\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "uevent").write_text(uevent)
    assert nominal_mbit("eth0", tmp_path) == 0
    assert nominal_mbit("bond0", tmp_path) == 10_000
    (tmp_path / "eth0" / "device").mkdir()
    assert nominal_mbit("eth0", tmp_path) == 10_000
    assert nominal_mbit("wlan0", tmp_path) == nominal_mbit("", tmp_path) == 0
