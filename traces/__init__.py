"""Traces: request logs. Readers, generators, fitting and resampling."""

from .fit import fit_gamma
from .generate import gamma, poisson
from .merge import merge
from .synthetic import maf1_like, maf2_like
from .trace import Trace
from .windows import GammaWindows

__all__ = ["GammaWindows", "Trace", "fit_gamma", "gamma", "maf1_like", "maf2_like", "merge", "poisson"]
