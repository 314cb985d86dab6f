"""Tensors that are freed and asked for again cost no page faults once freed memory is kept."""

import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="tensors are torch's")

SCRIPT = """
import resource, torch
from meshwright.runtime.llm.engine.freed_memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(200):
        kept = [torch.empty(n).fill_(1.0) for n in (2**18, 2**17)]  # 1 MiB and half of it: 384 pages
        del kept
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(int(keep_freed_memory()), int(keep_freed_memory()))
faults()
print(faults())
"""


def test_a_step_again_faults_no_page_in():
    said = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout.split()
    if said[0] == "0":
        pytest.skip("this C library does not take the request")
    assert said[1] == "1"  # asked once per process
    assert int(said[2]) < 384  # of 76,800 pages that 200 rounds write to
