"""Speed of building and timing the program of one iteration, against touching each action once; only printed."""

import time

import numba
import numpy as np
import pytest
from meshwright.seeds import generator
from meshwright.simulator.training import Link, Timing, make_program
from meshwright.simulator.training.compiled import run_compiled
from meshwright.simulator.training.timing import prepared

STAGES, MICROBATCHES = 96, 512
SLICES = 8


@numba.njit
def touched(duration, finish):
    now = 0.0
    for row in range(len(duration)):
        now += duration[row]
        finish[row] = now


def fastest(call, times=5):
    best = np.inf
    for _ in range(times):
        begin = time.thread_time()
        call()
        best = min(best, time.thread_time() - begin)
    return best


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(
    "schedule",
    ["gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_h2", "zb_v", "kfkb", "terapipe", "terapipe_1f1b"],
)
def test_one_iteration(schedule, overlap, benchmark):
    meshes = {"interleaved_1f1b": STAGES // 2, "zb_v": STAGES // 2}.get(schedule, STAGES)
    microbatches = MICROBATCHES - MICROBATCHES % meshes if schedule == "interleaved_1f1b" else MICROBATCHES

    slices = [SLICES] * (microbatches // SLICES) if schedule.startswith("terapipe") else ()
    size = [microbatches // 2 if schedule == "kfkb" and s % 2 else microbatches for s in range(STAGES)]
    size = len(slices) if slices else size

    def build():
        return make_program(schedule, STAGES, size, n_meshes=meshes, slices=slices)

    program = build()
    draw = generator(0, "bench")
    each = (len(slices), SLICES) if slices else ()  # every slice of every microbatch takes its own time
    seconds = draw.random((3, STAGES, *each))
    message = draw.random(each) if slices else 1.0
    ends = [(a, b) for s in range(STAGES - 1) for a, b in ((s, s + 1), (s + 1, s))]
    links = {
        (("forward" if b > a else "backward"), a, b): Link(
            0.01 * message, 0.001, (("out", program.mesh_of[a]), ("in", program.mesh_of[b]), ("node out", a // 8))
        )
        for a, b in ends
    }
    timing = Timing(*seconds, links=links, overlap=overlap)
    costs = prepared(program, timing)
    run_compiled(program, costs)
    finish = np.empty(len(program))
    touched(costs.duration, finish)
    built = fastest(build, 3)
    laid = fastest(lambda: prepared(program, timing))
    ran = fastest(lambda: run_compiled(program, costs))
    bare = fastest(lambda: touched(costs.duration, finish))
    print(
        f"\n{schedule}, overlap {overlap}: {len(program)} actions: built and checked in {built * 1e3:.0f} ms, costs "
        f"{laid * 1e3:.1f} ms, timed in {ran * 1e3:.1f} ms = {ran / len(program) * 1e9:.0f} ns an action, "
        f"{ran / bare:.0f} times touching each once ({bare * 1e3:.2f} ms)"
    )
    benchmark.pedantic(lambda: run_compiled(program, costs), rounds=1)
