"""`plan_loads`: which links the passes and messages of a plan take, where they are shared."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from ...mesh import Mesh
from ..fluid.loads import Loads, Use
from ..program.actions import Op, Program
from ..program.columns import W
from ..program.messages import Pair
from ..resharding.crossing import Resharding
from ..resharding.senders import Network
from .entries import StageEntry
from .file import TrainingPlan
from .links import PlanLinks

__all__ = ["plan_loads"]


def plan_loads(plan: TrainingPlan, program: Program, links: PlanLinks) -> Loads:
    """The loads of a plan.

    A stage's passes take what its `traffic` says. Of a plan that says none, only the reduction is known to be
    collectives all of its time: on the adapters of a mesh of several nodes, else on its devices' ports.

    Parameters
    ----------
    plan : TrainingPlan
        The plan.
    program : Program
        Its program: says where a backward pass is split.
    links : PlanLinks
        Its messages.
    """
    passes: dict[tuple[Op, int], Use] = {}
    split = set(program.columns.stage[program.columns.op == W].tolist())
    for s, stage in enumerate(plan.stages):
        for op, busy, seconds in _passes(stage, plan.mesh(s), s in split):
            use = _spread(busy, seconds, list(_links(plan.mesh(s), stage.mesh)))
            if use:
                passes[op, s] = use
    messages: dict[Pair, Use] = {}
    for pair, carried in links.reshardings.items():
        source, target = plan.stages[pair[1]].mesh, plan.stages[pair[2]].mesh
        ways = [way for _, way in carried]
        busy_s = _message_loads(ways, plan.mesh(pair[1]).network, source, target)
        seconds = sum(way.seconds for way in ways)
        use = {link: min(1.0, busy / seconds) for link, busy in busy_s.items() if busy > 0.0}
        if use:
            messages[pair] = use
    return Loads(passes, messages, plan.buckets)


def _passes(stage: StageEntry, mesh: Mesh, split: bool) -> Iterator[tuple[Op, tuple[float, ...], float]]:
    """Operations of a stage: seconds for which they keep links busy, and how long they take alone."""
    said = stage.traffic
    if not said:
        reduce = (0.0, stage.reduce_s) if mesh.hosts > 1 else (stage.reduce_s,)
        yield Op.REDUCE, reduce, stage.reduce_s
        return
    inputs, weights = said.get("backward_input", ()), said.get("backward_weight", ())
    yield Op.F, said.get("forward", ()), stage.forward_s
    if split:
        yield Op.B, inputs, stage.backward_input_s
        yield Op.W, weights, stage.backward_weight_s
    else:
        width = max(len(inputs), len(weights))
        both = [(*busy, *[0.0] * (width - len(busy))) for busy in (inputs, weights)]
        yield Op.B, tuple(a + b for a, b in zip(*both, strict=True)), stage.backward_input_s + stage.backward_weight_s
    yield Op.REDUCE, said.get("reduce", ()), stage.reduce_s
    yield Op.UPDATE, said.get("update", ()), stage.update_s


def _spread(busy: tuple[float, ...], seconds: float, links: list[list[Hashable]]) -> Use:
    """The share of each link, in the mean over an action."""
    shares = zip(links, busy, strict=False)  # an entry may leave out what it does not use
    return {name: min(1.0, b / seconds) for names, b in shares if b > 0.0 and seconds > 0.0 for name in names}


def _links(mesh: Mesh, number: int) -> Iterator[list[Hashable]]:
    """The links of a mesh, both ways: its devices' ports, the adapters of its nodes, the uplinks of each level."""
    network, ids = mesh.network, mesh.device_ids
    yield [("ports out", number), ("ports in", number)]
    adapters = sorted({network.adapter_of(d) for d in ids})
    yield [(f"adapter {way}", a) for a in adapters for way in ("out", "in")]
    for k in range(len(mesh.cluster.levels)):
        ends = sorted({mesh.cluster.uplink_of(d, k) for d in ids})
        yield [(f"uplink {way}", *end) for end in ends for way in ("out", "in")]


def _message_loads(ways: list[Resharding], cluster: Network, source: int, target: int) -> dict[Hashable, float]:
    """Seconds for which a message's bytes keep each link busy; of a mesh's ports, those of its busiest device."""
    busy: dict[Hashable, float] = {}
    ports: dict[tuple[str, int], float] = {}
    for m in (m for way in ways for m in way.messages):
        link = cluster.link(m.source, m.target)
        seconds = m.n_bytes / link.bandwidth_bytes_per_s
        if cluster.node_of(m.source) == cluster.node_of(m.target):
            for end in (("ports out", m.source), ("ports in", m.target)):
                ports[end] = ports.get(end, 0.0) + seconds
            continue
        names: list[tuple[Hashable, float]] = [
            (("adapter out", cluster.adapter_of(m.source)), seconds),
            (("adapter in", cluster.adapter_of(m.target)), seconds),
        ]
        for leaves, enters, bytes_per_s in cluster.uplinks(m.source, m.target):
            crossing = m.n_bytes / bytes_per_s
            names += [(("uplink out", *leaves), crossing), (("uplink in", *enters), crossing)]
        for name, s in names:
            busy[name] = busy.get(name, 0.0) + s
    for way, mesh in (("ports out", source), ("ports in", target)):
        busy[way, mesh] = max((s for (name, _), s in ports.items() if name == way), default=0.0)
    return busy
