"""`flat`: a subgraph as one Python function without modules, attributes or interpreters between its operators."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["flat"]


def flat(subgraph: torch.fx.GraphModule, changed: Callable[[Any], Any] = lambda held: held) -> Callable[..., Any]:
    """A function of the subgraph's inputs that calls its operators one by one and gives a tuple.

    Parameters
    ----------
    subgraph : torch.fx.GraphModule
        As of `subgraph.subgraph`.
    changed : function
        Of each parameter, whose value takes its place; by default the parameter itself.
    """
    import torch

    held = dict[str, Any]()
    names = dict[Any, str]()
    lines, given = list[str](), list[str]()

    def bound(value: Any) -> str:
        held[f"c{len(held)}"] = value
        return f"c{len(held) - 1}"

    def word(value: Any) -> str:
        if isinstance(value, torch.fx.Node):
            return names[value]
        if isinstance(value, list | tuple) and any(isinstance(one, torch.fx.Node) for one in value):
            return f"[{', '.join(map(word, value))}]"
        return repr(value) if value is None or isinstance(value, bool | int) else bound(value)

    last_use = dict[Any, Any]()
    for node in subgraph.graph.nodes:
        last_use |= dict.fromkeys(node.all_input_nodes, node)
    for k, node in enumerate(subgraph.graph.nodes):
        names[node] = f"v{k}"
        if node.op == "placeholder":
            given.append(names[node])
        elif node.op == "get_attr":
            names[node] = bound(changed(getattr(subgraph, str(node.target))))
        elif node.op == "call_function":
            words = [*map(word, node.args), *(f"{name}={word(value)}" for name, value in node.kwargs.items())]
            getting = node.target is operator.getitem
            call = f"{words[0]}[{words[1]}]" if getting else f"{bound(node.target)}({', '.join(words)})"
            lines.append(f"    {names[node]} = {call}")
            over = [names[one] for one, user in last_use.items() if user is node and one.op != "get_attr"]
            lines += [f"    {' = '.join(over)} = None"] if over else []  # its memory is free for the next operator
        else:
            lines.append(f"    return ({''.join(f'{names[one]}, ' for one in node.args[0])})")
    exec("\n".join([f"def run({', '.join(given)}):", *lines]), held)  # our own text: operators, numbers, names
    return held["run"]
