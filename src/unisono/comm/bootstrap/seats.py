"""The devices of all processes, compared before they are connected. No torch here."""

from collections.abc import Mapping

import msgspec


class DeviceSeat(msgspec.Struct, frozen=True):
    """The device of one process, and the versions that have to go together."""

    kind: str = "cpu"
    name: str = ""
    capability: tuple[int, int] = (0, 0)
    uuid: str = ""
    nccl: str = ""
    driver: str = ""

    def __str__(self) -> str:
        return f"a GPU ({self.name})" if self.kind == "cuda" else "the CPU"


class Seat(msgspec.Struct, frozen=True):
    """A process: its machine and its device."""

    host: str
    device: DeviceSeat


def refusal_of(seats: Mapping[int, Seat]) -> tuple[str, str]:
    """Return why these devices cannot train together, and what to do; or two empty strings."""
    first, owner = seats[0], dict[tuple[str, str], int]()
    for rank, seat in seats.items():
        if seat.device.kind != first.device.kind:
            return (
                f"process 0 on {first.host} computes on {first.device}, but process {rank} on "
                f"{seat.host} on {seat.device}",
                "train on GPUs everywhere (`unisono selftest` says what is wrong with one), or "
                'set `device = "cpu"`',
            )
        if seat.device.nccl != first.device.nccl:
            return (
                f"process {rank} on {seat.host} has NCCL {seat.device.nccl}, process 0 on "
                f"{first.host} has {first.device.nccl}",
                "install the same torch, from the same index, on all machines",
            )
        key = seat.host, seat.device.uuid
        if seat.device.uuid and key in owner:
            return (
                f"processes {owner[key]} and {rank} on {seat.host} have the same GPU "
                f"({seat.device.name})",
                "start as many processes on a machine as it has GPUs: `--workers`; under "
                "Slurm, give each task a GPU of its own: `--gpus-per-task=1`",
            )
        owner[key] = rank
    return "", ""


def warnings_about(seats: Mapping[int, Seat]) -> tuple[str, ...]:
    """Return differences between the devices of machines that do not prevent training."""
    first, found = seats[0], dict[str, None]()
    for seat in seats.values():
        ours, theirs = first.device, seat.device
        if (theirs.name, theirs.capability) != (ours.name, ours.capability):
            found[
                f"{seat.host} has a {theirs.name}, {first.host} a {ours.name}: every update "
                "takes as long as on the slower one"
            ] = None
        if theirs.driver != ours.driver:
            found[
                f"{seat.host} has driver {theirs.driver}, {first.host} {ours.driver}: install "
                "the same one if NCCL fails or is slow"
            ] = None
    return tuple(found)
