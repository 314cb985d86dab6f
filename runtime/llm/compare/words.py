"""A cell of a comparison in words: its table, and where its differences come from."""

from __future__ import annotations

from .cell import JUDGED, SHOWN, Cell

__all__ = ["lines_of"]


def lines_of(cell: Cell) -> list[str]:
    """A cell as lines."""
    simulated, real, differences = cell.expected, cell.found, cell.differences
    than = "what they took before" if cell.in_service else "the tables' time"
    pace = "" if cell.pace != cell.pace else f", passes at {cell.pace:.1%} of {than}"
    judged = "" if cell.rows is None else f", {cell.rows.sum()} judged"
    lines = [
        f"{cell.model}, {cell.setting}, {cell.level}: {len(cell.real)} requests at {cell.rate:.3g}/s{judged}; "
        f"core ours {cell.share:.1%}{pace}{f', attempt {cell.attempts}' if cell.attempts > 1 else ''}",
        f"{'':<14}{'real':>10}{'simulated':>11}{'difference':>12}"
        + (f"   {cell.foretold.coverage:.0%} of {cell.foretold.draws} draws" if cell.foretold else ""),
    ]
    for name in SHOWN:
        scale, unit = (1e3, "ms") if name[:4] in ("ttft", "tpot", "e2e_") else (1.0, "")
        mark = "" if name not in JUDGED else "  off" if name in cell.outside else "  ok"
        if cell.foretold is not None:
            low, high = cell.foretold.interval(name)
            span = f"{scale * low:.2f} to {scale * high:.2f}"
            mark = f"  {span:<18}{'' if not mark else ' outside' if 'off' in mark else ' inside'}"
        gap = "" if differences[name] != differences[name] else f"{differences[name]:+.1%}"
        lines.append(f"{name:<14}{scale * real[name]:>10.2f}{scale * simulated[name]:>11.2f} {unit:<2}{gap:>9}{mark}")
    if cell.in_service:
        lines.append(f"in service, in the other stretches, over the tables: {cell.in_service}")
    if cell.foretold is not None:
        lines.append(f"steps vary: {cell.varies}")
        lines.append(_attributed(cell))
    if cell.iterations:
        told = "; ".join(f"{k.kind} {k.middle:.3f} ({k.low:.2f} to {k.high:.2f}, {k.count})" for k in cell.iterations)
        lines.append(f"cost of an undisturbed iteration over its time: {told}")
    return lines


def _attributed(cell: Cell) -> str:
    """Where what lies outside comes from: the level of the run's own steps, or the rest."""
    level = f"the judged stretches' steps took {cell.shift - 1:+.1%} of what the draws take"
    if not cell.outside:
        return level
    real, at = cell.found, cell.at_level
    left = [name for name in cell.outside if at is None or not at.inside(name, real[name])]
    gone = [name for name in cell.outside if name not in left]
    told = ([f"{', '.join(gone)} inside at that level"] if gone else []) + (
        [f"{', '.join(left)} outside even so: not a matter of level"] if left else []
    )
    return f"{level}; {'; '.join(told)}"
