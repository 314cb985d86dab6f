"""Two exports of a module, at a batch and at twice that, and what is read off them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....errors import InputError
from ..operator import DTYPE_BYTES
from .errors import line_of, why_not
from .fallback.decompose import decomposed
from .inputs import named_inputs, with_loss
from .outputs import loss_of, results_of, without_assertions, without_writing, writes_into_parts
from .simpler.constants import LARGEST
from .simpler.forward import traced_forward
from .values import Value

__all__ = ["AS_IT_RUNS", "Exported", "Given", "Inner", "exported", "given_inputs", "lifted", "program_of"]

AS_IT_RUNS = "as_it_runs."
"""What names of constants begin with that a module makes where nothing traces it: compiled, it may make others."""


@dataclass(frozen=True)
class Given:
    """An input, parameter or buffer of an exported program."""

    node: Any
    name: str
    shape: tuple[int, ...]
    dtype: str
    trainable: bool
    given: bool
    """Whether it is an input, not a part of the module."""


@dataclass(frozen=True)
class Inner:
    """Calls that stand in a graph of their own: under `torch.no_grad`, or without autocast."""

    inputs: list[Any]
    arguments: list[Any]
    calls: list[Any]
    results: list[Any]
    gradients: bool
    """Whether backward goes through them."""


@dataclass(frozen=True)
class Exported:
    """A module's calls at one batch.

    Parameters
    ----------
    batch : int
        Samples of the inputs.
    source : str
        The module's class.
    tensors : list of Given
        What it reads.
    calls : list
        Calls of operators, as nodes of torch.fx.
    results : list of node
        The loss; of inference all results, in order.
    constants : mapping
        Buffers with their values, where the module has them, as arrays.
    """

    batch: int
    source: str
    tensors: list[Given]
    calls: list[Any]
    results: list[Any]
    constants: Mapping[str, Any]
    lifted: Mapping[str, Any]
    """Tensors that the module makes of numbers, as torch has them."""

    def operator(self, node: Any) -> tuple[str, str]:
        """Name and overload of what a node calls."""
        return _operator(node)

    def path(self, node: Any) -> str:
        """Qualified name of the module that made the call."""
        stack = node.meta.get("nn_module_stack") or {}
        names = [str(entry[0]) for entry in stack.values()]
        path = names[-1].split("@")[0] if names else ""
        return path.removeprefix("traced").lstrip(".")

    def shapes(self, node: Any) -> list[tuple[int, ...]]:
        """Shape of every result."""
        return [_static(value, node, self) for value in _results(node)]

    def dtypes(self, node: Any) -> list[str]:
        """Dtype of every result; of complex numbers that of their parts.

        Raises
        ------
        InputError
            If a result is a number, which depends on data.
        """
        if any(not hasattr(value, "dtype") for value in _results(node)):
            raise InputError("makes a number that depends on data; expected a static module")
        return [_PARTS.get(str(value.dtype)) or _dtype(value) for value in _results(node)]

    def pairs(self, node: Any) -> list[bool]:
        """Which results are of complex numbers."""
        return [str(value.dtype) in _PARTS for value in _results(node)]

    def arguments(self, node: Any, env: Mapping[Any, Any] | None) -> dict[str, Any]:
        """Arguments by name, defaults filled in, nodes replaced by what `env` has for them."""
        schema = node.target._schema.arguments
        found = {a.name: (a.default_value if a.has_default_value() else None) for a in schema}
        found |= {a.name: value for a, value in zip(schema, node.args, strict=False)}
        found |= node.kwargs
        return found if env is None else {key: _replaced(value, env) for key, value in found.items()}

    def inner(self, node: Any) -> Inner | None:
        """The graph that a call runs, if it is one that changes no value.

        Raises
        ------
        InputError
            If it runs under autocast: what is rounded there, a graph does not say.
        """
        word = _operator(node)[0]
        if word == "wrap_with_set_grad_enabled":
            (on, part, *arguments), gradients = node.args, bool(node.args[0])
        elif word == "wrap_with_autocast":
            _, _, on, _, part, *arguments = node.args
            gradients = True
            if on:
                raise InputError(f"{self.source}: autocast in module {self.path(node) or '(root)'!r}: not known to "
                                 "graphs; give the module in the dtype that it computes in")  # fmt: skip
        else:
            return None
        nodes = list(getattr(node.graph.owning_module, part.target).graph.nodes)
        (result,) = (x.args[0] for x in nodes if x.op == "output")
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        inputs = [x for x in nodes if x.op == "placeholder"]
        return Inner(inputs, arguments, [x for x in nodes if x.op == "call_function"], results, gradients)

    def shared(self, node: Any) -> bool:
        """Whether a call that writes in place writes into what is read afterwards under another name."""
        order = {x: i for i, x in enumerate(node.graph.nodes)}
        root, mine = node.args[0], _root(node.args[0])
        return any(
            _root(x) is mine and x is not root and x is not node and _root(x, node) is not node
            and any(order.get(user, 0) > order[node] for user in x.users)
            for x in order if order[x] < order[node] and x.op in ("call_function", "placeholder")
        )  # fmt: skip

    def numbers(self, node: Any, sized: bool) -> list[Any]:
        """Arguments that are no tensors; of calls whose arguments are sizes only those that are none."""
        if sized:
            found = self.arguments(node, None)
            return [_plain(found.get(key)) for key in ("fill_value", "start", "step")]
        return [_plain(value) for value in (*node.args, *node.kwargs.values())]


def exported(
    module: Any, inputs: Sequence[Any] | Mapping[str, Any], loss: str | Callable[..., Any] | None, labels: Any,
    batch_dim: int, name: str, known: Collection[str], inference: bool = False, as_it_runs: bool = False,
) -> tuple[Exported, Exported]:  # fmt: skip
    """The module with its loss, or for inference, exported at the batch of the inputs and at twice that.

    With `as_it_runs` it is exported as it runs where nothing traces it (`simpler.forward`).

    Raises
    ------
    InputError
        If it cannot be exported, or makes other calls at another batch.
    """
    source = name or type(module).__name__
    given, batch = given_inputs(module, inputs, loss, labels, batch_dim, source)
    whole = with_loss(module, loss, inputs, results=inference)
    programs = [
        program_of(whole, given, batch_dim, batch * k, module, source, known, inference, as_it_runs) for k in (1, 2)
    ]
    before = AS_IT_RUNS if as_it_runs else ""
    one, two = (_read(p, given, batch * k, module, source, inference, before) for k, p in enumerate(programs, start=1))
    names = [[_operator(node) for node in x.calls] for x in (one, two)]
    if names[0] != names[1]:
        raise InputError(
            f"{source}: makes other calls at batch {2 * batch} than at {batch}; expected the same operators"
        )
    return one, two


def given_inputs(
    module: Any, inputs: Sequence[Any] | Mapping[str, Any], loss: str | Callable[..., Any] | None, labels: Any,
    batch_dim: int, source: str,
) -> tuple[dict[str, Any], int]:  # fmt: skip
    """Inputs (and labels) by name, and their batch.

    Raises
    ------
    InputError
        If they are no tensors of one batch.
    """
    import torch

    given = named_inputs(module, inputs, source)
    if loss is not None:
        given["labels"] = labels
    bad = next((key for key, x in given.items() if not isinstance(x, torch.Tensor)), None)
    if bad is not None:
        raise InputError(f"{source}: input {bad!r}: expected a tensor (got {type(given[bad]).__name__})")
    sizes = {key: x.shape[batch_dim] if -x.ndim <= batch_dim < x.ndim else 0 for key, x in given.items()}
    if not sizes or len(set(sizes.values())) > 1 or 0 in sizes.values():
        raise InputError(f"{source}: expected inputs with one batch size in dimension {batch_dim} (got {sizes})")
    return given, next(iter(sizes.values()))


def lifted(
    module: Any, inputs: Sequence[Any] | Mapping[str, Any], loss: str | Callable[..., Any] | None, labels: Any,
    as_it_runs: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Tensors that a module makes of numbers, by the names that such a trace gives them."""
    source = type(module).__name__
    given = named_inputs(module, inputs, source) | ({} if loss is None else {"labels": labels})
    try:
        program = traced_forward(with_loss(module, loss, inputs), given, module, as_it_runs)
    except Exception as error:
        raise InputError(why_not(error, source, module)) from None
    parts = {name for name, _ in (*module.named_parameters(), *module.named_buffers())}
    before = AS_IT_RUNS if as_it_runs else ""
    return {before + name: x for name, x in program.constants.items() if name.removeprefix("traced.") not in parts}


