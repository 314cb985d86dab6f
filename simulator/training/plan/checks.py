"""What is wrong between the entries of a training plan that are each right by themselves."""

from __future__ import annotations

from collections.abc import Sequence

from ....errors import InputError
from ...cluster import Cluster, JoinedClusters
from ...mesh import Mesh
from ...plan.clusters import cluster_of
from ...plan.entries import ClusterEntry, Problem
from .entries import MeshEntry, SliceEntry, StageEntry, TransferEntry
from .fit import schedule_problems, transfer_problems
from .passes import microbatch_problems, slice_problems

__all__ = ["contradictions", "mesh_of"]


def contradictions(
    clusters: Sequence[ClusterEntry | None],
    meshes: Sequence[MeshEntry | None],
    stages: Sequence[StageEntry | None],
    transfers: Sequence[TransferEntry | None],
    batch: tuple[int, int] | None,
    schedule: str | None = None,
    slices: Sequence[SliceEntry | None] = (),
    order: Sequence[int] = (),
) -> list[Problem]:
    """Where something is wrong, and what. Entries that could not be read are None, and what needs them is not checked.

    Parameters
    ----------
    clusters, meshes, stages, transfers
        The plan's entries; the first cluster, then further ones.
    batch : (int, int), optional
        Global batch and microbatches.
    schedule : str, optional
        The schedule; whether the stages fit it is checked where nothing else is wrong.
    slices : sequence of SliceEntry, optional
        Token slices.
    order : sequence of int, optional
        The order of operators that stages count in.
    """
    problems = microbatch_problems(batch, stages, transfers, bool(slices))
    problems += slice_problems(batch, slices, stages)
    if sorted(order) != list(range(len(order))):
        said = f"expected each of 0 … {len(order) - 1} once; an order holds every operator of the graph"
        problems.append((("model", "order"), said))
    where: list[Cluster | None] = []
    for c, entry in enumerate(clusters):
        try:
            where.append(None if entry is None else cluster_of(entry))
        except InputError as error:  # a link without bandwidth, less memory than is usable
            where.append(None)
            problems.append((("further_clusters", c - 1, "device") if c else ("cluster", "device"), str(error)))
    problems += _meshes(where, meshes)
    for s, stage in enumerate(stages):
        if stage is not None:
            problems += [(("stages", s, *loc), what) for loc, what in _stage(stage, meshes)]
    problems += transfer_problems(transfers, stages)
    whole = [s for s in stages if s is not None], [t for t in transfers if t is not None]
    if (
        schedule is not None
        and batch is not None
        and not problems
        and (len(whole[0]) == len(stages) and len(whole[1]) == len(transfers))
    ):
        problems += schedule_problems(schedule, batch, whole[1], whole[0], len(meshes), bool(slices))
    return problems


def mesh_of(entry: MeshEntry, clusters: Sequence[Cluster]) -> Mesh:
    """The devices of a mesh of a plan on these clusters.

    Raises
    ------
    InputError
        If it does not lie in its cluster.
    """
    joined = JoinedClusters(tuple(clusters)) if len(clusters) > 1 else None
    at = entry.hosts, entry.devices, entry.first_host, entry.first_device
    return Mesh(clusters[entry.cluster], *at, joined, entry.cluster)


def _meshes(clusters: Sequence[Cluster | None], meshes: Sequence[MeshEntry | None]) -> list[Problem]:
    problems: list[Problem] = []
    used: dict[int, int] = {}
    known = [c for c in clusters if c is not None]
    for m, entry in enumerate(meshes):
        if entry is not None and entry.cluster >= len(clusters):
            problems.append((("meshes", m, "cluster"), f"there are {len(clusters)} clusters (got {entry.cluster})"))
            continue
        if entry is None or len(known) < len(clusters):
            continue
        try:
            ids = mesh_of(entry, known).device_ids
        except InputError as error:
            problems.append((("meshes", m), str(error)))
            continue
        taken = next((d for d in ids if d in used), None)
        if taken is not None:
            problems.append((("meshes", m), f"device {taken} is in mesh {used[taken]} already"))
        used.update(dict.fromkeys(ids, m))
    return problems


def _stage(stage: StageEntry, meshes: Sequence[MeshEntry | None]) -> list[Problem]:
    problems: list[Problem] = []
    if stage.first >= stage.last:
        problems.append(((), f"expected first < last (got {stage.first} and {stage.last})"))
    if stage.mesh >= len(meshes):
        return [*problems, (("mesh",), f"there are {len(meshes)} meshes (got {stage.mesh})")]
    if min(stage.logical) < 1:
        return [*problems, (("logical",), f"expected two positive sizes (got {list(stage.logical)})")]
    entry = meshes[stage.mesh]
    if entry is not None and stage.logical[0] * stage.logical[1] != entry.hosts * entry.devices:
        said = f"{stage.logical[0]} x {stage.logical[1]} is no view of {entry.hosts} x {entry.devices} devices"
        problems.append((("logical",), said))
    return problems
