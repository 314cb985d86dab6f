"""Table 1 (vLLM): how many tokens' keys and values fit beside the weights, and which of its entries do not add up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...profiles.llm import decoder
from ..catalogue import FIGURES
from ..claims import Expectation, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLACK, BLUE, canvas, plain_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GIB, GB = 2**30, 1e9
PAPER = {"opt-13b": (40, 26, 12, 15.7), "opt-66b": (160, 132, 21, 9.7), "opt-175b": (640, 346, 264, 60.1)}
"""Table 1: model -> GPU memory, parameters and KV cache ("GB"), slots (thousands)."""

EXPECTED = {  # identities: arithmetic on the models' shapes and on printed entries
    "token": Expectation(
        "keys and values of one token of OPT-13B (KiB)", "§5.3", "800 KB", between(800, 800), "{:.1f} KiB",
        kind="identity",
    ),
    "sequence": Expectation(
        "of 2048 tokens, as large as OPT's sequences get (GiB)", "§5.3", "1.6 GB", between(1.55, 1.65), "{:.4f} GiB",
        kind="identity",
    ),
    "opt-13b": Expectation(
        "slots of OPT-13B, with 12 GB taken as GiB (as GB it would be 14.6K)",
        "Table 1", "15.7K", between(15.65, 15.75), "{:.3f}K", kind="identity",
    ),
    "opt-66b": Expectation(
        "slots of OPT-66B, with 21 GB taken as GiB; partly: some memory that rounds to 21 gives 9.7K",
        "Table 1", "9.7K", between(9.65, 9.75, partly=(9.33, 9.79)), "{:.3f}K", kind="identity",
    ),
    "opt-175b": Expectation(
        "slots of OPT-175B, with 264 GB taken as GiB", "Table 1", "60.1K", between(60.05, 60.15), "{:.3f}K",
        kind="identity",
    ),
    "weights opt-13b": Expectation(
        "weights of OPT-13B in fp16 (10⁹ bytes)", "Table 1", "26 GB", between(25.5, 26.5), "{:.1f} GB", kind="identity",
    ),
    "weights opt-66b": Expectation(
        "weights of OPT-66B in fp16 (10⁹ bytes); partly: within 1 %",
        "Table 1", "132 GB", between(131.5, 132.5, partly=(130.7, 133.3)), "{:.1f} GB", kind="identity",
    ),
    "weights opt-175b": Expectation(
        "weights of OPT-175B in fp16 (10⁹ bytes); partly: within 1 %",
        "Table 1", "346 GB", between(345.5, 346.5, partly=(342.5, 349.5)), "{:.1f} GB", kind="identity",
    ),
    "share": Expectation(
        "share of an A100's 40 GB that the weights of OPT-13B take", "§5.1", "65 %", between(0.625, 0.675), "{:.1%}",
        kind="identity",
    ),
    "kv share": Expectation(
        "share that the KV cache takes", "§5.1", "close to 30 %", between(0.25, 0.35), "{:.1%}",
        kind="identity",
    ),
}  # fmt: skip


def slots() -> Frame:
    """One row per model.

    Returns
    -------
    DataFrame
        Columns model, kv_bytes_per_token, weights_gb, weights_gb_paper, kv_gib (the table's entry, read as GiB), slots
        (that it holds), slots_if_gb (read as 10⁹ bytes), slots_paper, kv_gib_for_slots_paper.
    """
    import pandas as pd

    rows = []
    for name, (_, weights, memory, thousand) in PAPER.items():
        model = decoder(name)
        token = model.kv_bytes_per_token()
        rows.append(
            {
                "model": name,
                "kv_bytes_per_token": token,
                "weights_gb": model.weight_bytes() / GB,
                "weights_gb_paper": weights,
                "kv_gib": memory,
                "slots": memory * GIB // token,
                "slots_if_gb": int(memory * GB // token),
                "slots_paper": 1000 * thousand,
                "kv_gib_for_slots_paper": 1000 * thousand * token / GIB,
            }
        )
    return pd.DataFrame(rows)


def draw(frame: Frame, ax: Axes) -> Axes:
    """Draw slots against memory; the line of a model says how many slots any memory holds."""
    for row in frame.itertuples(index=False):
        memory = [row.kv_gib / 3, row.kv_gib * 3]
        ax.plot(memory, [m * GIB / row.kv_bytes_per_token for m in memory], color=BLACK, linewidth=0.8, alpha=0.4)
        ax.annotate(
            row.model, (row.kv_gib, row.slots), xytext=(7, -9), textcoords="offset points", fontsize=8
        )  # fmt: skip
    ax.scatter(frame.kv_gib, frame.slots, color=BLUE, s=26, label="from the model's shape", zorder=3)
    ax.scatter(frame.kv_gib, frame.slots_paper, marker="o", s=80, facecolors="none", edgecolors=BLACK, label="Table 1")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="memory for keys and values (GiB)",
        ylabel="slots (tokens)",
        title=FIGURES["vllm/table1"].title,
    )
    plain_ticks(ax, "x", (5, 10, 20, 50, 100, 200, 500))
    plain_ticks(ax, "y", (5_000, 10_000, 20_000, 50_000, 100_000))
    ax.legend(loc="upper left")
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the table; nothing in it is random, and fast is full."""
    session = Session("vllm/table1", fast, out, seed)
    frame = session.table(slots())
    with canvas(width=5.2, height=3.4) as (figure, axes):
        draw(frame, axes[0, 0])
        session.figure(figure)

    by = frame.set_index("model")
    needs = by.kv_gib_for_slots_paper["opt-66b"]
    why = {
        "opt-66b": f"9.7K slots need {needs:.1f} GiB, 21 GiB hold {by.slots['opt-66b']:,}: the entries were rounded",
        "weights opt-66b": "64 layers of width 9216 have 65.7·10⁹ weights; 132 is twice the 66 of its name",
        "weights opt-175b": "96 layers of width 12288 have 174.6·10⁹ weights; 346 would be 173·10⁹",
    }
    memory = PAPER["opt-13b"]
    return session.finish(
        [
            EXPECTED["token"].judge(by.kv_bytes_per_token["opt-13b"] / 1024),
            EXPECTED["sequence"].judge(2048 * by.kv_bytes_per_token["opt-13b"] / GIB),
            *(EXPECTED[m].judge(by.slots[m] / 1000, why=why.get(m, "")) for m in PAPER),
            *(EXPECTED[f"weights {m}"].judge(by.weights_gb[m], why=why.get(f"weights {m}", "")) for m in PAPER),
            EXPECTED["share"].judge(by.weights_gb["opt-13b"] / memory[0]),
            EXPECTED["kv share"].judge(memory[2] / memory[0]),
        ],
        notes=[
            'the table says "GB" of two units: weights are in 10⁹ bytes, the KV memory is in GiB, or no slots agree'
        ],
    )


if __name__ == "__main__":
    main("vllm/table1")
