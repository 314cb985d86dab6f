"""What an exported program gives: a loss, or the results of inference; and programs that write into nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....errors import InputError

__all__ = ["loss_of", "results_of", "without_assertions", "without_writing", "writes_into_parts"]

ASSERTIONS = frozenset({"aten::_assert_scalar", "aten::_assert_async", "aten::sym_constrain_range",
                        "aten::sym_constrain_range_for_size", "aten::_assert_tensor_metadata"})  # fmt: skip
"""Calls that make nothing and stop a run whose values are not as a module expects."""


def loss_of(program: Any, nodes: Mapping[str, Any], source: str) -> list[Any]:
    """The one value that is the loss, as a node.

    Raises
    ------
    InputError
        If there is not exactly one floating-point value.
    """
    names = [spec.arg.name for spec in _outputs(program)]
    scalars = [nodes[n] for n in names if n in nodes and nodes[n].meta["val"].numel() == 1]
    if len(names) != 1 or len(scalars) != 1 or not scalars[0].meta["val"].dtype.is_floating_point:
        shapes = [tuple(nodes[n].meta["val"].shape) for n in names if n in nodes]
        raise InputError(
            f"{source}: expected one value, the loss (got results of shapes {shapes}); give loss=, or inference=True"
        )
    return scalars


def results_of(program: Any, nodes: Mapping[str, Any], source: str) -> list[Any]:
    """The tensors that a module gives, in its order, as nodes.

    Raises
    ------
    InputError
        If a result is no tensor, or one of the inputs as it is; if the module writes into its buffers or inputs.
    """
    for spec in program.graph_signature.output_specs:
        if spec.kind.name not in ("USER_OUTPUT", "LOSS_OUTPUT"):
            raise InputError(f"{source}: writes into {spec.target!r}; expected a module that gives results only")
    found = list[Any]()
    for k, spec in enumerate(_outputs(program)):
        name = getattr(spec.arg, "name", None)
        node = nodes.get(name) if isinstance(name, str) else None
        if node is None or not hasattr(node.meta.get("val"), "shape"):
            raise InputError(f"{source}: result {k}: expected a tensor (got {getattr(spec.arg, 'value', spec.arg)!r})")
        if node.op != "call_function":
            raise InputError(f"{source}: result {k} is an input or a parameter as it is; expected what is computed")
        found.append(node)
    if not found:
        raise InputError(f"{source}: gives nothing; expected a tensor, or several")
    return found


def _outputs(program: Any) -> list[Any]:
    return [s for s in program.graph_signature.output_specs if s.kind.name in ("USER_OUTPUT", "LOSS_OUTPUT")]


def without_assertions(program: Any) -> None:
    """Take out of a program what checks values, and whatever is computed for it alone, and what nothing reads."""
    for node in reversed(program.graph.nodes):
        schema = getattr(node.target, "_schema", None)
        if node.op == "call_function" and schema is not None and schema.name in ASSERTIONS and not node.users:
            program.graph.erase_node(node)
    program.graph.eliminate_dead_code()


def without_writing(program: Any) -> Any:
    """The same program with calls that write in place (``relu_``) as calls that do not, where it has any.

    A part of it can then be run alone: no call changes what another part reads.
    """
    calls = [node for node in program.graph.nodes if node.op == "call_function" and hasattr(node.target, "_schema")]
    return program.run_decompositions({}) if any(node.target._schema.is_mutable for node in calls) else program


def writes_into_parts(program: Any) -> bool:
    """Whether a call writes into a view of a tensor, such as a slice, so that others of its views change."""
    return any(
        node.op == "call_function" and hasattr(node.target, "_schema") and node.target._schema.is_mutable
        and node.target._schema.arguments and _is_view(node.args[0])
        for node in program.graph.nodes
    )  # fmt: skip


def _is_view(node: Any) -> bool:
    schema = getattr(getattr(node, "target", None), "_schema", None)
    if schema is None or schema.is_mutable or not schema.arguments:
        return False
    alias = schema.arguments[0].alias_info
    return alias is not None and not alias.is_write
