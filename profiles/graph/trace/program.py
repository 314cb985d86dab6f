"""The way back from operators of a graph of inference to something that runs: parts of the exported program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ....errors import InputError
from ....reprs import Shown
from ..graph import Graph
from ..module_loss import untouched
from .export import given_inputs, program_of
from .inputs import with_loss
from .module import check_inference
from .walk import KNOWN

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

__all__ = ["Part", "Program", "calls", "inference_program"]


def calls(graph: Graph) -> tuple[tuple[int, ...], ...]:
    """Positions of operators that came from the same call, together: a linear layer's product and its bias.

    What is put on a backend is made of these. In the order of their last operators, which is topological.

    Raises
    ------
    InputError
        If operators do not say which calls they came from.
    """
    unit = list(range(len(graph.operators)))

    def root(i: int) -> int:
        while unit[i] != i:
            i = unit[i]
        return i

    first: dict[str, int] = {}
    for i, op in enumerate(graph.operators):
        if not op.nodes:
            raise InputError(f"graph {graph.name!r}: operator {op.name!r} came from no call; trace the module "
                             "(from_torch with inference=True)")  # fmt: skip
        for name in op.nodes:
            unit[root(first.setdefault(name, i))] = root(i)
    found: dict[int, list[int]] = {}
    for i in range(len(unit)):
        found.setdefault(root(i), []).append(i)
    return tuple(map(tuple, sorted(found.values(), key=lambda group: group[-1])))


@dataclass(frozen=True, eq=False, repr=False)
class Part(Shown):
    """Some operators as a module.

    Parameters
    ----------
    module : torch.fx.GraphModule
        Takes the values of `inputs`, gives that of `results`: one tensor, or a tuple of several. Weights are its own
        attributes, the same tensors as the network's.
    inputs, results : tuple of str
        Operators and inputs of the graph that it reads, and operators whose values others read or the network gives.
    """

    module: GraphModule
    inputs: tuple[str, ...]
    results: tuple[str, ...]

    def _headline(self) -> str:
        return f"{', '.join(self.inputs)} -> {', '.join(self.results)}"


@dataclass(frozen=True, eq=False, repr=False)
class Program(Shown):
    """A network's exported program beside its graph of inference; see `inference_program`.

    Parameters
    ----------
    graph : Graph
        At the program's batch.
    exported : torch.export.ExportedProgram
        Its calls have the names that operators keep.
    tensors : mapping
        Placeholder of the program -> name of the input or parameter in the graph.
    """

    graph: Graph
    exported: Any
    tensors: Mapping[str, str]

    def _headline(self) -> str:
        return f"{self.graph.name}: {len(self.graph.operators)} operators, batch {self.graph.batch}"

    @cached_property
    def _nodes(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.exported.graph.nodes}

    @cached_property
    def _makers(self) -> Mapping[str, int]:
        """Call -> the operator whose value it gives; calls inside of an operator belong to the last that has them."""
        last = {name: i for i, op in enumerate(self.graph.operators) for name in op.nodes}
        return last | {op.nodes[-1]: i for i, op in enumerate(self.graph.operators)}

    def part(self, operators: Iterable[int]) -> Part:
        """The operators at these positions, as a module that can be run and compiled alone.

        Raises
        ------
        InputError
            If a value is asked for that lies inside of a call: the operators of a call go together (`calls`).
        """
        import torch

        chosen, graph = set(operators), self.graph
        wrong = next((i for i in chosen if not 0 <= i < len(graph.operators)), None)
        if wrong is not None or not chosen:
            raise InputError(f"part of {graph.name!r}: expected positions 0 … {len(graph.operators) - 1} (got {wrong})")
        ends = [i for i in sorted(chosen) if self._is_read(i, chosen)]
        needed, edge = self._reached(ends, chosen)
        made, root, env = torch.fx.Graph(), torch.nn.Module(), dict[Any, Any]()
        order = [t.name for t in graph.inputs] + [op.name for op in graph.operators]
        inputs = tuple(sorted(set(edge.values()), key=order.index))
        placeholders = {name: made.placeholder(f"x{k}") for k, name in enumerate(inputs)}
        env |= {node: placeholders[name] for node, name in edge.items()}
        for node in self.exported.graph.nodes:
            if node not in needed or node in env:
                continue
            if node.op == "placeholder":
                env[node] = made.get_attr(self._attached(root, node))
            else:
                if node.op == "get_attr":  # a graph of its own
                    setattr(root, node.target, getattr(self.exported.graph_module, node.target))
                env[node] = made.node_copy(node, env.__getitem__)
        values = [env[self._nodes[graph.operators[i].nodes[-1]]] for i in ends]
        made.output(values[0] if len(values) == 1 else tuple(values))
        results = tuple(graph.operators[i].name for i in ends)
        return Part(torch.fx.GraphModule(root, made).eval(), inputs, results)

    def _is_read(self, i: int, chosen: set[int]) -> bool:
        """Whether an operator's value is read outside of the part, or given by the network."""
        op = self.graph.operators[i]
        if op.name not in self.graph.results and all(k in chosen for k, _ in self.graph.consumers[op.name]):
            return False
        if self._makers[op.nodes[-1]] != i:
            other = self.graph.operators[self._makers[op.nodes[-1]]].name
            raise InputError(
                f"part of {self.graph.name!r}: operators {op.name!r} and {other!r} are one call, "
                f"{op.nodes[-1]!r}; take both or neither"
            )
        return True

    def _reached(self, ends: Sequence[int], chosen: set[int]) -> tuple[set[Node], dict[Node, str]]:
        """Nodes that the ends are computed of, and those among them that come from outside, by their graph's names."""
        mine = {name for i in chosen for name in self.graph.operators[i].nodes}
        given = {t.name for t in self.graph.inputs}
        needed, edge = set[Any](), dict[Any, str]()
        stack = [self._nodes[self.graph.operators[i].nodes[-1]] for i in ends]
        while stack:
            node = stack.pop()
            if node in needed:
                continue
            needed.add(node)
            if node.op == "placeholder":
                if self.tensors[node.name] in given:
                    edge[node] = self.tensors[node.name]
            elif node.name not in mine and node.name in self._makers:
                edge[node] = self.graph.operators[self._makers[node.name]].name
            else:  # its own call, or what is computed of constants
                stack += node.all_input_nodes
        return needed, edge

    def _attached(self, root: Any, node: Node) -> str:
        """Make a parameter, buffer or constant an attribute of a part's module; its name there."""
        import torch

        spec = next(s for s in self.exported.graph_signature.input_specs if s.arg.name == node.name)
        known = self.exported.state_dict
        value = known[spec.target] if spec.target in known else self.exported.constants[spec.target]
        if isinstance(value, torch.nn.Parameter):
            root.register_parameter(node.name, value)
        else:
            root.register_buffer(node.name, value)
        return node.name


