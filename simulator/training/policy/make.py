"""`make_program`: a pipeline schedule as a program, one list of actions per mesh."""

from __future__ import annotations

from collections.abc import Sequence

from ....errors import InputError
from ....wording import nearest
from ..program.actions import Program
from ..program.checks import check_program
from ..program.transfers import Transfer, chain, longest_paths, with_transfers
from .orders import ORDERS, Pipeline, check_layout
from .turns import Turns

__all__ = ["SCHEDULES", "default_meshes", "make_program"]

SCHEDULES = tuple(ORDERS)
"""Names of the schedules."""


def make_program(
    schedule: str,
    n_stages: int,
    microbatches: int | Sequence[int],
    *,
    mesh_of: Sequence[int] | None = None,
    n_meshes: int | None = None,
    transfers: Sequence[Transfer] | None = None,
    tied: Sequence[Sequence[int]] = (),
    slices: Sequence[int] = (),
    turns: Turns | None = None,
) -> Program:
    """Make the program of a pipeline schedule: the actions of every mesh, in order.

    Parameters
    ----------
    schedule : str
        One of `SCHEDULES`: ``gpipe``, ``1f1b``, ``eager_1f1b``, ``interleaved_1f1b``, ``zb_h1``, ``zb_h2``, ``zb_v``,
        ``dualpipe``, ``inference``, ``kfkb``, ``explicit``, ``terapipe``, ``terapipe_1f1b``.
    n_stages : int
        Number of stages.
    microbatches : int or sequence of int
        Microbatches: one number for all stages or, with ``gpipe``, ``kfkb``, ``explicit`` and ``inference``, one for
        each; ``dualpipe``: of each direction. Of two stages with a transfer between them, one's number must divide the
        other's.
    mesh_of : sequence of int, optional
        For each stage, its mesh. By default as the schedule wants it for `n_meshes` meshes.
    n_meshes : int, optional
        Number of meshes where `mesh_of` is not given; by default one per stage (``zb_v``, ``dualpipe``: one per two).
    transfers : sequence of (int, int) or (int, int, bool), optional
        Pairs of stages of which the first sends to the second, and whether a gradient comes back. By default a chain
        (``dualpipe``: two);
        any acyclic graph is possible. Where edges skip stages, 1F1B's warm-up follows the longest path.
    tied : sequence of sequence of int
        For each parameter that several stages share (such as a tied embedding), those stages.
    slices : sequence of int
        For ``terapipe`` and ``terapipe_1f1b``: number of token slices of each microbatch; by default one each.
    turns : Turns, optional
        For ``kfkb`` and ``explicit``: how forward and backward passes take turns.

    Raises
    ------
    InputError
        If the schedule is unknown or impossible with these numbers, or the transfers contradict each other.
    DeadlockError
        If the meshes would deadlock.
    """
    if schedule not in ORDERS:
        near = nearest(str(schedule), SCHEDULES)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(SCHEDULES)}"
        raise InputError(f"schedule: unknown schedule {schedule!r}; {hint}")
    counts = (microbatches,) * (n_stages if _whole(n_stages) else 1) if isinstance(microbatches, int) else microbatches
    for name, values in (("n_stages", (n_stages,)), ("microbatches", counts), ("slices", slices)):
        for value in values:
            if not _whole(value):
                raise InputError(f"make_program: {name}: expected a positive integer (got {value!r})")
    if len(counts) != n_stages:
        raise InputError(f"make_program: microbatches: expected one for each of {n_stages} stages (got {len(counts)})")
    taken = turns or Turns()
    taken.check(n_stages)
    homes = tuple(mesh_of) if mesh_of is not None else default_meshes(schedule, n_stages, n_meshes)
    if len(homes) != n_stages or set(homes) != set(range(max(homes) + 1)):
        raise InputError(
            f"make_program: mesh_of: expected a mesh for each of {n_stages} stages, numbered from 0 without gaps "
            f"(got {list(homes)})"
        )
    edges = list(transfers) if transfers is not None else _chains(schedule, n_stages)
    depth = longest_paths(n_stages, edges)
    for t in tied:
        if len(set(t)) != len(t) or not all(0 <= s < n_stages for s in t):
            raise InputError(f"make_program: tied: expected different ones of {n_stages} stages (got {list(t)})")
    pipeline = Pipeline.of(
        homes, counts, depth, edges=[(a, b) for a, b, *_ in edges],
        k=taken.k, warmup=taken.warmup, order=taken.order, slices=slices,
    )  # fmt: skip
    check_layout(schedule, pipeline)
    orders = ORDERS[schedule](pipeline)
    columns = with_transfers(
        pipeline.by_mesh(orders), homes, edges, tied=() if schedule == "inference" else tied, counts=counts
    )
    program = Program.of_columns(columns, homes, counts, schedule)
    check_program(program, edges)
    return program


def _chains(schedule: str, n_stages: int) -> list[Transfer]:
    """Who sends to whom where nothing is said: a chain; of DualPipe, whose model is there twice, one of each."""
    edges = chain(n_stages)
    return edges if schedule != "dualpipe" else [edge for edge in edges if edge[1] != n_stages // 2]


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def default_meshes(schedule: str, n_stages: int, n_meshes: int | None = None) -> tuple[int, ...]:
    """For each stage, the mesh on which a schedule wants it: in turn, or there and back for ``zb_v`` and ``dualpipe``.

    Raises
    ------
    InputError
        If the stages cannot be laid out so.
    """
    if schedule in ("zb_v", "dualpipe"):
        if n_stages % 2 or n_meshes not in (None, n_stages // 2):
            raise InputError(f"schedule {schedule}: expected two stages on each mesh (got {n_stages} stages)")
        return (*range(n_stages // 2), *reversed(range(n_stages // 2)))
    p = n_stages if n_meshes is None else n_meshes
    if p < 1 or n_stages % p:
        raise InputError(f"make_program: n_meshes: {p} do not divide {n_stages} stages")
    return tuple(s % p for s in range(n_stages))
