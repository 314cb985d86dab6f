"""Figure 11 (Alpa; thesis 3.11): what moving tensors between meshes takes, with Wide-ResNet."""

from __future__ import annotations

from pathlib import Path

from ..bars import bars
from ..claims import Claim, Expectation, at_least
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, GREY, ORANGE, PURPLE, canvas
from .points import FAST, RESHARDINGS, measure_reshardings
from .swings import resharding_gain
from .systems import FAMILIES
from .tolerance import speedup

COLOURS = dict(zip(RESHARDINGS, (GREY, ORANGE, PURPLE, BLUE), strict=True))

EXPECTED = {
    "speedup": Expectation(
        "Wide-ResNet on 32 GPUs: speedup by local all-gather over plain sends (of each tile's first holder, one after "
        "the other)", "§3.8.5", "2.0×", speedup(2.0), "{:.2f}×",
    ),
    "satisfactory": Expectation(
        "with local all-gather: throughput over that of sending one signal byte, the least of all sizes "
        "(satisfactorily)", "§3.6, §3.8.5", "near 1", at_least(0.85, partly=0.7), "{:.2f}×",
    ),
    "never worse": Expectation(
        "local all-gather never costs: speedup, the least of all sizes", "§3.6", "at least 1", at_least(0.999),
        "{:.3f}×",
    ),
}  # fmt: skip


def judged(frame: Frame) -> list[Claim]:
    """Judge the claims that the measured sizes decide."""
    wide = frame.pivot(index="gpus", columns="system", values="pflops").dropna()
    signal, without, local = (wide[f"{n}"] for n in ("signal send/recv", "w/o local all-gather", "w/ local all-gather"))
    listed = ", ".join(f"{n}: {a / b:.2f}" for n, a, b in zip(wide.index, local, without, strict=True))
    least = float((local / without).min())
    claims = [
        EXPECTED["satisfactory"].judge(
            float((local / signal).min()),
            shown=", ".join(f"{n}: {a / b:.2f}" for n, a, b in zip(wide.index, local, signal, strict=True)),
            why="a mesh that sends or receives does not compute meanwhile (overlap is not what the paper has), and "
            "stages of large activations end where computation is even, which the stage programme alone looks at",
        ),
        EXPECTED["never worse"].judge(least, shown=f"{least:.3f}× ({listed})"),
    ]
    balanced = float(local[32] / wide["w/o, senders balanced"][32])
    claims.insert(0, EXPECTED["speedup"].judge(float(local[32] / without[32]), why=WHY.format(balanced)))
    return claims


WHY = (
    "how often a tensor crosses without the all-gather follows from the specs on both sides: where the stage that "
    "receives cuts it by as many devices as it has, nothing is sent twice and there is nothing to gain. With senders "
    "that share the work it is {:.2f}×. Planned anew for 10 Gb/s between nodes, where all stages but the first have "
    "2 x 4 GPUs, it is 1.03×, for 5 Gb/s 1.12×; for 10 Gb/s with 96 microbatches, of 16 images each, 1.57×"
)


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: 4 and 32 GPUs, the last with 32 microbatches only. Nothing in it is random."""
    session = Session("alpa/fig11", fast, out, seed)
    sizes, counts = ((4, 32), FAST) if fast else ((4, 8, 16, 32, 64), {})
    frame = session.table(measure_reshardings(sizes, progress, counts=counts))
    with canvas(1, 1, width=4.6, height=2.8) as (figure, axes):
        bars(frame, axes[0, 0], COLOURS)
        axes[0, 0].set(ylabel="PFLOP/s", title=FAMILIES["resnet"].title)
        axes[0, 0].legend(loc="upper left", fontsize=7)
        session.figure(figure)
    more = () if fast else (96,)
    return session.finish(judged(frame), NOTES, [resharding_gain(2.0, 32, counts.get(32, ()), more)])


NOTES = (
    "one plan for each size, simulated four times: messages of one byte; every receiver sent its own copy by the first "
    "device that holds it, one message after the other; the same with holders that share the work, all at once (better "
    "than what the paper calls naive); and every piece sent once and gathered on the receiving mesh",
)

if __name__ == "__main__":
    main("alpa/fig11")
