"""The verbs of the command line, and the group that imports a verb's module only when that verb is called."""

from __future__ import annotations

import difflib
import importlib
from typing import Any, cast

import typer
import typer.core
import typer.main

from ..errors import InputError
from ..worlds.door import DOORS, DoorName
from .grouped_help import Grouped

__all__ = ["COMMANDS", "GROUPS", "VERBS", "Stopped", "Verbs"]

GROUPS = {
    "trace": "Read, make, fit and describe request traces.",
    "profile": "Show and check what models cost on devices.",
}
"""Verbs with verbs of their own: module `.<name>` holds a typer `app`."""

COMMANDS = {
    "new": "Write a case to start from, every field with what it is.",
    "graph": "Show a model as a training graph; trace one from torch.",
    "study": "Answer what-if questions and run sweeps, with a report.",
    "regress": "Hold planners against a baseline; fails where one got worse.",
    "reproduce": "Make the papers' figures and tables and check their claims.",
    "demo": "The whole loop on this machine, in about two minutes.",
    "doctor": "Say what is installed and what works here.",
}
"""Plain verbs: module `.<name>_cmd` holds a function of that name."""

ORDER = (
    "trace", "profile", "new", "graph", "measure", "plan", "simulate", "export", "run", "compare", "study", "regress",
    "reproduce", "demo", "doctor",
)  # fmt: skip
"""As they follow each other in the loop: what there is, then what is decided, scored, run and asked."""

VERBS = {verb: {**GROUPS, **COMMANDS, **DOORS}[verb] for verb in ORDER}
"""Every verb -> what it is for. Those of `DOORS` are made for the world that their first word says (`doors`)."""


class Stopped(Exception):
    """A verb was stopped from outside: Ctrl-C, or nobody reads its output any more. Typer must not handle it first."""


class Verbs(typer.core.TyperGroup):
    """The root command. Its help text needs no verb's module; a verb's module is imported when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All verbs, in the order of the loop."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a verb."""
        if cmd_name in GROUPS:
            group = importlib.import_module(f".{cmd_name}", __package__).app
            command = typer.main.get_group(group)
        elif cmd_name in COMMANDS:
            module = importlib.import_module(f".{cmd_name}_cmd", __package__)
            single = typer.Typer(add_completion=False, rich_markup_mode=None)
            single.command(cmd_name, cls=Grouped)(getattr(module, cmd_name))
            command = typer.main.get_command(single)
        elif cmd_name in DOORS:
            from .doors.overview import overview

            command = overview(cast(DoorName, cmd_name))
        else:
            return None
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the verb that the command line begins with.

        Raises
        ------
        InputError
            If there is no such verb; names the nearest one.
        """
        word = args[0]
        if word in DOORS and len(args) > 1 and args[1] != "--help":
            try:
                return self._door(ctx, word, args)
            except InputError:
                if ctx.resilient_parsing:  # completion of what is not whole yet: no word of ours
                    return word, self.get_command(ctx, word), args[1:]
                raise
        if word not in VERBS and not word.startswith("-") and not ctx.resilient_parsing:
            near = difflib.get_close_matches(word, VERBS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the verbs are {', '.join(VERBS)}"
            raise InputError(f"no verb {word!r}; {hint}")
        return super().resolve_command(ctx, args)

    @staticmethod
    def _door(ctx: Any, verb: Any, args: list[str]) -> Any:
        """The command that a verb is for what its first word names."""
        from .doors.single import load_numpy

        load_numpy()  # the next line does
        from .doors.command import door_command, subject_of
        from .doors.overview import refused

        if args[1].startswith("-"):
            raise refused(verb, args[1:])
        subject = subject_of(args[1])
        command = door_command(verb, subject)
        ctx.info_name = "meshwright"
        return (verb, command, args[1:]) if subject.plans else (f"{verb} {args[1]}", command, args[2:])

    def invoke(self, ctx: Any) -> Any:
        """Run the verb.

        Raises
        ------
        Stopped
            From the KeyboardInterrupt or BrokenPipeError that stopped it.
        """
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, BrokenPipeError) as error:
            raise Stopped from error

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of verbs."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))
