"""`capture`: a torch module as operators that backends can be given, one at a time or many."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from ...profiles.backends import InferenceGraph, Node, Value

if TYPE_CHECKING:
    import torch

__all__ = ["Captured", "capture", "checked_example", "recorded"]

IDENTITIES = frozenset({"aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default"})
"""Operators that do nothing in evaluation."""

ASSERTIONS = frozenset({"aten._assert_tensor_metadata.default"})
"""What ``torch.export`` puts beside a conversion of types: it gives nothing."""

POOLS = frozenset(f"aten::{kind}_pool{n}d" for kind in ("max", "avg") for n in (1, 2, 3))
"""Without a stride they step by their window; oneDNN Graph wants to be told."""


@dataclass(frozen=True, eq=False)
class Captured:
    """A module's graph, and how to run it.

    Parameters
    ----------
    graph : InferenceGraph
        Without torch: what planners see.
    module : torch.fx.GraphModule
        The same operators as nodes of these names; parameters are its attributes. A node of the graph that is one of
        several results of an operator is a ``getitem`` here.
    example : tuple of torch.Tensor
        Inputs that it was captured with.
    sources : mapping of str to str
        Parameter of the graph -> its name in the module that was captured; constants, which have none, are missing.
    """

    graph: InferenceGraph
    module: torch.fx.GraphModule
    example: tuple[torch.Tensor, ...]
    sources: Mapping[str, str] = field(default_factory=dict[str, str])


def capture(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> Captured:
    """Operators of a module in evaluation, at the shapes of its inputs.

    Parameters
    ----------
    module : torch.nn.Module
        In evaluation (``module.eval()``). It gives one tensor.
    inputs : sequence of torch.Tensor
        What it is called with.

    Raises
    ------
    InputError
        If it is in training, depends on data or on shapes that are not fixed, gives something else than one tensor, or
        writes into a tensor that others see.
    """
    import torch

    example = checked_example(module, inputs)
    with torch.no_grad():
        try:
            program = torch.export.export(module, example)
        except Exception as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise InputError(
                f"capture: {type(module).__name__} cannot be exported: {first}; a graph has fixed shapes and no "
                "control flow that depends on data"
            ) from error
        return _read(program, example)


def checked_example(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Copies of the inputs.

    Raises
    ------
    InputError
        If the module is in training, or the inputs are no tensors.
    """
    import torch

    if any(one.training for one in module.modules()):
        raise InputError("capture: the module is in training; backends run inference: call module.eval() first")
    if not inputs or not all(isinstance(one, torch.Tensor) for one in inputs):
        raise InputError(f"capture: expected a sequence of tensors as inputs (got {inputs!r:.80})")
    return tuple(one.detach().clone(memory_format=torch.preserve_format) for one in inputs)


def _read(program: torch.export.ExportedProgram, example: tuple[torch.Tensor, ...]) -> Captured:
    import torch
    from torch.export.graph_signature import InputKind, OutputKind

    flat = program.graph
    free = [node.name for node in flat.nodes if _is_free(node)]
    if free:
        raise InputError(f"capture: the shape of {free[0]!r} depends on data; a placement is for fixed shapes")
    held, sources = dict[str, Any](), dict[str, str]()
    given = list[str]()
    for spec in program.graph_signature.input_specs:
        name = spec.arg.name
        if spec.kind is InputKind.USER_INPUT:
            given.append(name)
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            assert spec.target is not None
            source = program.state_dict if spec.target in program.state_dict else program.constants
            tensor: Any = source[spec.target]
            held[name] = tensor.detach()
            if spec.kind is not InputKind.CONSTANT_TENSOR:
                sources[name] = spec.target
        else:
            raise InputError(f"capture: input {name!r} is a {spec.kind.name.lower()}; expected tensors")
    outputs = program.graph_signature.output_specs
    if len(outputs) != 1 or outputs[0].kind is not OutputKind.USER_OUTPUT:
        kinds = ", ".join(spec.kind.name.lower() for spec in outputs)
        raise InputError(f"capture: expected a module that gives one tensor and changes no buffer (got {kinds})")
    graph = torch.fx.Graph()
    made = dict[Any, Any]()
    for name in given:
        made[name] = graph.placeholder(name)
    root = torch.nn.Module()
    for node in flat.nodes:
        if node.op == "placeholder" and node.name in made:
            made[node] = made[node.name]
        elif node.op == "placeholder":
            if node.users:
                root.register_buffer(node.name, held[node.name])
                made[node] = graph.get_attr(node.name)
        elif node.op == "get_attr":
            constant: Any = getattr(program.graph_module, str(node.target))
            root.register_buffer(node.name, constant.detach())
            made[node] = graph.get_attr(node.name)
        elif node.op == "call_function":
            _add(graph, node, made)
        elif node.op == "output":
            result = torch.fx.map_arg(node.args[0], lambda one: made[one])
            while isinstance(result, tuple | list):
                (result,) = result
            graph.output((result,))
    graph.eliminate_dead_code()
    graph.lint()
    module = torch.fx.GraphModule(root, graph)
    used = {node.name: sources[node.name] for node in graph.nodes if node.op == "get_attr" and node.name in sources}
    return Captured(_described(module, example), module, example, used)