def inference_program(
    module: Any, inputs: Sequence[Any] | Mapping[str, Any], graph: Graph, *, batch_dim: int = 0
) -> Program:
    """The exported program of a module whose graph of inference is known, to run parts of it.

    Parameters
    ----------
    module : torch.nn.Module
        In evaluation mode; its own weights are used, not copies.
    inputs : sequence or mapping of Tensor
        As for `from_torch`; their batch is the program's.
    graph : Graph
        Of the module, by `from_torch` with ``inference=True``.
    batch_dim : int
        As for `from_torch`.

    Raises
    ------
    InputError
        If the module cannot be exported, or the graph is not its: a training graph, that of another module, or one
        that another version of torch exported with other calls.
    """
    source = graph.name
    if not graph.inference:
        raise InputError(f"graph {source!r}: a training graph cannot be run in parts; trace it with inference=True")
    check_inference(module, source, None, None)
    given, batch = given_inputs(module, inputs, None, None, batch_dim, source)
    whole = with_loss(module, None, inputs, results=True)
    with untouched(module):
        exported = program_of(whole, given, batch_dim, batch, module, source, KNOWN, True)
    sized = graph.with_batch(batch)
    own = {name for name, _ in (*module.named_parameters(), *module.named_buffers())}
    tensors, names = dict[str, str](), iter(given)
    for spec in exported.graph_signature.input_specs:
        word = next(names) if spec.kind.name == "USER_INPUT" else str(spec.target).removeprefix("traced.")
        tensors[spec.arg.name] = f"inputs.{word}" if spec.kind.name == "USER_INPUT" and word in own else word
    made = Program(sized, exported, tensors)
    _check(made)
    return made


def _check(program: Program) -> None:
    nodes = {node.name: node for node in program.exported.graph.nodes}
    for name, i in program._makers.items():
        op = program.graph.operators[i]
        value = nodes[name].meta.get("val") if name in nodes else None
        shape = getattr(value, "shape", None)
        if name not in nodes or (name == op.nodes[-1] and shape is not None and tuple(shape) != op.shape):
            got = "no such call" if name not in nodes else f"a result of shape {tuple(shape or ())}"
            raise InputError(
                f"graph {program.graph.name!r}: operator {op.name!r} came from call {name!r}, of which this module "
                f"has {got}; trace it anew (from_torch with inference=True): another module, or another torch"
            )
