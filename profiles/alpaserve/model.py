"""The documented model behind `alpaserve-v100`: layers and communication of AlpaServe's models on V100s.

What the authors' figures leave open (deeper pipelines, mixed op and pp, batches above 1, BERT-104B) is filled in from
a table of operators per model and latency-bandwidth lines. Every constant says what it was read or fitted from;
`profiles.alpaserve.fit` refits those that come from measurements. docs/profiles.md says how sure they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..autoparallel import auto_partition, computation_partition
from ..comm import CommModel
from ..config import ParallelConfig
from ..hardware import LinkSpec
from ..layers import Layer, LayerTable
from ..profile import Provenance

__all__ = [
    "ARCHITECTURES",
    "BATCHES",
    "OPS",
    "Anchors",
    "Architecture",
    "anchors_of_largest",
    "comm_of",
    "table_of",
]

SEQUENCE = 2048  # tokens of a query: Table 1's caption
HALF = 2  # bytes of a half-precision number
BATCHES = (1, 2, 4, 8, 16)  # those of Fig. 15, and of the authors' profiles
OPS = (1, 2, 4, 8, 16)  # powers of two up to two nodes
DEVICES_PER_NODE = 8  # p3.16xlarge
LARGEST_S = 4.6  # Table 1: BERT-104B "using a minimal degree of inter-op parallelism"

# Fitted to the measured bert_1_3b_v100_oct2022 table (sequence length 1024), op1, pp 1–8, by least squares in relative
# error: shares of the single-device latency at batch 1, per-stage overhead, and transfer bandwidth between stages.
# The shares at batch 2 are 1.7 times these; batch 1 was chosen for its agreement with Fig. 16 (docs/profiles.md).
EMBEDDING_SHARE = 0.0184
HEAD_SHARE = 0.0351
STAGE_OVERHEAD_S = 0.492e-3
P2P_BYTES_PER_S = 13.05e9
# The same table, op 2, 4, 8 at pp1: what remains of the latency after a perfect split, per all-reduce (two a layer).
ALLREDUCE = {2: LinkSpec(19.22e9, 150e-6), 4: LinkSpec(41.35e9, 230e-6), 8: LinkSpec(48.02e9, 295.6e-6)}
# Fitted to the GPT pipelines over two and four nodes (gpt_inference_v100_pipeline, pp 16 and 32 against pp 4).
INTER_NODE_BYTES_PER_S = 1.64e9
# Latency at batch b over batch 1, from the same table's op1pp1 at 2b over 2: 2b queries of 1024 tokens are as many
# tokens as b of 2048 (batch 16 continues the line through 4 and 8).
BATCH_RATIO = {1: 1.0, 2: 1.922061, 4: 3.716562, 8: 7.288090, 16: 14.431147}
# Peak activation bytes per token and hidden unit, from the GPT pipelines' memory at batch 4 against 16: 35 to 52.
ACTIVATION_BYTES = 40.0

# Weights of a Transformer layer's operators, in units of hidden²; their multiply-adds per token are as many, to which
# attention adds 2·sequence·hidden for scores and context.
_WEIGHTS = {"qkv": 3.0, "attention": 1.0, "mlp-up": 4.0, "mlp-down": 4.0}
# What must be sent on if the model is cut after an operator, in units of hidden: its output, and the residual with it.
_WIDTH = {"qkv": 4, "attention": 1, "mlp-up": 5, "mlp-down": 1}


@dataclass(frozen=True, slots=True)
class Architecture:
    """Shape of one model, as far as the profile model needs it.

    Parameters
    ----------
    n_blocks, hidden : int
        Transformer layers and their width (Alpa's BERT and GShard MoE suites; `hidden` of the MoE-5.3B from its
        parameter count).
    size_bytes : float
        Table 1's size, bytes.
    embedding_share, head_share : float
        Share of the single-device latency.
    """

    n_blocks: int
    hidden: int
    size_bytes: float
    embedding_share: float = EMBEDDING_SHARE
    head_share: float = HEAD_SHARE


ARCHITECTURES: dict[str, Architecture] = {
    "bert-1.3b": Architecture(24, 2048, 2.4e9),
    "bert-2.6b": Architecture(32, 2560, 5.4e9),
    "bert-6.7b": Architecture(32, 4096, 13.4e9),
    # Embedding and head cost per token what a vocabulary of 51,200 costs; against 128 layers of 8,192 that is little.
    "bert-104b": Architecture(128, 8192, 208e9, embedding_share=0.0008, head_share=0.0016),
    "moe-1.3b": Architecture(16, 768, 2.6e9),
    "moe-2.4b": Architecture(16, 1024, 4.8e9),
    "moe-5.3b": Architecture(16, 1536, 10.6e9),
}


@dataclass(frozen=True, slots=True)
class Anchors:
    """The published or recovered figures that one model's table is tied to.

    Parameters
    ----------
    single_s : float
        Computation of one query on one device, seconds.
    size_bytes : float
        Bytes of all weights.
    op2_s, op4_s : float, optional
        Latency at op2pp1 and op4pp1, seconds.
    pp4_bytes : float, optional
        Weight bytes of the heaviest of four stages.
    """

    single_s: float
    size_bytes: float
    op2_s: float | None = None
    op4_s: float | None = None
    pp4_bytes: float | None = None


def anchors_of_largest() -> Anchors:
    """Anchors of bert-104b: such a computation that its least-split pipeline, op1pp16, takes Table 1's 4.6 s."""
    name, size = "bert-104b", ARCHITECTURES["bert-104b"].size_bytes
    anchors = Anchors(LARGEST_S, size)
    for _ in range(4):  # what communication adds hardly depends on where the cuts fall: a fixed point
        table, comm = table_of(name, anchors), comm_of(name, anchors)
        total = computation_partition(table, ParallelConfig(1, 16), comm).latency_s
        anchors = Anchors(anchors.single_s + LARGEST_S - total, size)
    return anchors