def program_of(
    whole: Any, given: Mapping[str, Any], batch_dim: int, batch: int, module: Any, source: str,
    known: Collection[str], inference: bool, as_it_runs: bool = False,
) -> Any:  # fmt: skip
    """The exported program of a module (``whole``: with its loss) at one batch, in operators that are known.

    Raises
    ------
    InputError
        If it cannot be exported.
    """
    import torch

    place = next((p.device for p in (*module.parameters(), *module.buffers())), torch.device("meta"))
    example: dict[str, Any] = {}
    for key, x in given.items():
        shape = list(x.shape)
        shape[batch_dim] = batch
        example[key] = torch.empty(shape, dtype=x.dtype, device=place)
    try:
        with torch.set_grad_enabled(not inference):
            program = traced_forward(whole, example, module, as_it_runs)
            program = without_writing(program) if inference or writes_into_parts(program) else program
            without_assertions(program)
            return decomposed(program, known, keep=not inference)
    except Exception as error:
        raise InputError(why_not(error, source, module)) from None


def _read(
    program: Any, given: Mapping[str, Any], batch: int, module: Any, source: str, inference: bool, before: str
) -> Exported:
    from torch.export.graph_signature import InputKind

    nodes = {node.name: node for node in program.graph.nodes}
    owners: dict[int, str] = {}
    parts = {
        **dict(module.named_buffers(remove_duplicate=False)),
        **dict(module.named_parameters(remove_duplicate=False)),
    }
    first = {name: owners.setdefault(id(part), name) for name, part in sorted(parts.items(), key=_order(module))}
    names, tensors = iter(given), list[Given]()
    for spec in program.graph_signature.input_specs:
        node = nodes[spec.arg.name]
        if not hasattr(node.meta.get("val"), "shape"):
            raise InputError(f"{source}: input {node.name!r}: expected a tensor")
        is_input = spec.kind == InputKind.USER_INPUT
        target = (
            _apart(next(names), parts)
            if is_input
            else first.get(str(spec.target).removeprefix("traced."), before + str(spec.target))
        )
        trains = spec.kind == InputKind.PARAMETER and (inference or parts[target].requires_grad)
        value = node.meta["val"]
        tensors.append(Given(node, target, tuple(value.shape), _dtype(value), trains, is_input))
    results = (results_of if inference else loss_of)(program, nodes, source)
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    constants = {
        t.name: (x.float() if (x := parts[t.name].detach()).is_floating_point() else x).numpy()
        for t in tensors
        if t.name in parts
        and not t.trainable
        and parts[t.name].device.type == "cpu"
        and parts[t.name].numel() <= LARGEST
    }
    made = {before + name: x for name, x in program.constants.items()}
    lifted = {t.name: made[t.name] for t in tensors if t.name in made and t.name not in parts}
    return Exported(batch, type(module).__name__, tensors, calls, results, constants, lifted)


