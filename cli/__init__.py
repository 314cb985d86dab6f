"""The command line: one file per verb, thin. Heavy libraries are imported inside the verbs, when they run."""

from .main import app, run

__all__ = ["app", "run"]
