"""What training cases share: graphs, shapes, tables and profiles, loaded and checked before the first point."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import InputError
from ...files import readable
from ...planners.training import CONFIGURATION_SEARCH, TRAINING_PLANNERS, planner_options
from ...profiles.hardware import LinkSpec, device
from ...simulator.cluster import Cluster
from ...simulator.topology import Level
from ...wording import nearest
from ..words import under
from .case import TrainingCase, TrainingClusterCase
from .long_run import check_failing, graph_bytes, shape_bytes

if TYPE_CHECKING:
    from ...planners.terapipe.slice_profile import SliceProfile
    from ...profiles.graph import Graph
    from ...profiles.llm import KernelTables
    from ...simulator.training import TransformerShape

__all__ = ["PLANNERS", "TrainingData", "cluster_of", "is_search", "load_data", "model_key"]

PLANNERS = (*TRAINING_PLANNERS, CONFIGURATION_SEARCH)
"""Names of the planners."""

TERAPIPE = "terapipe"
"""The planner that takes measured slices."""

SHORT = {"layers": "n_layers"}
"""Short names of options."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TrainingData:
    """What was loaded.

    Parameters
    ----------
    graphs : mapping of str to Graph
        By `model_key`: of planners of graphs.
    shapes : mapping of str to TransformerShape
        By `model_key`: of the configuration search.
    tables : mapping of str to KernelTables
        By folder.
    slices : mapping of str to SliceProfile
        By file: of TeraPipe.
    digests : mapping of str to str
        Name of a file or folder -> SHA-256 of its content.
    """

    graphs: dict[str, Graph] = field(default_factory=dict[str, "Graph"])
    shapes: dict[str, TransformerShape] = field(default_factory=dict[str, "TransformerShape"])
    tables: dict[str, KernelTables] = field(default_factory=dict[str, "KernelTables"])
    slices: dict[str, SliceProfile] = field(default_factory=dict[str, "SliceProfile"])
    digests: dict[str, str] = field(default_factory=dict[str, str])

    def graph_of(self, case: TrainingCase) -> Graph:
        """The graph of a case's model."""
        return self.graphs[model_key(case)]

    def options_of(self, case: TrainingCase) -> dict[str, Any]:
        """Options of the planner, files among them loaded."""
        said = _plain(case)
        named = said.get("slice_profile")
        return said if named is None else said | {"slice_profile": self.slices[str(named)]}

    def checkpoint_bytes(self, case: TrainingCase, optimizer: str = "adam", dtype: str = "bfloat16") -> float:
        """Bytes of a checkpoint of a case's model."""
        if is_search(case):
            return shape_bytes(self.shapes[model_key(case)], dtype)
        return graph_bytes(self.graph_of(case), optimizer)

    def digests_of(self, case: TrainingCase) -> dict[str, str]:
        """Of the files that a case reads."""
        named = (case.model, case.kernels, _plain(case).get("slice_profile"))
        return {name: self.digests[name] for name in named if isinstance(name, str) and name in self.digests}


def is_search(case: TrainingCase) -> bool:
    """Whether the configuration search plans, which knows a decoder by its sizes."""
    return case.planner.name == CONFIGURATION_SEARCH


def model_key(case: TrainingCase) -> str:
    """What tells the model of a case from that of another."""
    sizes = sorted(case.shape.said.items())
    return json.dumps([case.model, sizes, case.workload.sequence])


