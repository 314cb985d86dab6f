"""`PolicyChoice`: a policy by name and options, so that another process can make the same object."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import InputError
from ...reprs import Shown
from ...simulator.sharing.policy.baselines import BASELINES, baseline
from ...simulator.sharing.policy.contract import Policy
from ...wording import nearest

__all__ = ["PolicyChoice", "check_named"]

Option = str | float | int | bool


@dataclass(frozen=True, repr=False)
class PolicyChoice(Shown):
    """A policy by name, with its options, so that another process can make it.

    Parameters
    ----------
    name : str
        ``themis``, a baseline's name, or ``module:factory`` for one of your own.
    options : mapping of str to str, float, int or bool
        Keyword arguments for `Themis`, `baseline` or the factory.
    """

    name: str
    options: Mapping[str, Option] = field(default_factory=dict[str, Option])

    def make(self) -> Policy:
        """Make the policy; a new object each time.

        Raises
        ------
        InputError
            If the name or an option is unknown, or an option's value is invalid.
        """
        factory, skip = self._factory()
        known = [p for p in inspect.signature(factory).parameters if p not in skip]
        for option in self.options:
            if option not in known:
                near = nearest(option, known)
                hint = f"did you mean {near!r}?" if near else f"known: {', '.join(known) or 'none'}"
                raise InputError(f"policy {self.name}: unknown option {option!r}; {hint}")
        try:
            made = factory(**self.options)
        except TypeError as error:
            raise InputError(f"policy {self.name}: {error}; give other options") from None
        missing = [a for a in ("name", "preempts", "assign") if not hasattr(made, a)]
        if missing:
            raise InputError(f"policy {self.name}: what it makes is no policy: it has no {' and no '.join(missing)}")
        return made

    def _factory(self) -> tuple[Callable[..., Any], tuple[str, ...]]:
        """The callable that makes the policy, and those of its parameters that are no options."""
        if self.name == "themis":
            from ...planners.themis import Themis

            return Themis, ("name", "preempts")
        if self.name in BASELINES:
            return _Named(self.name), ()
        if ":" not in self.name:
            known = ("themis", *BASELINES)
            near = nearest(self.name, known)
            hint = f"did you mean {near!r}?" if near else f"known: {', '.join(known)}, or your own as module:factory"
            raise InputError(f"policy: unknown sharing policy {self.name!r}; {hint}")
        module, _, attribute = self.name.partition(":")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise InputError(f"policy: {self.name}: {error}; expected module:factory, on Python's path") from None
        if not callable(found):
            raise InputError(f"policy: {self.name}: expected a class or function that makes a policy (got {found!r})")
        return found, ()


def check_named(policy: str, said: str | None, where: str) -> None:
    """See that a policy that a file names is a shipped one, or the one that whoever reads the file named, too.

    Parameters
    ----------
    policy : str
        What the file names.
    said : str, optional
        What ``--policy`` says.
    where : str
        The file.

    Raises
    ------
    InputError
        If code would run only since the file says so, or the two are not the same.
    """
    if policy == said or (said is None and ":" not in policy):
        return
    if said is not None:
        raise InputError(f"{where}: policy: expected {said!r}, as --policy says (got {policy!r})")
    raise InputError(
        f"{where}: policy {policy!r} is code, which a file cannot have run; if you trust it, add --policy {policy}"
    )


class _Named:
    """`baseline` with its name given: what is left of its signature are the options."""

    def __init__(self, name: str) -> None:
        self.name = name
        whole = inspect.signature(baseline)
        self.__signature__ = whole.replace(parameters=[p for p in whole.parameters.values() if p.name != "name"])

    def __call__(self, **options: Any) -> Policy:
        return baseline(self.name, **options)
