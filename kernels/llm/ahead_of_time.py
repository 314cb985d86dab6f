"""Compile the Triton kernels for an architecture without having such a device, and report what the compiler made.

``python -m meshwright.kernels.llm.ahead_of_time [80 90 100]`` prints a line per kernel: shared memory, registers, stack
(spilled registers), and matrix instructions by kind. A kernel that computes products element by element shows none.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from .tiles import Tiles, decode_tiles, gemm_tiles, next_power_of_2, prefill_tiles
from .triton.cache import copy_kernel, write_kernel
from .triton.decode import decode_kernel, merge_kernel
from .triton.gemm import gemm_kernel
from .triton.prefill import prefill_kernel

__all__ = ["SHARED_BYTES", "Compiled", "Specialisation", "compile_for", "specialisations"]

SHARED_BYTES = {80: 163 * 1024, 90: 227 * 1024, 100: 227 * 1024}
"""Shared memory that one program may have (CUDA C++ Programming Guide, table of compute capabilities)."""

MATRIX = ("mma.sync", "wgmma.mma_async", "tcgen05.mma")
"""Instructions of the matrix units, of sm_80, sm_90 and sm_100 on."""


@dataclass(frozen=True, slots=True)
class Specialisation:
    """A kernel with the types and constants that it is compiled for.

    Parameters
    ----------
    name : str
        Kernel and shape.
    kernel : JITFunction
        The kernel.
    pointers : mapping of str to str
        Triton types of pointer arguments; all are taken to be aligned to 16 bytes.
    numbers : mapping of str to str
        Triton types of the other arguments.
    odd : tuple of str
        Numbers that are not known to be multiples of 16.
    constants : mapping of str to int, bool or str
        Compile-time constants.
    tiles : Tiles
        Warps and stages.
    """

    name: str
    kernel: Any
    pointers: Mapping[str, str]
    numbers: Mapping[str, str]
    odd: tuple[str, ...]
    constants: Mapping[str, int | bool | str]
    tiles: Tiles


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled kernel.

    Parameters
    ----------
    name : str
        Name of its `Specialisation`.
    capability : int
        80, 90, 100, …
    cubin : bytes
        Machine code.
    ptx : str
        PTX, the assembly before the last step of compilation.
    shared_bytes : int
        Shared memory of a program.
    registers, stack_bytes : int or None
        Of a thread; a stack means that registers spill. None where the tool that tells is missing.
    """

    name: str
    capability: int
    cubin: bytes
    ptx: str
    shared_bytes: int
    registers: int | None
    stack_bytes: int | None

    @property
    def matrix_instructions(self) -> dict[str, int]:
        """How many instructions of the matrix units there are, by kind."""
        return {kind: n for kind in MATRIX if (n := self.ptx.count(kind))}


