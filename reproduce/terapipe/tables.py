"""What TeraPipe's paper prints: the settings of Table 1 and the 33 latencies of Tables 2 to 4."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ...planners.terapipe import Slice
from ...planners.terapipe.v100.cell import HEAD, V100Layout

__all__ = ["ROWS", "SETTINGS", "SPEEDUPS", "Row", "Setting", "printed_tflops", "row", "true_tflops"]


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of Table 1. `batch`: of all replicas, for sequences of 2048 tokens."""

    number: int
    model: str
    layout: V100Layout
    batch: int

    @property
    def gpus(self) -> int:
        """Number of GPUs over all replicas."""
        return self.layout.data * self.layout.pipe * self.layout.op


def _settings() -> dict[int, Setting]:
    models = {
        "GPT3-1B": (24, 2048, ((128, 8, 24, 1), (72, 2, 12, 8), (72, 1, 24, 8))),
        "GPT3-13B": (40, 5120, ((32, 2, 20, 8), (32, 1, 40, 8))),
        "GPT3-44B": (96, 6144, ((8, 4, 96, 1), (8, 2, 24, 8), (8, 1, 48, 8))),
        "GPT3-175B": (96, 12288, ((2, 1, 96, 4), (2, 1, 48, 8))),
    }
    found: dict[int, Setting] = {}
    for model, (layers, hidden, cuts) in models.items():
        for batch, *cut in cuts:
            k = len(found) + 1
            found[k] = Setting(k, model, V100Layout(layers, hidden, *cut), batch)
    return found


SETTINGS: Mapping[int, Setting] = MappingProxyType(_settings())
"""Number -> setting."""


@dataclass(frozen=True, slots=True)
class Row:
    """A latency.

    Parameters
    ----------
    table : str
        Where it stands, such as ``"2"``, its number in the paper. Rows that several tables repeat stand here once.
    setting : int
        Number of its row in Table 1.
    tokens : int
        L, tokens of a sequence.
    scheme : str
        ``"w/o"``, ``"w/"`` or the number of uniform slices.
    cut : tuple of int
        Tokens of each slice.
    repetitions : int
        Sequences of one replica, each cut so.
    seconds, deviation : float
        Mean and standard deviation of ten runs.
    tflops : float
        Per GPU, as printed.
    """

    table: str
    setting: int
    tokens: int
    scheme: str
    cut: tuple[int, ...]
    repetitions: int
    seconds: float
    deviation: float
    tflops: float

    @property
    def slices(self) -> tuple[Slice, ...]:
        """The slices in the order in which they enter the pipeline."""
        return (Slice(1, self.cut),) * self.repetitions

    @property
    def key(self) -> tuple[int, int, str]:
        """What identifies the row: setting, tokens and scheme."""
        return self.setting, self.tokens, self.scheme


