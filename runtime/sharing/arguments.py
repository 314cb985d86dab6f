"""Arguments that the commands of this package share."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path

from ...errors import InputError
from ...simulator.sharing.policy.learning import Beliefs
from ...simulator.sharing.workload.app import Slowdown
from ...simulator.sharing.world import SharingWorld
from .choice import PolicyChoice

__all__ = ["add_run_arguments", "add_world_arguments", "choice_of", "whole", "world_of"]


def add_world_arguments(parser: argparse.ArgumentParser) -> None:
    """What is run: a file, or a dozen apps."""
    parser.add_argument("--world", type=Path, metavar="FILE", help="a world that save_world wrote; else a dozen apps")
    parser.add_argument("--apps", type=int, default=12, help="of the dozen: how many (12)")
    parser.add_argument("--lease", type=float, default=600.0, help="of the dozen: seconds of a lease (600)")
    parser.add_argument("--across-racks", type=float, default=1.3, help="of the dozen: slowdown across racks (1.3)")
    parser.add_argument(
        "--slowdown", choices=("known", "assumed", "learned"), default=None,
        help="whether agents know slowdowns, assume 1, 1.1 and 1.3, or measure them (as the world says; known)",
    )  # fmt: skip


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """How it is run."""
    parser.add_argument("--time-scale", type=float, default=100.0, help="seconds of the world per real one (100)")
    parser.add_argument("--slot-steps", type=float, default=40.0, help="training steps per slot and real second (40)")
    parser.add_argument("--slots-per-core", type=int, default=2, help="at most so many GPUs per core (2)")
    parser.add_argument(
        "--answer-s", type=float, default=10.0, help="an agent that is silent for so long is ended (10)"
    )
    parser.add_argument("--patience", type=float, default=3.0, help="given up after so many times as simulated (3)")
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help="of the policy, such as fairness=0.5"
    )


def world_of(arguments: argparse.Namespace, seed: int) -> SharingWorld:
    """The world that arguments say."""
    from .documents import load_world_document
    from .dozen import dozen

    if arguments.world is not None:
        world = load_world_document(arguments.world)
        if arguments.slowdown is None:
            return world
        return replace(world, beliefs=replace(world.beliefs, slowdown=arguments.slowdown))
    if arguments.apps < 1:
        raise InputError(f"--apps: expected an integer >= 1 (got {arguments.apps})")
    far = arguments.across_racks
    if not (math.isfinite(far) and far >= 1):
        raise InputError(f"--across-racks: expected a finite factor >= 1 (got {far:g})")
    made = dozen(seed, apps=arguments.apps, lease_s=arguments.lease, slowdown=Slowdown(rack=min(1.1, far), cluster=far))
    return made if arguments.slowdown is None else replace(made, beliefs=Beliefs(arguments.slowdown))


def choice_of(name: str, options: list[str], lease_s: float, seed: int | None = None) -> PolicyChoice:
    """A policy by name and options such as ``fairness=0.5``.

    A baseline looks ahead a lease of the world; what is drawn follows from `seed`, unless an option says otherwise.
    """
    from ...simulator.sharing.policy.baselines import BASELINES

    said: dict[str, str | float | int | bool] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not key or not equals:
            raise InputError(f"--option: expected key=value, such as fairness=0.5 (got {option!r})")
        said[key] = _value(value)
    if name in BASELINES:
        said = {"lease_s": lease_s} | said
    if seed is not None and (name == "themis" or name in BASELINES):
        said = {"seed": seed} | said
    return PolicyChoice(name, said)


def whole(what: str, text: str) -> list[int]:
    """Whole numbers, separated by commas or blanks."""
    try:
        found = [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        found = []
    if not found or min(found) < 0:
        raise InputError(f"{what}: expected whole numbers >= 0, such as 0,1,2 (got {text!r})")
    return found


def _value(text: str) -> str | float | int | bool:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str | float | int | bool) else text
