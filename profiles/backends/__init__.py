"""Backends of inference graphs: patterns, rules, what is offered, and what it costs (Collage, thesis 003 ch. 2)."""

from . import installed
from .contract import GRAPH_LIBRARY, OPERATOR_LIBRARY, Backend, Compiled
from .costs import Conversion, CostTable, Match, Provenance, Refused, Used
from .document import Kept, load_costs, load_kept, merge_kept, save_costs
from .graph import InferenceGraph, Node, Value, ones
from .keys import Machine, cost_key, this_cpu, unit_key
from .kinds import kind_of
from .matching import matches_at
from .offers import Offer, offers
from .pattern import Pattern, is_op, wildcard
from .rule import PatternRule, SingleRule, TvmRule, check_path, generated, post_dominators

__all__ = [
    "GRAPH_LIBRARY",
    "OPERATOR_LIBRARY",
    "Backend",
    "Compiled",
    "Conversion",
    "CostTable",
    "InferenceGraph",
    "Kept",
    "Machine",
    "Match",
    "Node",
    "Offer",
    "Pattern",
    "PatternRule",
    "Provenance",
    "Refused",
    "SingleRule",
    "TvmRule",
    "Used",
    "Value",
    "check_path",
    "cost_key",
    "generated",
    "installed",
    "is_op",
    "kind_of",
    "load_costs",
    "load_kept",
    "matches_at",
    "merge_kept",
    "offers",
    "ones",
    "post_dominators",
    "save_costs",
    "this_cpu",
    "unit_key",
    "wildcard",
]
