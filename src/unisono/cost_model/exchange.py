"""Bytes and links: what an exchange sends through a network card, and how long that takes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

# What TCP carries of a shaped link's nominal rate: 16 MB took 1.37 s at 100 Mbit/s over gloo.
EFFICIENCY = 0.94
BYTES_PER_FLOAT32 = 4
FACTOR_BITS = 16  # one factor in bfloat16 …
QUANTIZED_BLOCK = 64  # … for this many numbers
FEW_MACHINES = 4  # on more, checkpoints hold one sum of all residuals


@dataclass(frozen=True)
class Link:
    """A link between two machines: the bytes a second that arrive, and the latency."""

    bytes_per_second: float
    latency: float = 0.0

    def seconds(self, count: float, messages: int = 1) -> float:
        """Return how long `count` bytes take in so many `messages`, one after the other."""
        if count <= 0:
            return 0.0
        return messages * self.latency + count / self.bytes_per_second


def nominal_link(bits_per_second: float, latency: float = 0.0) -> Link:
    """Return a link of this nominal rate, less what headers and pauses take of it."""
    return Link(bits_per_second / 8 * EFFICIENCY, latency)


def machines_of(hosts: Sequence[str], local_ranks: Sequence[int]) -> list[list[int]]:
    """Return the ranks of each machine, in the order of their first.

    A machine has each local rank once. If a local rank appears again under the same host name,
    there is a second machine of that name.
    """
    seen: Counter[tuple[str, int]] = Counter()
    found: dict[tuple[str, int], list[int]] = {}
    for rank, place in enumerate(zip(hosts, local_ranks, strict=True)):
        found.setdefault((place[0], seen[place]), []).append(rank)
        seen[place] += 1
    return list(found.values())


def ring_bytes(parameters: int, ranks: int, bytes_each: int = BYTES_PER_FLOAT32) -> int:
    """Return the bytes each rank sends, and receives, to sum one gradient over `ranks`.

    The gradient goes round twice in pieces of 1/ranks, once to be summed and once to be
    distributed: 2 (R-1)/R times its size. One rank alone sends nothing. With the processes of a
    machine side by side in the ring, as much passes its network card. Headers of TCP, IP and
    Ethernet add three to four per cent.
    """
    if ranks < 2:
        return 0
    return round(2 * (ranks - 1) / ranks * parameters * bytes_each)


@dataclass(frozen=True)
class Exchange:
    """Bytes through the card of one machine, each way, and how they meet the computing.

    `strategy` is what `sync.strategy` calls it. `every` is the number of updates between two
    exchanges. A `local` one goes on while machines compute the following updates by themselves,
    and is hidden if it ends before the next begins; one that `overlaps` hides behind the
    backward pass of its own update, bucket by bucket. `bits` are those of each number.
    `inside_bytes` are those that each process passes on within its machine, in every update. A
    `low_rank` one sends products of matrices, in sums that follow each other. If it
    `delays_embedding`, the gradient of the embedding is sent first, and what is not ready yet
    goes with the next update. Quantized numbers are summed in so many `phases`.
    """

    name: str
    card_bytes: float
    strategy: str = ""
    every: int = 1
    overlaps: bool = True
    local: bool = False
    exact: bool = True
    bits: int = 32
    inside_bytes: float = 0.0
    low_rank: bool = False
    delays_embedding: bool = False
    phases: int = 1


def quantized_bytes(numbers: int, bits: int) -> float:
    """Return the size of `numbers` in `bits` bits each, with one factor for every block."""
    if bits >= 32:
        return numbers * bits / 8
    blocks = -(-numbers // QUANTIZED_BLOCK)
    return (numbers * bits + blocks * FACTOR_BITS) / 8


def low_rank_numbers(rows: int, columns: int, rank: int, least: int = 2) -> int:
    """Return how many numbers a low-rank exchange sends of a matrix.

    It sends the two factors of `rank` if they have `least` times fewer numbers than the matrix,
    and otherwise the matrix.
    """
    factors = (rows + columns) * min(rows, columns, rank)
    return factors if least * factors < rows * columns else rows * columns


def gathered(payload: float, senders: int) -> float:
    """Return what goes through one card if every sender hands its bytes to all others.

    This is how quantized numbers travel in one phase: they cannot be added on the way. For two
    machines that costs no more than a ring; for four, each card carries three times its own
    message.
    """
    return (senders - 1) * payload


def usual_phases(senders: int) -> int:
    """Return in how many phases quantized numbers are summed where latency does not count.

    Two machines send as much in one phase as in two, and round once less.
    """
    return 1 if senders <= 2 else 2


def summed_bytes(payload: float, senders: int, phases: int = 0) -> float:
    """Return what goes through one card to sum quantized numbers in so many `phases`.

    0 means `usual_phases`.
    """
    two = (phases or usual_phases(senders)) == 2
    return in_two_phases(payload, senders) if two else gathered(payload, senders)


def cheaper_phases(payload: float, senders: int, link: Link, messages: int) -> int:
    """Return in how many phases `payload`, in so many `messages`, is summed sooner.

    A machine sends to all others at once: each phase of a message has one latency.
    """
    seconds = {
        phases: link.seconds(summed_bytes(payload, senders, phases), phases * messages)
        for phases in (1, 2)
    }
    return 2 if senders > 2 and seconds[2] < seconds[1] else 1


def in_two_phases(payload: float, senders: int) -> float:
    """Return what goes through one card if every sender sums a share and hands it out."""
    return 2 * (senders - 1) / senders * payload if senders > 1 else 0.0


def agreement_bytes(
    numbers: int, machines: int, *, averages: bool = False, phases: int = 0
) -> float:
    """Return what goes through one card until machines that went apart have the same weights.

    They send weights and both moments of the optimizer in 16 bits each; many machines that sum
    in one of the `phases` send the weights in 32. Moving `averages`, if there are any, take 32.
    """
    quantized = summed_bytes(quantized_bytes(numbers, 16), machines, phases)
    weights = min(quantized, ring_bytes(numbers, machines))
    return weights + (2 + averages * 2) * ring_bytes(numbers, machines, 2)