def specialisations(capability: int, dtype: str = "bf16") -> list[Specialisation]:
    """The kernels of a decoder with 8 query heads per KV head of width 128, and of one without groups of width 64.

    Parameters
    ----------
    capability : int
        80, 90, 100, …: tiles depend on it.
    dtype : {"bf16", "fp16", "fp32"}
        Type of queries and cache.
    """
    size = 4 if dtype == "fp32" else 2
    data = "*" + dtype
    precision = "ieee" if dtype == "fp32" else "tf32"
    qkv = {"q": data, "k": data, "v": data}
    found: list[Specialisation] = []
    for group, width in ((8, 128), (1, 64)):  # Llama-3-70B's attention, and OPT-125M's
        tiles = decode_tiles(group, width, size)
        strides = ("q_row", "q_head", "kv_block", "kv_token", "kv_head", "table_row", "splits", "least_blocks")
        found.append(
            Specialisation(
                f"decode, groups of {group}, width {width}", decode_kernel,
                {**qkv, "tables": "*i32", "lens": "*i32", "out": "*fp32", "out_m": "*fp32", "out_s": "*fp32"},
                {"scale_log2": "fp32", **dict.fromkeys(strides, "i32")},
                ("scale_log2", "table_row", "splits", "least_blocks"),
                {"GROUP": group, "GROUP_PAD": tiles.m, "HEAD_BLOCKS": 1, "D": width, "BLOCK_D": width,
                 "BLOCK_SIZE": 16, "BLOCK_N": tiles.n, "PAGED": True, "PARTIAL": True, "PRECISION": precision},
                tiles,
            )
        )  # fmt: skip
        tiles = prefill_tiles(width, size, capability)
        strides = ("q_token", "q_head", "kv_block", "kv_token", "kv_head", "out_token", "out_head")
        found.append(
            Specialisation(
                f"prefill, groups of {group}, width {width}", prefill_kernel,
                {**qkv, "tables": "*i32", "starts": "*i32", "lens": "*i32", "out": data},
                {"scale_log2": "fp32", **dict.fromkeys((*strides, "table_row", "requests"), "i32")},
                ("scale_log2", "table_row", "requests"),
                {"GROUP": group, "D": width, "BLOCK_D": width, "BLOCK_SIZE": 16, "BLOCK_M": tiles.m,
                 "BLOCK_N": tiles.n, "REQUESTS_PAD": 16, "PRECISION": precision},
                tiles,
            )
        )  # fmt: skip
    found += [
        Specialisation(
            "merge of 8", merge_kernel, {"o": "*fp32", "m": "*fp32", "s": "*fp32", "out": data}, {"splits": "i32"},
            ("splits",), {"SPLITS_PAD": 8, "D": 128, "BLOCK_D": 128}, Tiles(m=16, n=16, warps=2),
        ),
        Specialisation(
            "write of 8 x 128", write_kernel,
            {"k": data, "v": data, "k_cache": data, "v_cache": data, "slots": "*i64"},
            {"k_token": "i32", "v_token": "i32"}, (),
            {"ELEMENTS": 1024, "BLOCK": next_power_of_2(1024)}, Tiles(m=16, n=16, warps=4),
        ),
        Specialisation(
            "copy of 16 x 8 x 128", copy_kernel, {"k_cache": data, "v_cache": data, "pairs": "*i64"}, {}, (),
            {"ELEMENTS": 16384, "CHUNK": 8192 // size}, Tiles(m=16, n=16, warps=4),
        ),
    ]  # fmt: skip
    tiles = gemm_tiles(size, capability)
    found.append(
        Specialisation(
            "matrix product", gemm_kernel, {"a": data, "b": data, "out": data},
            dict.fromkeys(("rows", "columns", "inner", "a_row", "b_row", "out_row"), "i32"), (),
            {"BLOCK_M": tiles.m, "BLOCK_N": tiles.n, "BLOCK_K": tiles.k, "TOGETHER": 8, "PRECISION": precision}, tiles,
        )
    )  # fmt: skip
    return found


def compile_for(given: Specialisation, capability: int) -> Compiled:
    """Compile to machine code; needs no device.

    Raises
    ------
    ValueError
        Under Triton's interpreter, which compiles nothing.
    """
    if not isinstance(given.kernel, triton.JITFunction):
        raise ValueError("compile_for: Triton runs as an interpreter here; unset TRITON_INTERPRET to compile")
    names: list[str] = given.kernel.arg_names
    signature = {**given.pointers, **given.numbers, **dict.fromkeys(given.constants, "constexpr")}
    aligned = [name for name in (*given.pointers, *given.numbers) if name not in given.odd]
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in aligned}
    source = ASTSource(given.kernel, {name: signature[name] for name in names}, dict(given.constants), attributes)
    options = {"num_warps": given.tiles.warps, "num_stages": given.tiles.stages, "enable_fp_fusion": True}
    made: Any = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    registers, stack = _resources(made.asm["cubin"])
    return Compiled(given.name, capability, made.asm["cubin"], made.asm["ptx"], made.metadata.shared, registers, stack)


def _resources(cubin: bytes) -> tuple[int | None, int | None]:
    """Registers and stack of a thread, by the tool that comes with Triton."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    if not tool.exists():
        return None, None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool, "--dump-resource-usage", file.name], capture_output=True, text=True)
    told = re.search(r"REG:(\d+) STACK:(\d+)", done.stdout)
    return (int(told[1]), int(told[2])) if told else (None, None)


def main(arguments: list[str]) -> int:
    """Print a line per kernel and architecture."""
    for capability in [int(text) for text in arguments] or list(SHARED_BYTES):
        for given in specialisations(capability):
            made = compile_for(given, capability)
            matrix = ", ".join(f"{n} {kind}" for kind, n in made.matrix_instructions.items()) or "no matrix instruction"
            print(
                f"sm_{capability} {made.name:32} {made.shared_bytes:7} B shared, {made.registers} registers, "
                f"{made.stack_bytes} B stack, {matrix}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