def table_of(name: str, anchors: Anchors) -> LayerTable:
    """The operator table of model `name`: an embedding, four operators per Transformer layer, and a head.

    Latency: the embedding's and head's shares of `anchors.single_s`, the rest spread over the operators by their
    multiply-adds; a degree of op divides them by op (what all-reduces add is in `comm_of`). Weights: embedding and head
    weigh the same, as much as makes the heaviest of four stages weigh `anchors.pp4_bytes`.
    """
    arch = ARCHITECTURES[name]
    work = {**_WEIGHTS, "attention": _WEIGHTS["attention"] + 2.0 * SEQUENCE / arch.hidden}
    stream = float(SEQUENCE * arch.hidden * HALF)
    body = 1.0 - arch.embedding_share - arch.head_share

    def layers(ends_bytes: float) -> tuple[Layer, ...]:
        def layer(label: str, share: float, weight: float, block: int | None, out: int, reduces: int) -> Layer:
            return Layer(
                label,
                {op: {b: anchors.single_s * share * BATCH_RATIO[b] / op for b in BATCHES} for op in OPS},
                {op: weight / op for op in OPS},
                out * stream,
                stream if reduces else 0.0,
                reduces,
                ACTIVATION_BYTES * SEQUENCE * arch.hidden,
                block,
            )

        blocks = [
            layer(
                f"layer{i}.{part}",
                body / arch.n_blocks * work[part] / sum(work.values()),
                (anchors.size_bytes - 2 * ends_bytes) / arch.n_blocks * _WEIGHTS[part] / sum(_WEIGHTS.values()),
                i,
                _WIDTH[part],
                int(part in ("attention", "mlp-down")),
            )
            for i in range(arch.n_blocks)
            for part in work
        ]
        first = layer("embedding", arch.embedding_share, ends_bytes, None, 1, 0)
        last = layer("head", arch.head_share, ends_bytes, None, 1, 0)
        return (first, *blocks, last)

    notes = "modelled: four operators per Transformer layer by their multiply-adds; see docs/profiles.md"
    provenance = Provenance("AlpaServe (OSDI '23), Table 1", "v100-16gb", "2023-07", notes=notes)
    table = LayerTable(name, layers(0.0), provenance)
    if anchors.pp4_bytes is None:
        return replace(table, layers=layers(51200.0 * arch.hidden * HALF))
    config = ParallelConfig(1, 4)
    starts = auto_partition(table, config, comm_of(name, anchors)).starts
    return replace(table, layers=layers(_ends_bytes(table, starts, anchors)))


def _ends_bytes(table: LayerTable, starts: tuple[int, ...], anchors: Anchors) -> float:
    """Weight of the embedding, and of the head, at which the heaviest stage weighs `anchors.pp4_bytes`.

    With x at each end a stage that holds a share s of the blocks weighs s·(size − 2x), and x more if it is the first or
    last; the smallest x >= 0 at which one of those two reaches the anchor, 0 if none does.
    """
    shares = table.weight_bytes() / anchors.size_bytes
    cuts = (*starts, len(table))
    target = anchors.pp4_bytes or 0.0
    ends = [float(shares[a:b].sum()) for a, b in (cuts[:2], cuts[-2:])]
    found = [(target - s * anchors.size_bytes) / (1.0 - 2.0 * s) for s in ends if s < 0.5]
    return min((x for x in found if x > 0), default=0.0)


def comm_of(name: str, anchors: Anchors) -> CommModel:
    """Communication of model `name`: the measured lines, all-reduces scaled so that op2pp1 and op4pp1 come out.

    Degrees 8 and 16 take the scale of degree 4; 16 adds the exchange between two nodes.
    """
    arch = ARCHITECTURES[name]
    stream = float(SEQUENCE * arch.hidden * HALF)

    def scale(op: int, latency: float | None) -> float:
        if latency is None:
            return 1.0
        return (latency - anchors.single_s / op) / (2 * arch.n_blocks * ALLREDUCE[op].time(stream))

    four = scale(4, anchors.op4_s)
    scales = {2: scale(2, anchors.op2_s), 4: four, 8: four}
    lines = {op: _scaled(ALLREDUCE[op], factor) for op, factor in scales.items()}
    within = lines[8]
    lines[16] = LinkSpec(1.0 / (1.0 / within.bandwidth_bytes_per_s + 1.0 / INTER_NODE_BYTES_PER_S), within.latency_s)
    return CommModel(
        p2p=LinkSpec(P2P_BYTES_PER_S, 0.0),
        allreduce=lines,
        stage_overhead_s=STAGE_OVERHEAD_S,
        p2p_inter_node=LinkSpec(INTER_NODE_BYTES_PER_S, 0.0),
        devices_per_node=DEVICES_PER_NODE,
        source="lines fitted to measurements of the AlpaServe authors on V100s (alpa-projects/mms, Oct. 2022)",
    )


def _scaled(line: LinkSpec, factor: float) -> LinkSpec:
    return LinkSpec(line.bandwidth_bytes_per_s / factor, line.latency_s * factor)
