"""What the rounds found, as Markdown: a table for each size, ratios, and the goals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from measure import median

from peers.round import Reading
from peers.task import Size

OURS = "unisono"
FAIRSEQ = "fairseq"
HALF = "bf16"


@dataclass
class Row:
    """One trainer's rounds. `gemms` are the probes before and after each, in GFLOP/s."""

    name: str
    version: str
    note: str
    failure: str = ""
    readings: list[Reading] = field(default_factory=list)
    gflops: list[float] = field(default_factory=list)
    gemms: list[tuple[float, float]] = field(default_factory=list)

    def add(self, reading: Reading, gflops: float, gemm: tuple[float, float]) -> None:
        """Add a round."""
        self.readings.append(reading)
        self.gflops.append(gflops)
        self.gemms.append(gemm)

    @property
    def tokens(self) -> list[float]:
        """Return the real target tokens a second of each round."""
        return [reading.tokens_per_second for reading in self.readings]

    @property
    def shares(self) -> list[float]:
        """Return each round's part of what the machine could do around it."""
        return [rate / max(gemm) for rate, gemm in zip(self.gflops, self.gemms, strict=True)]

    @property
    def megabytes(self) -> list[float]:
        """Return the most memory of all processes in each round."""
        return [reading.peak_bytes / 1e6 for reading in self.readings]

    @property
    def per_update(self) -> list[float]:
        """Return the real target tokens of an update in each round."""
        return [reading.target_tokens / reading.updates for reading in self.readings]


def print_size(size: Size, rows: Sequence[Row]) -> None:
    """Print one size: everyone's row, then how we stand."""
    model = size.model
    print(
        f"## {size.name.upper()}: width {model.width}, {model.heads} heads, "
        f"{model.encoder_layers}+{model.decoder_layers} layers, inner {model.inner}\n"
    )
    print(
        "| trainer | version | target tokens/s | model GFLOP/s | of GEMM | MB | tokens/update |"
    )
    print("|---|---|---|---|---|---|---|")
    measured = [row for row in rows if row.readings]
    for row in sorted(measured, key=lambda row: -median(row.gflops)):
        cells = (
            _spread(row.tokens, "{:,.0f}"),
            _spread(row.gflops, "{:.1f}"),
            _spread(row.shares, "{:.2f}"),
            _spread(row.megabytes, "{:,.0f}"),
            f"{median(row.per_update):,.0f}",
        )
        print(f"| {row.name} | {row.version} | " + " | ".join(cells) + " |")
    probes = [probe for row in measured for pair in row.gemms for probe in pair]
    if probes:
        print(f"\nGEMM: {_spread(probes, '{:.0f}')} GFLOP/s. Medians, and least – most of the")
        print("rounds; of GEMM: over the better of the probes before and after a round.\n")
    for row in measured:
        print(f"- {row.name}: {row.note}")
    for row in rows:
        if row.failure:
            print(f"- {row.name} **failed**: {row.failure.splitlines()[0]}")
    print()
    _print_goals(size, measured)


def _spread(values: Sequence[float], form: str) -> str:
    low, high = form.format(min(values)), form.format(max(values))
    return f"{form.format(median(values))} ({low} – {high})"


def _print_goals(size: Size, rows: Sequence[Row]) -> None:
    halves = [row for row in rows if row.name.startswith(OURS) and row.name.endswith(HALF)]
    ours = [row for row in rows if row.name.startswith(OURS) and row not in halves]
    others = [row for row in rows if not row.name.startswith(OURS)]
    fairseq = [row for row in others if row.name == FAIRSEQ]
    if ours:
        best = _fastest(ours)
        _print_head(best)
        for row in fairseq:
            _over(best, row, size.over_fairseq, size.memory_of_fairseq)
        if rivals := [row for row in others if row not in fairseq]:
            _over(best, _fastest(rivals), size.over_others)
        _goal("share of GEMM", median(best.shares), size.of_gemm)
        print()
    if halves:
        best_half = _fastest(halves)
        _print_head(best_half)
        for row in fairseq:
            _over(best_half, row, size.half_over_fairseq, size.memory_of_fairseq)
        if ours:
            _over(best_half, best, size.half_over_fp32, memory=1.0)
        print()


def _fastest(rows: Sequence[Row]) -> Row:
    return max(rows, key=lambda row: median(row.gflops))


def _print_head(best: Row) -> None:
    print(f"Our better setting is {best.name}; the ratios are of it.\n")
    print("| what | measured | goal | met |")
    print("|---|---|---|---|")


def _over(best: Row, row: Row, goal: float, memory: float = 0.0) -> None:
    _goal(f"GFLOP/s over {row.name}", _ratio(best, row, _gflops), goal)
    _ratio_row(f"tokens/s over {row.name}", _ratio(best, row, _tokens))
    if memory:
        _goal(f"memory over {row.name}", _ratio(best, row, _memory), memory, at_most=True)


def _goal(what: str, value: float, goal: float, *, at_most: bool = False) -> None:
    met = value <= goal if at_most else value >= goal
    sign = "≤" if at_most else "≥"
    print(f"| {what} | **{value:.2f}** | {sign} {goal:.2f} | {'yes' if met else 'no'} |")


def _ratio_row(what: str, value: float) -> None:
    print(f"| {what} | {value:.2f} | | |")


def _gflops(row: Row) -> Sequence[float]:
    return row.gflops


def _tokens(row: Row) -> Sequence[float]:
    return row.tokens


def _memory(row: Row) -> Sequence[float]:
    return row.megabytes


def _ratio(ours: Row, theirs: Row, of: Callable[[Row], Sequence[float]]) -> float:
    return median(of(ours)) / median(of(theirs))
