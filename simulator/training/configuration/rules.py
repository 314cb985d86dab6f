"""What can be wrong with a configuration: rules, in the order in which they are checked, and the way out of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...cluster import Cluster
from .model import TransformerShape
from .words import DUALPIPE, ONE_F_ONE_B, ZB_V

if TYPE_CHECKING:
    from .columns import Columns

__all__ = ["MEND", "PROBLEMS", "problems_of", "rule_text", "uneven"]

PROBLEMS = (
    "",
    "tp, pp, dp, microbatch, global_batch and interleave: expected positive integers",
    "zero: expected 0, 1, 2 or 3",
    "tp x pp x dp: expected the number of devices of the cluster, {devices}",
    "tp: expected a divisor of heads {heads}",
    "tp: expected a divisor of kv_heads {kv_heads}",
    "tp: expected a divisor of ffn {ffn}",
    "pp x interleave: expected a divisor of layers {layers}, or of two more (embedding and output count as layers), "
    "or of what first_layers and last_layers leave to other stages, which hold no fewer "
    "(with interleave 1, where layers predict further tokens)",
    "interleave: more than 1 needs pp > 1",
    "global_batch: expected a multiple of dp x microbatch",
    "interleave: needs a number of microbatches that pp divides",
    "sequence_parallel: expected a seq that tp divides (seq {seq})",
    "cp, ep and etp: expected positive integers (etp 0: as tp)",
    "cp: expected a seq that 2 x cp divides, of which sequence parallelism leaves tp equal parts (seq {seq})",
    "tp > 1 with experts: needs sequence_parallel",
    "context 'all-to-all': expected heads {heads} and kv_heads {kv_heads} that tp x cp divides",
    "ep, etp: expected 1 for a model without experts",
    "ep: expected a divisor of the {experts} experts",
    "etp: expected a divisor of the experts' width {expert_ffn}, and tp to divide that of shared ones",
    "ep x etp: expected a divisor of tp x cp x dp, the devices of a stage",
    "overlap_experts: needs experts on several devices, and several microbatches",
    "shard: expected 0, or a divisor of dp x cp and zero > 0",
    "reshard False: needs zero 3",
    "schedule 'zb-h1', 'dualpipe', 'zb-v': need pp > 1; interleave 1 and pp microbatches, dualpipe an even pp and two "
    "each, zb-v interleave 2, one less than two each, and layers {layers} that 2 x pp divides",
)
"""What can be wrong with a configuration, by code; 0 is nothing."""
MEND = {
    3: "change one of them, or the cluster",
    7: "choose another pp or interleave",
    8: "set interleave=1",
    9: "change the batch, dp or microbatch",
    10: "change the batch, or set interleave=1",
    11: "set sequence_parallel=False",
    13: "choose another cp",
    14: "set sequence_parallel=True",
    15: "set context='ring'",
    16: "set ep=1",
    17: "choose another ep",
    18: "set etp=1",
    19: "choose another ep",
    20: "set overlap_experts=False",
    21: "set shard=0",
    22: "set reshard=True",
    23: "set schedule='1f1b'",
}


def rule_text(code: int, shape: TransformerShape, cluster: Cluster) -> str:
    """A rule, with the figures of a model and a cluster."""
    return PROBLEMS[code].format(
        devices=cluster.n_devices, heads=shape.heads, kv_heads=shape.kv_heads, ffn=shape.ffn, layers=shape.layers,
        seq=shape.seq, experts=shape.experts.count if shape.experts else 0,
        expert_ffn=shape.experts.ffn if shape.experts else 0,
    )  # fmt: skip


def problems_of(c: Columns, shape: TransformerShape, cluster: Cluster) -> NDArray[np.int64]:
    """The first thing wrong with each row, as an index into `PROBLEMS`; 0 where nothing is."""
    small = np.zeros(len(c.tp), dtype=bool)
    for column in (c.tp, c.pp, c.dp, c.microbatch, c.global_batch, c.interleave):
        small |= column < 1
    less = (c.cp < 1) | (c.ep < 1) | (c.etp < 0)
    tp, pp, dp, b, v = (np.where(small, 1, x) for x in (c.tp, c.pp, c.dp, c.microbatch, c.interleave))
    cp, ep = np.where(less, 1, c.cp), np.where(less, 1, c.ep)
    etp = np.where(less | (c.etp == 0), tp, c.etp)
    m = c.global_batch // (dp * b)
    mixed, parts = shape.experts, tp * cp * dp
    none = np.zeros(len(tp), dtype=bool)
    if mixed is None:
        alone: NDArray[np.bool_] = none
        experts = ((ep != 1) | (c.etp > 1), none, none, none)
    else:
        alone = (tp > 1) & ~c.sequence_parallel
        experts = (
            none,
            mixed.count % ep != 0,
            (mixed.ffn % etp != 0) | (mixed.shared_ffn % tp != 0),
            parts % (ep * etp) != 0,
        )
    bubbles, twice, vee = c.schedule != ONE_F_ONE_B, c.schedule == DUALPIPE, c.schedule == ZB_V
    fewest = np.select([twice, vee], [2 * pp, 2 * pp - 1], pp)
    laid = np.where(vee, (v != 2) | (shape.layers % (2 * pp) != 0) | (c.first_layers + c.last_layers > 0), v > 1)
    layers = (shape.layers % (pp * v) != 0) & ~uneven(shape, pp, v)
    checks = (
        small,
        (c.zero < 0) | (c.zero > 3),
        tp * pp * dp * cp != cluster.n_devices,
        shape.heads % tp != 0,
        shape.kv_heads % tp != 0,
        shape.ffn % tp != 0,
        np.where((c.first_layers != 0) | (c.last_layers != 0), _ends(shape, c, pp, v), layers),
        (v > 1) & (pp == 1),
        c.global_batch % (dp * b) != 0,
        (v > 1) & (m % pp != 0),
        c.sequence_parallel & (shape.seq % tp != 0),
        less,
        (cp > 1) & ((shape.seq % (2 * cp) != 0) | (c.sequence_parallel & (shape.seq // cp % tp != 0))),
        alone,
        c.by_heads & ((shape.heads % (tp * cp) != 0) | (shape.kv_heads % (tp * cp) != 0)),
        *experts,
        c.overlap_experts & ((ep == 1) | (m < 2)),
        (c.shard < 0) | ((c.shard > 0) & ((c.zero == 0) | (dp * cp % np.maximum(c.shard, 1) != 0))),
        ~c.reshard & (c.zero != 3),
        bubbles & ((pp == 1) | laid | (m < fewest) | (twice & ((pp % 2 != 0) | (m % 2 != 0)))),
    )
    found = np.zeros(len(tp), dtype=np.int64)
    for code in range(len(checks), 0, -1):  # backwards, so that the first problem is written last and stays
        found[checks[code - 1]] = code
    return found


def _ends(shape: TransformerShape, c: Columns, pp: NDArray[np.int64], v: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether layers that the ends are given leave no equal chunks, or fewer, to the other stages."""
    a, b = c.first_layers, c.last_layers
    others = pp - (a > 0) - (b > 0)
    rest, many = shape.layers - a - b, np.maximum(others, 1)
    unequal = (a % v != 0) | (b % v != 0) | (rest % (many * v) != 0)
    # An end whose last chunk is several times its first: interleaved rounds wait for it, which no formula here says.
    unequal |= (v > 1) & (shape.mtp_layers > 0)
    return (a < 0) | (b < 0) | (others < 1) | unequal | (rest < many * np.maximum(a, b))


def uneven(shape: TransformerShape, pp: NDArray[np.int64], interleave: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the first and the last stage may have fewer layers than the others, and have one: the embedding, the
    output layer and each layer that predicts a further token take a layer's place."""
    whole = shape.layers + 2 + shape.mtp_layers
    return (pp > 1) & (whole % (pp * interleave) == 0) & (whole > (1 + shape.mtp_layers) * pp)