def _add(graph: torch.fx.Graph, node: torch.fx.Node, made: dict[Any, Any]) -> None:
    """One operator, without what changes tensors in place and what does nothing."""
    import torch

    target = node.target
    if str(target) in IDENTITIES:
        made[node] = made[node.args[0]]
        return
    if str(target) in ASSERTIONS:
        return
    schema = getattr(target, "_schema", None)
    if schema is None and target is not operator.getitem:
        raise InputError(f"capture: {target} is not known to graphs; expected operators of aten")
    changed: Any = None
    if schema is not None and any(one.alias_info is not None and one.alias_info.is_write for one in schema.arguments):
        changed = made[node.args[0]]
        shared = changed.op != "call_function" or _is_view(changed) or any(_is_view(one) for one in changed.users)
        if shared:
            raise InputError(
                f"capture: {node.target} writes into {node.args[0]}, of which there are other views; write a new tensor"
            )
        target = _functional(target)
    args: Any = torch.fx.map_arg(node.args, lambda one: made[one])
    kwargs: Any = torch.fx.map_arg(node.kwargs, lambda one: made[one])
    if schema is not None and schema.name in POOLS and (len(args) < 3 or not args[2]):
        args = (*args[:2], args[1], *args[3:])
    new = graph.create_node("call_function", target, args, kwargs, node.name.rstrip("_") or None)
    if changed is not None:
        for other in [one for one, of in made.items() if of is changed]:
            made[other] = new  # whoever reads it from here on reads what was written
    made[node] = new


def _is_free(node: torch.fx.Node) -> bool:
    """Whether its shape is known only when it runs."""
    value = node.meta.get("val")
    return any(not isinstance(extent, int) for extent in getattr(value, "shape", ()))


def _is_view(node: torch.fx.Node) -> bool:
    """Whether an operator's result shares memory with an operand."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(one.alias_info is not None for one in schema.returns)


def _functional(target: Any) -> Any:
    """The operator that gives a new tensor in place of one that changes its operand."""
    import torch

    space, _, name = target._schema.name.partition("::")
    packet = getattr(getattr(torch.ops, space), name.rstrip("_"), None)
    found = getattr(packet, target._overloadname, None)
    if found is None:
        raise InputError(f"capture: {target} changes a tensor in place, and there is no operator that gives a new one")
    return found


def _described(module: torch.fx.GraphModule, example: tuple[torch.Tensor, ...]) -> InferenceGraph:
    """The graph without torch; it is run once, so that shapes and strides are those of a run."""
    values = recorded(module, example)
    inputs, parameters, nodes = list[Value](), list[Value](), list[Node]()
    output = ""
    for node in module.graph.nodes:
        if node.op == "output":
            output = node.args[0][0].name
        elif node.op == "placeholder":
            inputs.append(_value(node, values))
        elif node.op == "get_attr":
            parameters.append(_value(node, values))
        elif not any(user.target is operator.getitem for user in node.users):
            nodes.append(_node(node, values))
    return InferenceGraph(tuple(inputs), tuple(parameters), tuple(nodes), output)


def _node(node: torch.fx.Node, values: Mapping[str, Any]) -> Node:
    call: Any = node.args[0] if node.target is operator.getitem else node
    settings, read = list[tuple[str, Any]](), list[Any]()
    for k, argument in enumerate(call.target._schema.arguments):
        default = argument.default_value if argument.has_default_value() else None
        given = call.args[k] if k < len(call.args) else call.kwargs.get(argument.name, default)
        tensors = _tensors(given)
        read += tensors
        if not tensors and "Tensor" not in str(argument.type):
            settings.append((argument.name, _plain(given)))
    if call is not node:
        settings.append(("result", node.args[1]))
    shapes = tuple(_value(one, values).shape for one in read)
    op = call.target._schema.name.partition("::")[2]
    return Node(node.name, op, tuple(one.name for one in read), tuple(settings), _value(node, values), shapes)


def _tensors(given: Any) -> list[Any]:
    import torch

    if isinstance(given, torch.fx.Node):
        return [given]
    return [node for one in given for node in _tensors(one)] if isinstance(given, list | tuple) else []


def _plain(given: Any) -> Any:
    """A setting as a file can hold it."""
    if isinstance(given, list | tuple):
        return tuple(map(_plain, given))
    finite = isinstance(given, bool | int | str) or (isinstance(given, float) and math.isfinite(given))
    return given if given is None or finite else str(given)


def _value(node: torch.fx.Node, values: Mapping[str, Any]) -> Value:
    import torch

    tensor = values.get(node.name)
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"capture: {node.name!r} ({node.target}) gives no tensor")
    kind = str(tensor.dtype).removeprefix("torch.")
    return Value(node.name, tuple(map(int, tensor.shape)), kind, tuple(map(int, tensor.stride())))


def recorded(module: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> dict[str, Any]:
    """What every node of a module gives for some inputs."""
    import torch

    class Recorder(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            values[n.name] = super().run_node(n)
            return values[n.name]

    values = dict[str, Any]()
    with torch.inference_mode():
        Recorder(module, garbage_collect_values=False).run(*inputs)
    return values
