"""The errors that Meshwright raises: one root, and one class for each thing a caller can do about it; how one is mended
that says something is not installed."""

from __future__ import annotations

__all__ = [
    "InfeasibleError",
    "InputError",
    "LimitError",
    "MeshwrightError",
    "OutOfProfileError",
    "RunError",
    "install_hint",
]


class MeshwrightError(Exception):
    """Root of every error that Meshwright raises on purpose. The command line prints it in one line."""

    exit_code = 1


class InputError(MeshwrightError, ValueError):
    """What was given is wrong. The message says where, what was given, and how to mend it."""

    exit_code = 2


class InfeasibleError(MeshwrightError):
    """The question is well posed but no plan answers it; the message names the smallest change that would."""

    exit_code = 3


class LimitError(MeshwrightError):
    """A limit of ours ended a search before it knew whether there is a plan; the message names it and what to raise."""

    exit_code = 1


class OutOfProfileError(MeshwrightError, LookupError):
    """A profile was asked for a point that it does not hold; the message names the nearest ones."""

    exit_code = 2


class RunError(MeshwrightError):
    """Something failed while it ran: a worker died, a device went away, a planner from outside raised."""

    exit_code = 1


def install_hint(*extras: str) -> str:
    """How to install what is missing: ``install_hint("serve")`` -> "pip install -e '.[serve]' in Meshwright's folder".

    Meshwright is on no package index: its extras are installed from the folder that it was cloned into.
    """
    return f"pip install -e '.[{','.join(extras)}]' in Meshwright's folder"