def _apart(name: str, parts: Mapping[str, Any]) -> str:
    return f"inputs.{name}" if name in parts else name


def _order(module: Any) -> Callable[[tuple[str, Any]], int]:
    place = {name: i for i, (name, _) in enumerate(module.named_parameters(remove_duplicate=False))}
    return lambda item: place.get(item[0], len(place))


def _operator(node: Any) -> tuple[str, str]:
    target = node.target
    schema = getattr(target, "_schema", None)
    if schema is None:
        return getattr(target, "__name__", str(target)), ""
    space, _, op = schema.name.partition("::")
    return (op if space == "aten" else schema.name), target._overloadname


def _root(node: Any, stop: Any = None) -> Any:
    """The node whose elements a view, or a view of a view, has."""
    while node is not stop and node.op == "call_function" and node.args and hasattr(node.target, "_schema"):
        first = node.target._schema.arguments[0].alias_info
        if first is None or not hasattr(node.args[0], "op"):
            break
        node = node.args[0]
    return node


def _results(node: Any) -> list[Any]:
    value = node.meta.get("val")
    return list(value) if isinstance(value, (tuple, list)) else [] if value is None else [value]


def _static(value: Any, node: Any, at: Exported) -> tuple[int, ...]:
    shape = getattr(value, "shape", None)
    if shape is None or not all(isinstance(n, int) for n in shape):
        raise InputError(
            f"{at.source}: {'.'.join(_operator(node))} in module {at.path(node) or '(root)'!r} makes what has another "
            f"shape for other data{f', at {line}' if (line := line_of(node)) else ''}; expected a static module: weigh "
            "by a mask instead of picking (edges: add self loops before, and tell the layer not to), or keep what is "
            "picked by in a buffer"
        )
    return tuple(shape)


_PARTS = {"torch.complex32": "float16", "torch.complex64": "float32", "torch.complex128": "float64"}
"""Complex numbers are kept as pairs of these."""


def _dtype(value: Any) -> str:
    name = str(value.dtype).removeprefix("torch.") if hasattr(value, "dtype") else "int64"
    if name not in DTYPE_BYTES:
        raise InputError(f"dtype {name} is not known to graphs; known: {', '.join(DTYPE_BYTES)}")
    return name


def _replaced(value: Any, env: Mapping[Any, Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_replaced(v, env) for v in value]
    if hasattr(value, "meta") and hasattr(value, "op"):
        return env[value]
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, Value) or hasattr(value, "meta"):
        return None
    return "nan" if isinstance(value, float) and value != value else value  # NaN is not equal to itself