def cluster_of(case: TrainingCase) -> Cluster:
    """The devices: full nodes, or where these do not come out even the largest equal nodes."""
    c = case.cluster
    per_node = next(n for n in range(min(c.devices, c.devices_per_node), 0, -1) if c.devices % n == 0)
    spec = device(c.device)
    memory, speed = c.device_memory, case.speed.get(c.device, 1.0)
    changed = replace(
        spec,
        memory_bytes=memory,
        usable_memory_bytes=min(spec.usable_memory_bytes, memory),
        peak_flops=spec.peak_flops * speed,
        memory_bandwidth_bytes_per_s=spec.memory_bandwidth_bytes_per_s * speed,
        intra_node=_link(spec.intra_node, c.intra_node_bandwidth, c.link_scale),
        inter_node=_link(spec.inter_node, c.inter_node_bandwidth, c.link_scale),
    )
    levels = () if c.rack_nodes is None else (Level(c.rack_nodes, c.oversubscription, rails=c.rails),)
    return Cluster(c.devices // per_node, per_node, c.device if changed == spec else changed, levels)


def further_clusters_of(case: TrainingCase) -> tuple[Cluster, ...]:
    """The clusters that `cluster.also` says."""
    found: list[Cluster] = []
    for one in filter(None, (text.strip() for text in case.cluster.also.split(","))):
        sizes, name = one.split("x")[:2], one.split("x", 2)[-1]
        if not (len(sizes) == 2 and sizes[0].isdigit() and sizes[1].isdigit()):
            sizes, name = sizes[:1], one.partition("x")[2]
        if not name or not all(n.isdigit() and int(n) for n in sizes):
            raise InputError(
                f"expected devices x type, such as 4xv100-16gb, or nodes x devices x type, such as 2x8xv100-16gb "
                f"(got {one!r})"
            )
        c = case.cluster
        part = TrainingClusterCase(
            devices=int(sizes[-1]) * (int(sizes[0]) if sizes[1:] else 1), device=name, link_scale=c.link_scale,
            devices_per_node=int(sizes[-1]) if sizes[1:] else c.devices_per_node,
        )  # fmt: skip
        found.append(cluster_of(case.model_copy(update={"cluster": part})))
    return tuple(found)


def _check_further(case: TrainingCase) -> None:
    """Refuse what goes with one cluster only."""
    further_clusters_of(case)
    for wrong, what in (
        (case.planner.name != ALPA, f"planner {case.planner.name} plans for one cluster; take {ALPA}"),
        (case.cluster.rack_nodes is not None, "several clusters go without rack_nodes; leave one of them out"),
        (case.cluster.links == "shared", "several clusters go with links apart only"),
        (case.failures.some, "failures are simulated of one cluster only; leave mtbf and node_mtbf out"),
    ):
        if wrong:
            raise InputError(what)


def _link(link: LinkSpec, bandwidth: float | None, factor: float) -> LinkSpec:
    wide = link.bandwidth_bytes_per_s if bandwidth is None else bandwidth
    return LinkSpec(wide * factor, link.latency_s)


def load_data(cases: Sequence[TrainingCase], folder: Path) -> TrainingData:
    """Load what cases name.

    Raises
    ------
    InputError
        Every problem, one a line, each beginning with the field that it is about.
    """
    data, wrong = TrainingData(), list[str]()

    def tried(path: str, load: Callable[[], T]) -> T | None:
        try:
            return load()
        except InputError as error:
            (line,) = under(path, " ".join(str(error).split()))
            if line not in wrong:
                wrong.append(line)
            return None

    def once(path: str, key: str | None, into: dict[str, T], load: Callable[[], T]) -> None:
        if key is not None and key not in into:
            found = tried(path, load)
            if found is not None:
                into[key] = found

    for case in cases:
        tried("cluster", lambda c=case: cluster_of(c))
        for name in case.speed:
            tried("speed", lambda n=name: device(n))
        if tried("planner.name", lambda c=case: _known(c.planner.name)) is None:
            continue
        _check(case, tried)
        key = model_key(case)
        if is_search(case):
            once("model", key, data.shapes, lambda c=case: _shape(c))
            once("kernels", case.kernels, data.tables, lambda c=case: _tables(str(c.kernels), folder, data))
        else:
            once("model", key, data.graphs, lambda c=case: _graph(c, folder, data))
        if case.failures.some and (key in data.shapes or key in data.graphs):
            _check_failing(case, data, wrong)
        profile = _plain(case).get("slice_profile")
        if isinstance(profile, str) and case.planner.name == TERAPIPE:
            once("planner.options", profile, data.slices, lambda p=profile: _slices(p, folder, data))
    if wrong:
        raise InputError("\n".join(wrong))
    return data


def _check_failing(case: TrainingCase, data: TrainingData, wrong: list[str]) -> None:
    try:
        check_failing(case, cluster_of(case), data.checkpoint_bytes(case))
    except InputError as error:
        if str(error) not in wrong:
            wrong.append(str(error))


def _plain(case: TrainingCase) -> dict[str, Any]:
    """Options as the planner names them."""
    said = {name.replace("-", "_"): value for name, value in case.planner.options.items()}
    return {SHORT.get(name, name): value for name, value in said.items()}


def _known(name: str) -> bool:
    if name not in PLANNERS:
        near = nearest(name, PLANNERS)
        hint = f"did you mean {near!r}?" if near else f"those of training are {', '.join(PLANNERS)}"
        raise InputError(f"{name!r} plans no training; {hint}")
    return True


def _check(case: TrainingCase, tried: Callable[[str, Callable[[], Any]], Any]) -> None:
    """What no field alone can tell is wrong."""
    name, work = case.planner.name, case.workload
    tried("planner.options", lambda: planner_options(name).of(_plain(case)))
    if is_search(case):
        if work.microbatches is not None:
            tried(
                "workload.microbatches", lambda: _refuse("planner search chooses them; give planner.options.microbatch")
            )
    elif case.kernels is not None:
        tried("kernels", lambda: _refuse(f"are for planner {CONFIGURATION_SEARCH}, not for {name!r}; leave it out"))
    elif work.microbatches is not None and "microbatches" in _plain(case):
        tried(
            "workload.microbatches", lambda: _refuse("planner.options.microbatches says it, too; give one of the two")
        )


def _refuse(why: str) -> None:
    raise InputError(why)


def _shape(case: TrainingCase) -> TransformerShape:
    """The decoder, for the configuration search."""
    from ...planners.megatron import model_shape

    found = model_shape(case.model, case.workload.sequence)
    sizes = case.shape.said
    if "experts" in sizes:
        raise InputError("shape.experts: planner search models no experts; leave it out")
    # What a model has by a rule (heads of keys and values, GPT's inner size) follows the sizes that the rule names.
    freed: dict[str, int] = {}
    if found.kv_heads == found.heads:
        freed["kv_heads"] = 0
    if found.ffn == 4 * found.hidden:
        freed["ffn"] = 0
    if found.head_dim * found.heads == found.hidden:
        freed["head_dim"] = 0
    return replace(found, **{**freed, **sizes}) if sizes else found


def _graph(case: TrainingCase, folder: Path, data: TrainingData) -> Graph:
    """The graph: of the zoo, perhaps in other sizes; of a file; or traced from a module. It has a loss."""
    from ...profiles.graph import check_loss

    found = _named(case, folder, data)
    check_loss(found)
    return found


def _named(case: TrainingCase, folder: Path, data: TrainingData) -> Graph:
    from ...profiles.graph import build_graph, in_zoo
    from ...profiles.graph.named import graph_of

    sizes = dict(case.shape.said)
    if case.workload.sequence is not None:
        sizes["seq"] = case.workload.sequence
    if in_zoo(case.model):
        return build_graph(case.model, sizes=sizes) if sizes else graph_of(case.model, "model")
    file, colon, function = case.model.rpartition(":") if ".py:" in case.model else (case.model, "", "")
    found = graph_of(f"{folder / file}{colon}{function}", "model") if (folder / file).is_file() else graph_of(
        case.model, "model"
    )  # fmt: skip
    if sizes:
        what = "workload.sequence" if "seq" in sizes else f"shape.{next(iter(sizes))}"
        raise InputError(f"{what}: {case.model} has sizes of its own; take a model of the zoo, or change the file")
    data.digests[case.model] = hashlib.sha256(found.to_json().encode()).hexdigest()
    return found


def _tables(name: str, folder: Path, data: TrainingData) -> KernelTables:
    from ...profiles.llm import KernelTables

    found = KernelTables.load(folder / name)
    together = hashlib.sha256()
    for each in sorted(p for p in (folder / name).rglob("*") if p.is_file()):
        together.update(each.relative_to(folder / name).as_posix().encode() + b"\0" + each.read_bytes())
    data.digests[name] = together.hexdigest()
    return found


def _slices(name: str, folder: Path, data: TrainingData) -> SliceProfile:
    from ...planners.terapipe.slice_profile import SliceProfile

    found = SliceProfile.load(folder / name)
    data.digests[name] = hashlib.sha256(readable(folder / name).read_bytes()).hexdigest()
    return found
