"""Help texts in parts: options that belong together under a heading of their own, without rich's boxes."""

from __future__ import annotations

from typing import Any

import typer.core

__all__ = ["Grouped"]


class Grouped(typer.core.TyperCommand):
    """A verb whose options may name a heading: `rich_help_panel`. Those without one come first.

    Options in `rare` are shown by ``--help-all`` alone.
    """

    rare: frozenset[str] = frozenset()

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options, and options under each heading, in the order of the signature."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            if parameter.name in self.rare and not ctx.meta.get("everything"):
                continue
            record = parameter.get_help_record(ctx)
            if record is not None:
                plain = "Arguments" if parameter.param_type_name == "argument" else "Options"
                sections.setdefault(getattr(parameter, "rich_help_panel", None) or plain, []).append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
