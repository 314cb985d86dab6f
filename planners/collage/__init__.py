"""Collage (thesis 003 ch. 2): every operator of an inference graph on the backend that runs it best.

Here is what plans; nothing here runs or measures anything, or needs torch. Begin with `exact` (`place`), the op level,
on an `instance`: operators, matches and costs, which `masks` turns into bits. `program` takes over where graphs are too
wide. `published` is Algorithm 1 as it stands in print. `evolution` searches bits by measured times, `graph_level`
(`collage`) what they stand for, `engines` (`evolve`) a table of costs. `generator` (`groups`) makes patterns by TVM's
`kinds`; `contiguous` (`segments`) and `baselines` are what Collage is held against.
"""

from __future__ import annotations

from .baselines import exhaustive, rule_based, single_backend, single_backends
from .contiguous import narrow_points, segments, stretches
from .engines import EngineCosts, evolve
from .evolution import Evolution, EvolutionOptions, Evolved
from .exact import place
from .generator import groups, post_dominators
from .graph_level import Collaged, GraphLevel, Region, collage
from .instance import Instance, Match, Node, read_instance
from .kinds import kind_of
from .placement import Placement
from .published import published_placement

PLACERS = {
    "collage-op": place,
    "collage-published": published_placement,
    "collage-segments": segments,
    "exhaustive": exhaustive,
    "rule-based": rule_based,
    "single-backend": single_backend,
}
"""Name -> planner of an instance; each is called with it alone and returns a `Placement`."""

__all__ = [
    "PLACERS", "Collaged", "EngineCosts", "Evolution", "EvolutionOptions", "Evolved", "GraphLevel", "Instance", "Match",
    "Node", "Placement", "Region", "collage", "evolve", "exhaustive", "groups", "kind_of", "narrow_points", "place",
    "post_dominators", "published_placement", "read_instance", "rule_based", "segments", "single_backend",
    "single_backends", "stretches",
]  # fmt: skip
