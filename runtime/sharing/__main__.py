"""``python -m meshwright.runtime.sharing``: the arbiter, its agents, the extender and the comparison as commands.

=============  ====================================================================================================
``serve``      the arbiter of a world in a process of its own; agents come to it
``agents``     agents for the apps of an arbiter that runs
``extend``     an arbiter for pods: kube-scheduler asks it where they fit, agents tell it how their apps stand
``compare``    real runs beside their simulations, by policy and seed
``dozen``      writes a world of a dozen apps to a file
=============  ====================================================================================================
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import InputError, MeshwrightError

PROGRAM = "meshwright.runtime.sharing"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do as the command line says.

    Exit code 2 on wrong input; 1 if something failed while it ran, or all agents were lost; 143 on SIGTERM.
    """
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for add in (_add_serve, _add_agents, _add_extend, _add_dozen):
        add(commands)
    commands.add_parser("compare", help="real runs beside their simulations", add_help=False)
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given[:1] == ["compare"]:
            from .compare_many import compare

            compare(given[1:])
            return 0
        options = parser.parse_args(given)
        return int(options.do(options))
    except MeshwrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _add_serve(commands: Any) -> None:
    from .arguments import add_run_arguments, add_world_arguments

    one = commands.add_parser("serve", help="the arbiter of a world")
    add_world_arguments(one)
    add_run_arguments(one)
    one.add_argument("--policy", help="themis (default), a baseline, or module:factory")
    one.add_argument("--seed", type=int, default=0, help="of the dozen, of weights and data, and of lots (0)")
    one.add_argument("--port", type=int, default=0, help="where agents ask (any that is free)")
    one.add_argument("--token-file", type=Path, metavar="FILE", help="holds what agents have to carry")
    one.add_argument("--journal", type=Path, metavar="FILE", help="write down what is done, so that it can be gone on")
    one.add_argument("--resume", type=Path, metavar="JOURNAL", help="go on with an arbiter's journal, after its end")
    one.add_argument("--out", type=Path, metavar="FILE", help="write the result here, as JSON")
    one.set_defaults(do=_serve)


def _serve(options: argparse.Namespace) -> int:
    from ..listening import token_of
    from .arbiter.serving import Task, serve
    from .arguments import choice_of, world_of
    from .options import RunOptions

    token = token_of(options.token_file)
    if options.resume is not None:
        if options.journal is not None or options.world is not None:
            raise InputError("--resume: the journal says the world, and goes on being written; leave the others out")
        result = serve(
            None, port=options.port, journal=options.resume, out=options.out, token=token, policy=options.policy
        )
    else:
        world = world_of(options, options.seed)
        choice = choice_of(options.policy or "themis", options.option, world.lease_s, options.seed)
        how = RunOptions(
            options.time_scale,
            options.slot_steps,
            options.slots_per_core,
            options.seed,
            answer_s=options.answer_s,
            patience=options.patience,
        )
        result = serve(
            Task(world, choice, how), port=options.port, journal=options.journal, out=options.out, token=token
        )
    print(f"{'app':<20}{'arrives':>9}{'ends':>9}{'rho':>7}")
    for app, finish, rho in zip(result.world.apps, result.finish, result.rho, strict=True):
        print(f"{app.name:<20}{app.arrival_s:>9.0f}{finish:>9.0f}{rho:>7.2f}")
    for lost in result.lost:
        print(f"lost: {lost}")
    if result.lost and not result.completed.any():
        print(
            f"error: serve: no app was done, {len(result.lost)} agents of {len(result.world.apps)} were lost",
            file=sys.stderr,
        )
        return 1
    return 0


def _add_agents(commands: Any) -> None:
    one = commands.add_parser("agents", help="agents for the apps of an arbiter that runs")
    one.add_argument("--port", type=int, required=True, help="where the arbiter listens on this machine")
    one.add_argument("--app", action="append", default=[], help="for this app, and others so named; else for all")
    one.add_argument("--token-file", type=Path, metavar="FILE", help="holds the token of the arbiter")
    one.add_argument("--folder", type=Path, help="where checkpoints go; else to a temporary folder")
    one.set_defaults(do=_agents)


def _agents(options: argparse.Namespace) -> int:
    from ..listening import token_of
    from .agent.joining import join

    ended = join(options.port, options.app, options.folder, token=token_of(options.token_file))
    bad = {app: how for app, how in ended.items() if how != "exit code 0"}
    for app, how in sorted(bad.items()):
        print(f"agent of app {app!r}: {how}", file=sys.stderr)
    return 1 if bad else 0


def _add_extend(commands: Any) -> None:
    from ..listening import add_listening_arguments
    from ..web.limits import add_limit_arguments

    one = commands.add_parser("extend", help="an arbiter for pods, as kube-scheduler's extender")
    one.add_argument("about", type=Path, metavar="arbiter.json", help="of `meshwright export --to scheduler-plugin`")
    add_listening_arguments(one, None)
    add_limit_arguments(one)
    one.add_argument("--admin-key-file", type=Path, metavar="FILE", help="holds a key that opens every app")
    one.add_argument("--policy", help="module:factory of the file, if it names one: code runs only if both say so")
    one.add_argument("--views-only", action="store_true", help="decide nothing: tell extender.py what agents say")
    one.set_defaults(do=_extend)


def _extend(options: argparse.Namespace) -> int:
    from ..listening import listening_of, read_token
    from ..web.limits import limits_of
    from .documents import from_document, read_document
    from .extender.service import LARGEST, serve_extender
    from .extender.task import ExtenderTask

    task = from_document(ExtenderTask, read_document(options.about), str(options.about))
    serve_extender(
        options.about, decides=not options.views_only, where=listening_of(options, task.port),
        limits=limits_of(options, LARGEST), policy=options.policy,
        admin_key=read_token(options.admin_key_file) if options.admin_key_file is not None else None,
    )  # fmt: skip
    return 0


def _add_dozen(commands: Any) -> None:
    from .arguments import add_world_arguments

    one = commands.add_parser("dozen", help="a world of a dozen apps as a file")
    add_world_arguments(one)
    one.add_argument("--seed", type=int, default=0, help="of sizes and arrivals (0)")
    one.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to")
    one.set_defaults(do=_dozen)


def _dozen(options: argparse.Namespace) -> int:
    from .arguments import world_of
    from .documents import save_world

    print(save_world(world_of(options, options.seed), options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