# table, setting, tokens, scheme, cut (a or a*n), repetitions, seconds, deviation, TFlops as printed
_TEXT = """
2   1  2048 w/o 2048 16 1.517 0.107 0.8841
2   1  2048 w/  776,640,632 16 1.254 0.160 1.0695
2   2  2048 w/o 2048 36 1.018 0.065 2.9643
2   3  2048 w/o 2048 72 0.913 0.027 6.6105
2   4  2048 w/o 2048 16 2.637 0.055 3.0305
2   4  2048 w/  1024*2 16 1.891 0.084 4.2261
2   5  2048 w/o 2048 32 1.863 0.007 8.5792
2   5  2048 w/  704,688,656 32 1.328 0.037 12.0354
2   6  2048 w/o 2048 2 13.319 0.067 0.2148
2   6  2048 w/  64*26,56*6,48 2 7.103 0.243 0.4028
2   7  2048 w/o 2048 4 4.311 0.032 1.3274
2   7  2048 w/  368,384,384,368,256,288 4 2.771 0.112 2.0652
2   8  2048 w/o 2048 8 2.662 0.001 4.2995
2   8  2048 w/  384,384,368,320,296,296 8 1.111 0.002 10.3018
2   9  2048 w/o 2048 2 9.990 0.005 1.1300
2   9  2048 w/  120*4,112*6,104*8,64 2 1.481 0.002 7.6225
2   10 2048 w/o 2048 2 5.822 0.003 1.9390
2   10 2048 w/  128*16 2 1.160 0.001 9.7318
3   8  2048 4   512*4 8 1.241 0.003 9.2226
3   8  2048 8   256*8 8 1.255 0.004 9.1197
3   8  2048 16  128*16 8 1.241 0.003 9.2226
3   9  2048 4   512*4 2 2.902 0.003 3.8900
3   9  2048 8   256*8 2 1.892 0.002 5.9667
3   9  2048 16  128*16 2 1.547 0.01 7.2973
3   9  2048 32  64*32 2 1.593 0.002 7.0866
3   9  2048 64  32*64 2 2.227 0.002 5.0691
3   9  2048 128 16*128 2 3.252 0.004 3.4714
4   5  4096 w/o 4096 8 2.526 0.001 1.5819
4   5  4096 w/  552,536,528,512,504,496,488,480 8 0.913 0.085 4.3765
4   5  6144 w/o 6144 4 3.754 0.006 0.5322
4   5  6144 w/  584,568,512*6,496,488,472,464 4 0.756 0.008 2.6427
4   5  8192 w/o 8192 2 4.978 0.004 0.2007
4   5  8192 w/  512*6,480*2,416*10 2 0.636 0.001 1.5707
"""


def _cut(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for length, times in re.findall(r"(\d+)(?:\*(\d+))?", text):
        found += [int(length)] * int(times or 1)
    return tuple(found)


def _rows() -> tuple[Row, ...]:
    found: list[Row] = []
    for line in _TEXT.strip().splitlines():
        table, setting, tokens, scheme, cut, repetitions, *figures = line.split()
        seconds, deviation, tflops = map(float, figures)
        found.append(
            Row(table, int(setting), int(tokens), scheme, _cut(cut), int(repetitions), seconds, deviation, tflops)
        )
    return tuple(found)


ROWS: tuple[Row, ...] = _rows()
"""All latencies, each once. Settings (2) and (3) have one: their slicing with TeraPipe is that without."""


def row(setting: int, tokens: int = 2048, scheme: str = "w/") -> Row:
    """One latency; with TeraPipe as without where the paper's scheme is the same."""
    known = {r.key: r for r in ROWS}
    return known.get((setting, tokens, scheme)) or known[setting, tokens, "w/o"]


SPEEDUPS: tuple[tuple[int, int], ...] = (*((k, 2048) for k in SETTINGS), (5, 4096), (5, 6144), (5, 8192))
"""(setting, tokens) of every speed-up of TeraPipe that the paper has."""


def printed_tflops(r: Row) -> float:
    """TFLOP/s per GPU as the table counts them: of one replica's batch, and of 2048 tokens whatever the sequence.

    Per layer and token 12 H² multiplications, L·H of attention (one of its two products), and a few per element; six
    FLOPs for each, as in the authors' published count.
    """
    return _tflops(r, r.repetitions, 2048)


def true_tflops(r: Row) -> float:
    """The same count of what all replicas compute for sequences of the length that they have."""
    return _tflops(r, r.repetitions * SETTINGS[r.setting].layout.data, r.tokens)


def _tflops(r: Row, sequences: int, tokens: int) -> float:
    s = SETTINGS[r.setting]
    h = s.layout.hidden
    rows, scores = sequences * tokens * h, sequences * (h // HEAD) * tokens**2
    # Multiply-adds of a layer's twelve h² weights; scores and their softmax; and small operators on rows. As the
    # paper's own count has it: with it, five printed TFLOPs come out to the last digit.
    count = 12 * rows * h + scores * HEAD + scores + 7 * rows
    # Twice for multiply and add, and three passes: forward, and backward to inputs and to weights.
    return 6 * count * s.layout.layers / 1e12 / r.seconds / s.gpus
