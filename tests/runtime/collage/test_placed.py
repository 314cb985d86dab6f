"""A placement runs as eager does, whatever it is cut into, and says what is wrong with one."""

from __future__ import annotations

import pytest
from meshwright.errors import InputError, RunError
from meshwright.profiles.backends import Backend
from meshwright.runtime.backends.capture import Captured, capture
from meshwright.runtime.backends.registry import backends
from meshwright.runtime.collage.placed import Compiler, Unit

torch = pytest.importorskip("torch")


class Branches(torch.nn.Module):
    """Two ways from one convolution, one of them a view, and a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.second = torch.nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Result of 4 channels."""
        held = torch.relu(self.first(x))
        turned = held.transpose(2, 3)
        return self.second(held) + turned.contiguous() * held.mean()


NAMES = ("torch-onednn", "torch-native")


@pytest.fixture(scope="module")
def captured() -> Captured:
    """The graph of the module above."""
    torch.manual_seed(0)
    return capture(Branches().eval(), (torch.rand(2, 3, 8, 8),))


def alone(captured: Captured, names: tuple[str, ...] = NAMES) -> list[Unit]:
    """Every operator a unit, backends in turn."""
    return [Unit(names[k % len(names)], (node.id,)) for k, node in enumerate(captured.graph.nodes)]


def test_any_cut_gives_what_eager_gives(captured: Captured) -> None:
    """One by one, in pairs, all at once; twice with other inputs: nothing of the first run is left."""
    made = backends(NAMES)
    ids = [node.id for node in captured.graph.nodes]
    pairs = [Unit(NAMES[k // 2 % 2], tuple(ids[k : k + 2])) for k in range(0, len(ids), 2)]
    for units in (alone(captured), pairs, [Unit("torch-onednn", tuple(ids))]):
        program = Compiler(captured, made).placed(units)
        for seed in (1, 2):
            given = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
            (wanted,) = captured.module(given)
            assert torch.allclose(program(given), wanted, atol=1e-6)
            timed = program.timed(given)
            assert len(timed.unit_ms) == len(units)
            assert sum(timed.unit_ms) <= timed.total_ms


def test_crossings_are_pairs_of_a_value_and_a_unit_of_another_backend(captured: Captured) -> None:
    """relu is read by three on the other backend or its own; the graph's input crosses nothing."""
    made = backends(NAMES)
    ids = [node.id for node in captured.graph.nodes]
    one = Compiler(captured, made).placed([Unit("torch-onednn", tuple(ids))])
    assert one.crossings == 0
    split = Compiler(captured, made).placed([Unit(NAMES[0], tuple(ids[:2])), Unit(NAMES[1], tuple(ids[2:]))])
    assert split.crossings == 1


def test_flags_hold_for_units_in_a_row_and_are_set_once(captured: Captured) -> None:
    """A backend's flag is held while its units run, and not set anew between two of them."""
    entered = list[str]()

    class Flagged(Backend):
        name = "flagged"

        def compile(self, subgraph: object, example: object) -> object:
            return lambda *given: subgraph(*given)  # type: ignore[operator]

        def held(self) -> object:
            class Held:
                def __enter__(self) -> None:
                    entered.append("in")

                def __exit__(self, *_: object) -> None:
                    entered.append("out")

            return Held()

    ids = [node.id for node in captured.graph.nodes]
    units = [Unit("flagged" if k else NAMES[0], (name,)) for k, name in enumerate(ids)]
    program = Compiler(captured, [*backends(NAMES), Flagged()]).placed(units)
    entered.clear()
    program(*captured.example)
    assert entered == ["in", "out"]


def test_what_is_no_program_is_refused(captured: Captured) -> None:
    """Twice, never, unknown backends, other batches."""
    made = backends(NAMES)
    units = alone(captured)
    with pytest.raises(InputError, match="is in two groups"):
        Compiler(captured, made).placed([*units, units[0]])
    with pytest.raises(InputError, match="is in no group"):
        Compiler(captured, made).placed(units[:-1])
    with pytest.raises(InputError, match="no backend 'openvino' among"):
        Compiler(captured, made).placed([Unit("openvino", units[0].nodes)])
    program = Compiler(captured, made).placed(units)
    with pytest.raises(InputError, match=r"planned for \(2, 3, 8, 8\) of torch.float32 \(got \(4, 3, 8, 8\)"):
        program(torch.rand(4, 3, 8, 8))
    with pytest.raises(InputError, match="expected 1 inputs"):
        program()


def test_a_backend_that_cannot_compile_is_named(captured: Captured) -> None:
    """One line with the backend, the operator and its error."""

    class Broken(Backend):
        name = "broken"

        def compile(self, subgraph: object, example: object) -> object:
            raise ValueError("no\nkernel")

    with pytest.raises(RunError, match=r"backend 'broken' cannot compile conv2d: ValueError: no kernel"):
        Compiler(captured, [Broken()]).placed(alone(captured, ("broken",)))
