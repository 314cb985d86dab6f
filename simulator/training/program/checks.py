"""`check_program`: whether a program is complete, in order, and free of deadlock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from . import kernels as program_kernels
from .actions import Program
from .columns import B, F, W
from .messages import messages_of

__all__ = ["DeadlockError", "check_program", "deadlock"]


_compiled: Any = program_kernels  # numba functions have no types


class DeadlockError(InputError):
    """A deadlock: meshes wait for each other."""


def check_program(program: Program, transfers: Sequence[tuple[Any, ...]] = ()) -> None:
    """Check a program before it is simulated or run.

    It checks that

    - every pass of a stage happens at most once, in the order forward, backward, weights' half of the backward;
    - every forward pass has its backward pass, or none has;
    - the token slices of a microbatch go forward from first to last, and then backward from last to first;
    - whatever is sent is received;
    - what a mesh hands itself is made before it is read (this needs `transfers`, the edges between stages);
    - the meshes do not deadlock. Sends do not wait for their receives, so this does not depend on times.

    Raises
    ------
    InputError
        On the first of these rules that is broken.
    DeadlockError
        On a deadlock; the message names the meshes, and what each waits for.
    """
    place = _places(program)
    _in_order(program, place, F, B, "backward", "forward")
    _in_order(program, place, B, W, "weights' half", "backward")
    trained = np.any(place[B] >= 0, axis=1)
    lost = (place[F] >= 0) & (place[B] < 0) & trained[:, None]
    for stage, unit in np.argwhere(lost)[:1]:
        raise InputError(f"program: {program.action(int(place[F][stage, unit]))} has no backward")
    _sliced(program, place)
    for source, target, *gradient in transfers:
        if program.mesh_of[source] == program.mesh_of[target]:
            _handed(program, place[F], source, target)
            if not gradient or gradient[0]:
                _handed(program, place[B], target, source)
    messages = messages_of(program)
    at: npt.NDArray[np.int64] = _compiled.sweep(messages.word, program.columns.offsets, messages.n_messages)
    if np.any(at < program.columns.offsets[1:]):
        raise deadlock(program, at)


def deadlock(program: Program, at: npt.NDArray[np.int64]) -> DeadlockError:
    """The error that says who waits for what; `at` is the row at which each mesh stands."""
    waiting: list[str] = []
    bounds = program.columns.offsets
    for mesh in np.flatnonzero(at < bounds[1:]).tolist():
        action = program.action(int(at[mesh]))
        waiting.append(
            f"mesh {mesh} (stage {action.stage}) waits at {action} for stage {action.peer} on mesh "
            f"{program.mesh_of[action.peer]}"
        )
    more = f"; and {len(waiting) - 8} more" if len(waiting) > 8 else ""
    return DeadlockError(f"program: deadlock: {'; '.join(waiting[:8])}{more}; change the order of their actions")


def _places(program: Program) -> dict[int, npt.NDArray[np.int64]]:
    """For F, B and W, the row of each (stage, microbatch and slice), −1 where there is none."""
    c = program.columns
    slices = int(c.slice.max(initial=0)) + 1
    place, wrong = _compiled.places(
        c.op, c.stage, c.microbatch, c.slice, program.microbatches * slices, slices, program.n_stages
    )
    if wrong >= 0:
        what = "is of no microbatch" if c.microbatch[wrong] < 0 else "happens twice"
        raise InputError(f"program: mesh {c.mesh[wrong]}: {program.action(int(wrong))} {what}")
    return dict(zip((F, B, W), place, strict=True))


def _in_order(
    program: Program, place: dict[int, npt.NDArray[np.int64]], first: int, then: int, name: str, before: str
) -> None:
    wrong = (place[then] >= 0) & ((place[first] < 0) | (place[first] > place[then]))
    for stage, unit in np.argwhere(wrong)[:1]:
        row = int(place[then][stage, unit])
        raise InputError(
            f"program: mesh {program.columns.mesh[row]}: {program.action(row)}: no {before} before this {name}"
        )


def _sliced(program: Program, place: dict[int, npt.NDArray[np.int64]]) -> None:
    """Check the order of token slices: a slice attends to the keys and values of the slices before it, and these get
    gradients from the slices after them. So slices go forward in order and backward in reverse."""
    slices = place[F].shape[1] // program.microbatches
    if slices == 1:
        return
    forward, backward = (place[op].reshape(program.n_stages, -1, slices) for op in (F, B))
    wrong = (forward[:, :, 1:] >= 0) & ((forward[:, :, :-1] < 0) | (forward[:, :, :-1] > forward[:, :, 1:]))
    for stage, microbatch, j in np.argwhere(wrong)[:1]:
        raise InputError(
            f"program: {program.action(int(forward[stage, microbatch, j + 1]))} comes before slice {j} went forward"
        )
    later = np.concatenate((backward[:, :, 1:], np.full_like(backward[:, :, :1], -1)), axis=2)
    wrong = (backward >= 0) & ((later > backward) | (forward.max(axis=2, keepdims=True) > backward))
    for stage, microbatch, j in np.argwhere(wrong)[:1]:
        raise InputError(
            f"program: {program.action(int(backward[stage, microbatch, j]))} comes before the slices after it are done"
        )


def _handed(program: Program, place: npt.NDArray[np.int64], source: int, target: int) -> None:
    """Whether a mesh makes what one of its stages reads before that one does."""
    many, few = program.microbatches_of[source], program.microbatches_of[target]
    slices = place.shape[1] // program.microbatches
    made, read = (place[s, : n * slices].reshape(n, slices) for s, n in ((source, many), (target, few)))
    # each of the smaller microbatches beside the larger one that it is a part of, shape (most, slices)
    made, read = (np.repeat(rows, max(many, few) // len(rows), axis=0) for rows in (made, read))
    for unit, piece in np.argwhere((read >= 0) & (made > read))[:1].tolist():
        early, late = program.action(int(read[unit, piece])), program.action(int(made[unit, piece]))
        mesh = program.mesh_of[source]
        raise DeadlockError(f"program: deadlock: mesh {mesh} does {early} before {late}, whose result it needs")
