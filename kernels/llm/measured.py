"""`Measured`: one rate of a kernel beside what the device gives at best, and what it is held to. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Measured", "table"]


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement.

    Parameters
    ----------
    name, shape : str
        Kernel, and what it ran on.
    seconds : float
        Median of one call.
    calls : int
        Timed calls.
    rate : float
        In `unit`; NaN where only a ratio counts.
    unit : str
        ``GB/s``, ``TFLOP/s`` or ``GFLOP/s``.
    ratio : float
        Rate over the device's own best; for an overhead the time over that of the baseline, less 1.
    against : str
        What the kernel is compared with.
    target : float or None
        Least ratio asked for; None where there is none.
    """

    name: str
    shape: str
    seconds: float
    calls: int
    rate: float
    unit: str
    ratio: float
    against: str
    target: float | None = None

    @property
    def verdict(self) -> str:
        """``met``, ``missed``, or nothing without a target."""
        if self.target is None:
            return ""
        return "met" if self.ratio >= self.target else "missed"


def table(rows: list[Measured]) -> str:
    """The measurements as a person reads them."""
    lines = []
    for row in rows:
        rate = f"{row.rate:8.1f} {row.unit:7}" if row.rate == row.rate else " " * 16
        target = f" (target {row.target:.0%}: {row.verdict})" if row.target is not None else ""
        lines.append(
            f"{row.name:24} {row.shape:42} {row.seconds * 1e6:9.1f} us {rate} {row.ratio:7.1%} {row.against}{target}"
        )
    return "\n".join(lines)
