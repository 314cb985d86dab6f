"""The errors that Meshwright raises: one root, and one class for each thing that a caller can do about an error.

`install_hint` words the remedy for a missing package.
"""

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
    """Something that was given is wrong. The message says where, what was given, and how to correct it."""

    exit_code = 2


class InfeasibleError(MeshwrightError):
    """The question is well posed but no plan answers it; the message names the smallest change that would."""

    exit_code = 3


class LimitError(MeshwrightError):
    """One of our own limits ended a search before it was known whether a plan exists. The message names the limit."""

    exit_code = 1


class OutOfProfileError(MeshwrightError, LookupError):
    """A profile was asked for a point that it does not hold; the message names the nearest ones."""

    exit_code = 2


class RunError(MeshwrightError):
    """Something failed while it ran: a worker died, a device went away, or an external planner raised an error."""

    exit_code = 1


def install_hint(*extras: str) -> str:
    """How to install missing packages: ``install_hint("serve")`` is "pip install -e '.[serve]' in Meshwright's folder".

    Meshwright is on no package index, so its extras are installed from the folder that it was cloned into.
    """
    return f"pip install -e '.[{','.join(extras)}]' in Meshwright's folder"
