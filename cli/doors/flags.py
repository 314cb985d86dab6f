"""Options of the command line out of the fields of a case: one flag each, with its help, metavar and completion."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ...errors import InputError
from ...worlds.leaves import Leaf, parse

__all__ = ["Flag", "flags_of", "function_of", "values_of"]

PLANNER = "planner.name"
METAVARS = {
    "whole number": "N", "number": "NUMBER", "text": "TEXT", "list": "A,B", "mapping": "NAME=VALUE", "value": "VALUE",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Flag:
    """One option.

    Parameters
    ----------
    leaf : Leaf
        The field that it says.
    parameter : str
        Name of the function's parameter.
    panel : str
        Heading of the help under which it stands.
    hidden : bool
        Whether only ``--help-all`` shows it.
    words : callable
        Gives what completion offers.
    """

    leaf: Leaf
    parameter: str
    panel: str
    hidden: bool
    words: Callable[[], Iterable[str]]

    @property
    def repeated(self) -> bool:
        """Whether it may stand several times."""
        return "mapping" in self.leaf.kinds

    def signature(self) -> inspect.Parameter:
        """As a parameter that typer reads."""
        declared = [self.leaf.flag]
        kind: Any = str | None
        if self.leaf.kinds == ("true or false",):
            declared = [f"{self.leaf.flag}/--no-{self.leaf.flag[2:]}"]
            kind = bool | None
        elif self.repeated:
            kind = list[str] | None
        if self.leaf.path == "planner.options":
            declared.append("-o")
        option: Any = typer.Option(
            *declared, help=self.help(), metavar=None if kind == (bool | None) else self.metavar(),
            rich_help_panel=self.panel, hidden=False, show_default=False,
            autocompletion=None if kind == (bool | None) else self._complete,
        )  # fmt: skip
        return inspect.Parameter(
            self.parameter, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option]
        )

    def help(self) -> str:
        """What it is, its bounds, its default."""
        leaf = self.leaf
        default = leaf.default
        plain = (
            leaf.required or default is None or default == "" or (not isinstance(default, bool) and default in ((), {}))
        )
        several = "several with commas, or all" if leaf.path == PLANNER else ""
        said = [leaf.says, several, leaf.bounds, "" if plain else f"default {_shown(default)}"]
        return "; ".join(word for word in said if word) + "."

    def metavar(self) -> str:
        """What stands for its value."""
        if self.leaf.choices:
            return "|".join(self.leaf.choices) if len(self.leaf.choices) < 4 else "WORD"
        return METAVARS.get(next(iter(self.leaf.kinds), "value"), "VALUE")

    def _complete(self, incomplete: str) -> list[str]:
        return [word for word in (*self.leaf.choices, *self.words()) if word.startswith(incomplete)]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def flags_of(
    found: Sequence[Leaf], panel: str, essential: Iterable[str], known: Callable[[str], Iterable[str]]
) -> list[Flag]:
    """The options of some leaves; those of `essential` stand first and are always shown."""
    first = {path: place for place, path in enumerate(essential)}
    ordered = sorted(found, key=lambda leaf: first.get(leaf.path, len(first)))
    return [
        Flag(leaf, _parameter(leaf), panel, leaf.path not in first, lambda path=leaf.path: known(path))
        for leaf in ordered
    ]


def _parameter(leaf: Leaf) -> str:
    name = leaf.name.replace(".", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


def function_of(does: Callable[..., Any], name: str, doc: str, parameters: Sequence[inspect.Parameter]) -> Any:
    """A function that typer takes for one with these parameters, and that calls `does` with them."""

    def called(**said: Any) -> Any:
        return does(**said)

    made: Any = called
    made.__name__, made.__doc__ = name, doc
    made.__signature__ = inspect.Signature(parameters)
    made.__annotations__ = {p.name: p.annotation for p in parameters}
    return made


def values_of(flags: Iterable[Flag], said: Mapping[str, Any]) -> dict[str, Any]:
    """Path -> value, of what the command line says.

    Raises
    ------
    InputError
        On text that is no such value.
    """
    found: dict[str, Any] = {}
    for flag in flags:
        value = said.get(flag.parameter)
        if value is None:
            continue
        if isinstance(value, bool):
            found[flag.leaf.path] = value
        elif flag.repeated:
            found[flag.leaf.path] = _together(flag.leaf, value)
        else:
            found[flag.leaf.path] = parse(flag.leaf, value)
    return found


def _together(leaf: Leaf, words: Sequence[str]) -> Any:
    """What several of one flag say: mappings are joined."""
    values = [parse(leaf, word) for word in words]
    if len(values) == 1:
        return values[0]
    joined: dict[str, Any] = {}
    for value in values:
        if not isinstance(value, dict):
            raise InputError(f"{leaf.flag}: expected NAME=VALUE where it stands several times (got {value!r})")
        for name, inner in value.items():
            if name in joined:
                raise InputError(f"{leaf.flag}: {name} is given twice")
            joined[name] = inner
    return joined
