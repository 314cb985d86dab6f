"""Figure 16 (AlpaServe; thesis 4.16): overhead of pipelining under the manual partition and the automatic one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...profiles import CommModel, LayerTable, ParallelConfig, Partition, auto_partition, equal_layers, load
from ...profiles.alpaserve.model import P2P_BYTES_PER_S, STAGE_OVERHEAD_S
from ...profiles.alpaserve.shipped import comm_model, layer_table
from ..claims import Expectation, at_least, within
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sensitivity import Sensitivity, Swing
from ..style import COLOURS, canvas, lighter, outside_legend
from .experiments.planned import SIZES, planned

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODELS = {"bert-1.3b": "a: Transformer 1.3B", "bert-2.6b": "b: Transformer 2.6B"}
STAGES = (1, 2, 4, 8)
PARTITIONS = {"manual": equal_layers, "automatic": auto_partition}
OVERHEADS = ("communication", "uneven partition")

EXPECTED = {
    "bert-1.3b": Expectation(
        "1.3B, eight stages: the automatic partition cuts the total overhead",
        "§6.6, Fig. 16a",
        "32.9 %",
        within(0.329, 0.30, partly=0.60),
        "{:.1%}",
        kind="calibrated",
    ),
    "bert-2.6b": Expectation(
        "2.6B, eight stages: the automatic partition cuts the total overhead",
        "§6.6, Fig. 16b",
        "46.7 %",
        within(0.467, 0.30, partly=0.60),
        "{:.1%}",
        kind="calibrated",
    ),
    "planned bert-1.3b": Expectation(
        "operators by a roofline, nothing fitted: 1.3B, eight stages: the automatic partition cuts the overhead",
        "§6.6, Fig. 16a",
        "32.9 %",
        within(0.329, 0.30, partly=0.60, beyond="above"),
        "{:.1%}",
    ),
    "planned bert-2.6b": Expectation(
        "operators by a roofline, nothing fitted: 2.6B, eight stages: the automatic partition cuts the overhead",
        "§6.6, Fig. 16b",
        "46.7 %",
        within(0.467, 0.30, partly=0.60, beyond="above"),
        "{:.1%}",
    ),
    "never worse": Expectation(
        "the automatic partition is never worse (least reduction over all models and stages)",
        "§6.6",
        "≥ 0 %",
        at_least(-1e-9),
        "{:.1%}",
        kind="identity",
    ),
}


def sources(model: str) -> dict[str, tuple[LayerTable, CommModel]]:
    """Where operators' seconds come from -> layers and communication: fitted, and planned with nothing fitted."""
    plan = planned(model, (1,))
    return {"fitted": (layer_table(model), comm_model(model)), "planned": (plan.table, plan.comm)}


def overheads() -> Frame:
    """Overhead of every model, number of stages and partition.

    Returns
    -------
    DataFrame
        Columns model, operators ("fitted" or "planned"), stages, partition ("manual" or "automatic"), part, seconds;
        parts are computation, communication and uneven partition and add up to stages × slowest stage.
    """
    import pandas as pd

    rows = []
    for model, (operators, (table, comm)) in [(m, item) for m in MODELS for item in sources(m).items()]:
        for stages in STAGES:
            for name, partition in PARTITIONS.items():
                cut: Partition = partition(table, ParallelConfig(1, stages), comm)
                seconds = {
                    "computation": cut.computation_s,
                    "communication": cut.communication_s,
                    "uneven partition": cut.uneven_s,
                }
                at = {"model": model, "operators": operators, "stages": stages, "partition": name}
                rows += [{**at, "part": part, "seconds": s} for part, s in seconds.items()]
    return pd.DataFrame(rows)


def latencies() -> Frame:
    """Latency of one request of every model of Table 1 that fits one device, by op or pp, planned beside shipped.

    Returns
    -------
    DataFrame
        Columns model, config, planned_s, shipped_s, planned_slowest_s, shipped_slowest_s, shipped ("recovered",
        "modelled": where the shipped figures come from).
    """
    import pandas as pd

    shipped = load("alpaserve-v100")
    configs = [ParallelConfig(op, 1) for op in (1, 2, 4, 8)] + [ParallelConfig(1, pp) for pp in (2, 4, 8)]
    rows = []
    for model in (m for m in SIZES if ParallelConfig(1, 1) in shipped[m].stages):
        plan = planned(model)
        for config in configs:
            mine, theirs = plan.stage(config).latency[1], shipped[model].stages[config]
            rows.append(
                {
                    "model": model,
                    "config": str(config),
                    "planned_s": sum(mine),
                    "shipped_s": sum(theirs.latency[1]),
                    "planned_slowest_s": max(mine),
                    "shipped_slowest_s": max(theirs.latency[1]),
                    "shipped": theirs.source,
                }
            )
    return pd.DataFrame(rows)


