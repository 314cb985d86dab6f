"""`make_program`: a pipeline schedule as a program, one list of actions per mesh."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import InputError
from ...wording import nearest
from .program import Program
from .program_checks import check_program
from .program_transfers import Transfer, chain, longest_paths, with_transfers
from .schedule_orders import ORDERS, Pipeline

__all__ = ["SCHEDULES", "default_meshes", "make_program"]

SCHEDULES = tuple(ORDERS)
"""Names of the schedules."""


def make_program(
    schedule: str,
    n_stages: int,
    microbatches: int,
    *,
    mesh_of: Sequence[int] | None = None,
    n_meshes: int | None = None,
    transfers: Sequence[Transfer] | None = None,
    tied: Sequence[Sequence[int]] = (),
) -> Program:
    """The program of a pipeline.

    Parameters
    ----------
    schedule : str
        One of `SCHEDULES`: ``gpipe``, ``1f1b``, ``eager_1f1b``, ``interleaved_1f1b``, ``zb_h1``, ``zb_h2``, ``zb_v``,
        ``inference``.
    n_stages, microbatches : int
        Size.
    mesh_of : sequence of int, optional
        For each stage, its mesh. By default as the schedule wants it for `n_meshes` meshes.
    n_meshes : int, optional
        Number of meshes where `mesh_of` is not given; by default one per stage (``zb_v``: one per two).
    transfers : sequence of (int, int) or (int, int, bool), optional
        Which stage hands something to which, and whether a gradient comes back. By default a chain. Any graph without
        a circle is possible; where edges skip stages, 1F1B's warm-up follows the longest path.
    tied : sequence of sequence of int
        For each parameter that several stages keep (such as a tied embedding), those stages.

    Raises
    ------
    InputError
        If the schedule is unknown, cannot be had with these numbers, or the transfers contradict each other.
    DeadlockError
        If the meshes would wait for each other for ever.
    """
    if schedule not in ORDERS:
        near = nearest(str(schedule), SCHEDULES)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(SCHEDULES)}"
        raise InputError(f"schedule: unknown schedule {schedule!r}; {hint}")
    for name, value in (("n_stages", n_stages), ("microbatches", microbatches)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"make_program: {name}: expected a positive integer (got {value!r})")
    homes = tuple(mesh_of) if mesh_of is not None else default_meshes(schedule, n_stages, n_meshes)
    if len(homes) != n_stages or set(homes) != set(range(max(homes) + 1)):
        raise InputError(
            f"make_program: mesh_of: expected a mesh for each of {n_stages} stages, numbered from 0 without gaps "
            f"(got {list(homes)})"
        )
    edges = list(transfers) if transfers is not None else chain(n_stages)
    depth = longest_paths(n_stages, edges)
    for t in tied:
        if len(set(t)) != len(t) or not all(0 <= s < n_stages for s in t):
            raise InputError(f"make_program: tied: expected different ones of {n_stages} stages (got {list(t)})")
    pipeline = Pipeline.of(homes, microbatches, depth)
    orders = ORDERS[schedule](pipeline)
    columns = with_transfers(pipeline.by_mesh(orders), homes, edges, tied=() if schedule == "inference" else tied)
    program = Program.of_columns(columns, homes, microbatches, schedule)
    check_program(program, edges)
    return program


def default_meshes(schedule: str, n_stages: int, n_meshes: int | None = None) -> tuple[int, ...]:
    """For each stage, the mesh on which a schedule wants it: in turn, or there and back for ``zb_v``.

    Raises
    ------
    InputError
        If the stages cannot be laid out so.
    """
    if schedule == "zb_v":
        if n_stages % 2 or n_meshes not in (None, n_stages // 2):
            raise InputError(f"schedule zb_v: expected two stages on each mesh (got {n_stages} stages)")
        return (*range(n_stages // 2), *reversed(range(n_stages // 2)))
    p = n_stages if n_meshes is None else n_meshes
    if p < 1 or n_stages % p:
        raise InputError(f"make_program: n_meshes: {p} do not divide {n_stages} stages")
    return tuple(s % p for s in range(n_stages))
