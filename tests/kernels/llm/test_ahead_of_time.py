"""The Triton kernels compile for sm_80, sm_90 and sm_100 without a device, and to what they should."""

import os
import re
from functools import cache
from importlib.util import find_spec

import pytest

if find_spec("triton") is None or find_spec("torch") is None:
    pytest.skip("Triton is not installed (pip install triton)", allow_module_level=True)
if os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
    pytest.skip("TRITON_INTERPRET is set: Triton compiles nothing", allow_module_level=True)

from meshwright.kernels.llm.ahead_of_time import SHARED_BYTES, compile_for, specialisations

UNIT = {80: "mma.sync", 90: "wgmma.mma_async", 100: "tcgen05.mma"}
DECODE_UNIT = "mma.sync"
"""Sixteen rows of queries are too few for products of warp groups, on every architecture."""

CASES = [(sm, given) for sm in (80, 90, 100) for given in specialisations(sm)]
pytestmark = pytest.mark.filterwarnings("ignore")


@cache
def made(index):
    sm, given = CASES[index]
    return compile_for(given, sm)


def marks(given):
    """Of the two shapes of heads, one is compiled for each architecture; the other in `make test-all`."""
    return [pytest.mark.slow] if given.name.endswith("groups of 1, width 64") else []


@pytest.mark.parametrize(
    "index",
    [pytest.param(i, id=f"sm_{sm}-{given.name}", marks=marks(given)) for i, (sm, given) in enumerate(CASES)],
)
def test_it_compiles_and_fits(index):
    sm, given = CASES[index]
    found = made(index)
    assert found.cubin[:4] == b"\x7fELF"
    assert found.shared_bytes <= SHARED_BYTES[sm]
    assert found.registers is None or 0 < found.registers <= 255
    assert not found.stack_bytes  # registers that spill cost more than a smaller tile
    kinds = found.matrix_instructions
    if given.name.startswith("decode"):
        assert set(kinds) == {DECODE_UNIT}
        # two programs per multiprocessor keep enough bytes on their way
        assert 2 * found.shared_bytes <= SHARED_BYTES[sm]
        # keys and values stream past the registers, 16 bytes a time
        assert len(re.findall(r"cp\.async\.c[ag]\.shared\.global .*0x10", found.ptx)) >= 16
    elif given.name.startswith(("prefill", "matrix")):
        assert set(kinds) == {UNIT[sm]}
    else:
        assert not kinds
        assert "ld.global.v4" in found.ptx or "ld.global.v2" in found.ptx or given.name.startswith("merge")


def test_fp16_and_fp32_decode_compile_too():
    for dtype in ("fp16", "fp32"):
        decode = next(given for given in specialisations(90, dtype) if given.name.startswith("decode"))
        found = compile_for(decode, 90)
        assert bool(found.matrix_instructions) == (dtype == "fp16")  # fp32 is multiplied as fp32, by no matrix unit
        assert found.shared_bytes <= SHARED_BYTES[90]