def draw(frame: Frame, model: str, operators: str, ax: Axes) -> Axes:
    """Draw the bars of one model: the manual partition lighter, the automatic one darker."""
    mine = frame[(frame.model == model) & (frame.operators == operators)]
    for shift, name, white in ((-0.2, "manual", 0.55), (0.2, "automatic", 0.0)):
        wide = mine[mine.partition == name].pivot(index="stages", columns="part", values="seconds")
        bottom = 0.0 * wide["computation"]
        for part in ("computation", *OVERHEADS):
            at = [i + shift for i in range(len(wide))]
            ax.bar(
                at, 1e3 * wide[part], 0.36, bottom=1e3 * bottom, color=lighter(COLOURS[part], white),
                label=f"{part}, {name}",
            )  # fmt: skip
            bottom = bottom + wide[part]
    ax.set_xticks(range(len(STAGES)), [str(n) for n in STAGES])
    ax.set(xlabel="pipeline stages", ylabel="effective latency (ms)", title=f"{MODELS[model]}, {operators}")
    ax.grid(False, axis="x")
    return ax


def reductions(frame: Frame) -> Frame:
    """Share of the manual partition's overhead that the automatic one saves, by model, operators, stages (from 2)."""
    extra = frame[frame.part.isin(OVERHEADS) & (frame.stages > 1)]
    total = extra.groupby(["model", "operators", "stages", "partition"]).seconds.sum().unstack()
    return 1.0 - total["automatic"] / total["manual"]


def saving(table: LayerTable, comm: CommModel, stages: int = 8) -> float:
    """Share of the manual partition's overhead that the automatic one saves."""
    manual, automatic = (cut(table, ParallelConfig(1, stages), comm) for cut in PARTITIONS.values())
    return 1.0 - (automatic.effective_s - automatic.computation_s) / (manual.effective_s - manual.computation_s)


def swings(ours: float) -> Sensitivity:
    """What the saving hinges on with planned operators (2.6B, eight stages), one assumption moved at a time."""
    model = "bert-2.6b"
    plan = planned(model, (1,))
    line = plan.comm.p2p

    def moved(*, rate: float = line.bandwidth_bytes_per_s, extra_s: float = 0.0, vocab: int | None = None) -> float:
        found = planned(model, (1,), vocab=vocab)
        comm = replace(found.comm, p2p=replace(line, bandwidth_bytes_per_s=rate), stage_overhead_s=extra_s)
        return saving(found.table, comm)

    half = line.bandwidth_bytes_per_s / 2
    both = moved(rate=P2P_BYTES_PER_S, extra_s=STAGE_OVERHEAD_S)
    return Sensitivity(
        "2.6B, eight stages, planned: overhead saved",
        0.467,
        ours,
        "share",
        (
            Swing(
                "bytes/s between stages, 150 GB/s", "13 GB/s (measured)", "75 GB/s",
                moved(rate=P2P_BYTES_PER_S), moved(rate=half),
            ),
            Swing(
                "overhead of a stage, 0", "0.49 ms (measured)", "1 ms",
                moved(extra_s=STAGE_OVERHEAD_S), moved(extra_s=1e-3),
            ),
            Swing(
                "words of the vocabulary, 51,200", "30,522", "76,800", moved(vocab=30522), moved(vocab=76800)
            ),
        ),
        f"both measured values together give {both:.1%}; the authors' of October 2022 (1.3B, length 1024)",
    )  # fmt: skip


def span(both: Frame, family: str) -> str:
    """Least and largest ratio of planned to shipped latency over a family's models and configurations."""
    mine = both[both.model.str.startswith(family)]
    ratio = mine.planned_s / mine.shipped_s
    return f"{ratio.min():.2f} to {ratio.max():.2f}"


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure; nothing in it is random, and fast is full."""
    session = Session("alpaserve/fig16", fast, out, seed)
    frame = session.table(overheads())
    both = session.table(latencies(), "-latencies")
    with canvas(2, 2, width=3.6, height=3.0) as (figure, axes):
        for row, operators in zip(axes, ("fitted", "planned"), strict=True):
            for model, ax in zip(MODELS, row, strict=True):
                draw(frame, model, operators, ax)
        outside_legend(figure, axes[0, 0], ncols=2)
        session.figure(figure)

    saved = reductions(frame)
    return session.finish(
        [
            EXPECTED["bert-1.3b"].judge(saved["bert-1.3b", "fitted", 8]),
            EXPECTED["bert-2.6b"].judge(saved["bert-2.6b", "fitted", 8]),
            EXPECTED["planned bert-1.3b"].judge(saved["bert-1.3b", "planned", 8]),
            EXPECTED["planned bert-2.6b"].judge(saved["bert-2.6b", "planned", 8]),
            EXPECTED["never worse"].judge(saved.min()),
        ],
        notes=[
            "operators and communication from the shipped V100 model: the embedding's and the head's share of the "
            "latency were fitted to other measurements of the authors (sequence length 1024), not to this figure",
            "planned: planners.alpa.inference on a roofline and the links of V100's data sheet; latencies of dense "
            f"models are {span(both, 'bert')} of the shipped ones, of mixtures of experts {span(both, 'moe')}",
        ],
        sensitivity=[swings(float(saved["bert-2.6b", "planned", 8]))],
    )


if __name__ == "__main__":
    main("alpaserve/fig16")
