"""A sharing policy as settings of systems that stand: Kueue and Slurm, and a scheduler plugin where they fall short.

Every export says in its README.md what of the policy the target keeps, and what it does not.
"""

from .export import TARGETS, export_sharing
from .fit import Fit, fit_of
from .holdings import Holding, holdings_at

__all__ = ["TARGETS", "Fit", "Holding", "export_sharing", "fit_of", "holdings_at"]
