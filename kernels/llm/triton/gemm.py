"""Matrix product in Triton, for timing what a kernel of our own gets of a device's matrix rate."""

# pyright: reportCallIssue=false
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..tiles import Tiles, gemm_tiles
from .launch import capability, check_type, launching_on, precision

__all__ = ["gemm", "gemm_kernel"]

STRIPE = 8
"""Rows of tiles that share the L2."""


def gemm(a: Tensor, b: Tensor, tiles: Tiles | None = None) -> Tensor:
    """``a @ b``, sums in fp32.

    Parameters
    ----------
    a, b : Tensor, shape (rows, inner) and (inner, columns)
        Row-major, fp16, bf16 or fp32.
    tiles : Tiles, optional
        Tile sizes; by default those of `gemm_tiles`.

    Raises
    ------
    ValueError
        If shapes or types do not fit.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype or 0 in (*a.shape, *b.shape):
        raise ValueError(
            f"gemm: expected a [rows, inner] and b [inner, columns] of one type, none empty "
            f"(got {list(a.shape)} of {a.dtype} and {list(b.shape)} of {b.dtype})"
        )
    check_type("gemm", a)
    a, b = a.contiguous(), b.contiguous()
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty((m, n), dtype=a.dtype, device=a.device)
    chosen = tiles or gemm_tiles(a.element_size(), capability(a))
    with launching_on(a):
        gemm_kernel[(-(-m // chosen.m) * -(-n // chosen.n),)](
            a, b, out, m, n, k, a.stride(0), b.stride(0), out.stride(0),
            BLOCK_M=chosen.m, BLOCK_N=chosen.n, BLOCK_K=chosen.k, TOGETHER=STRIPE, PRECISION=precision(a),
            num_warps=chosen.warps, num_stages=chosen.stages, enable_fp_fusion=True,
        )  # fmt: skip
    return out


@triton.jit
def gemm_kernel(
    a, b, out, rows, columns, inner, a_row, b_row, out_row,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, TOGETHER: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """``out = a @ b``, row-major. Tiles go in stripes of `TOGETHER` rows of tiles, whose operands stay in the L2."""
    tile = tl.program_id(0)
    down, across = tl.cdiv(rows, BLOCK_M), tl.cdiv(columns, BLOCK_N)
    stripe = tile // (TOGETHER * across)
    height = tl.minimum(down - stripe * TOGETHER, TOGETHER)
    in_stripe = tile % (TOGETHER * across)
    row = (stripe * TOGETHER + in_stripe % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = (in_stripe // height) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    # rows and columns past the edge read others instead: they are not stored, and loads need no mask for them
    from_a = a + (row % rows).to(tl.int64)[:, None] * a_row + depth[None, :]
    from_b = b + depth.to(tl.int64)[:, None] * b_row + (column % columns)[None, :]
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, inner, BLOCK_K):
        left = inner - start
        x = tl.load(from_a, mask=(depth < left)[None, :], other=0.0)
        y = tl.load(from_b, mask=(depth < left)[:, None], other=0.0)
        acc = tl.dot(x, y, acc, input_precision=PRECISION)
        from_a += BLOCK_K
        from_b += BLOCK_K * b_row
    to = out + row.to(tl.int64)[:, None] * out_row + column[None, :]
    tl.store(to, acc.to(out.dtype.element_ty), mask=(row < rows)[:, None] & (column < columns)[None, :])
