"""Triton repositories, read by Triton's own protocol buffers; the model program runs on stand-ins of its tensors."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from meshwright.errors import InputError
from meshwright.runtime.export import export
from meshwright.runtime.export.pbtxt import Enum, pbtxt
from meshwright.simulator import Group, ParallelConfig, Plan

proto = pytest.importorskip("tritonclient.grpc.model_config_pb2", reason="tritonclient[grpc] is not installed")
from google.protobuf import json_format, text_format  # noqa: E402  (protobuf comes with tritonclient)


def load(folder: Path) -> dict[str, Any]:
    """Triton name -> ModelConfig, for the repository of one node."""
    configs = {}
    for path in sorted(folder.glob("models/*/config.pbtxt")):
        config = text_format.Parse(path.read_text(encoding="utf-8"), proto.ModelConfig())
        assert config.name == path.parent.name
        configs[config.name] = config
    return configs


def test_stages_instances_and_ensembles(pipelines: Plan, tmp_path: Path) -> None:
    export(pipelines, "triton", tmp_path / "x")
    first, second = load(tmp_path / "x/node-0"), load(tmp_path / "x/node-1")
    cut = "op1pp2-at-2"
    assert set(first) == {
        "a", "a-stage-0", "a-stage-1", f"b-{cut}", f"b-{cut}-stage-0", f"b-{cut}-stage-1", "b-op2pp1",
    }  # fmt: skip
    assert set(second) == {"a", "a-stage-0", "a-stage-1", "b", "b-stage-0", "b-stage-1", "c"}
    stage = first["a-stage-1"]
    assert stage.backend == "python"
    assert stage.max_batch_size == 4
    assert stage.HasField("dynamic_batching")
    (instance,) = stage.instance_group
    assert (instance.kind, list(instance.gpus), instance.count) == (proto.ModelInstanceGroup.KIND_GPU, [1], 1)
    assert [r.name for r in instance.rate_limiter.resources] == ["device-1"]
    split = first["b-op2pp1"].instance_group[0]
    assert split.kind == proto.ModelInstanceGroup.KIND_MODEL
    assert [r.name for r in split.rate_limiter.resources] == ["device-2", "device-3"]


def test_ensemble_joins_tensors_of_the_same_shape(pipelines: Plan, tmp_path: Path) -> None:
    export(pipelines, "triton", tmp_path / "x")
    for configs in (load(tmp_path / "x/node-0"), load(tmp_path / "x/node-1")):
        ensembles = [c for c in configs.values() if c.platform == "ensemble"]
        assert ensembles
        for ensemble in ensembles:
            known = {t.name: (t.data_type, list(t.dims)) for t in ensemble.input}
            for step in ensemble.ensemble_scheduling.step:
                part = configs[step.model_name]
                for t in part.input:
                    assert known[step.input_map[t.name]] == (t.data_type, list(t.dims))
                known |= {step.output_map[t.name]: (t.data_type, list(t.dims)) for t in part.output}
            for t in ensemble.output:
                assert known[t.name] == (t.data_type, list(t.dims))
        for name, config in configs.items():
            version = tmp_path / "x" / ("node-0" if configs.get("c") is None else "node-1") / "models" / name / "1"
            assert version.is_dir()
            assert (version / "model.py").exists() == (config.platform != "ensemble")


def test_equal_groups_of_a_node_are_instances(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    plan = make_plan([Group(ParallelConfig(1, 1), ["m"]), Group(ParallelConfig(1, 1), ["m"])], device="a100-80gb")
    export(plan, "triton", tmp_path / "x")
    (config,) = load(tmp_path / "x/node-0").values()
    assert [list(g.gpus) for g in config.instance_group] == [[0], [1]]
    assert not config.HasField("dynamic_batching"), "the plan does not batch"


def test_start_script(pipelines: Plan, tmp_path: Path) -> None:
    export(pipelines, "triton", tmp_path / "x")
    script = tmp_path / "x/node-0/start.sh"
    subprocess.run(["bash", "-n", script], check=True)
    for device in range(4):
        assert f"--rate-limit-resource=device-{device}:1" in script.read_text()
    served = json.loads((tmp_path / "x/names.json").read_text())["models"]
    assert served["c"] == ["node-1/c"]
    assert served["b"] == ["node-0/b-op1pp2-at-2", "node-0/b-op2pp1", "node-1/b"]


def test_group_over_nodes_is_refused(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    plan = make_plan([Group(ParallelConfig(1, 8), ["m"])], architecture="bert-1.3b", nodes=2, device="a100-80gb")
    with pytest.raises(InputError, match=r"groups\[0\] spans nodes 0, 1.*export to k8s or torchrun"):
        export(plan, "triton", tmp_path / "x")


def test_hostile_names_are_data(make_plan: Callable[..., Plan], hostile: tuple[str, ...], tmp_path: Path) -> None:
    plan = make_plan([Group(ParallelConfig(1, 1), hostile)])
    export(plan, "triton", tmp_path / "x")
    assert len(load(tmp_path / "x/node-0")) == len(hostile)
    assert set(json.loads((tmp_path / "x/names.json").read_text())["models"]) == set(hostile)
    script = tmp_path / "x/node-0/start.sh"
    assert "pwned" not in script.read_text()


def test_text_format_escapes_everything(hostile: tuple[str, ...]) -> None:
    for text in (*hostile, "\x00\x7f\\n'\""):
        message = {"name": text, "max_batch_size": 3, "instance_group": [{"kind": Enum("KIND_CPU"), "gpus": [1, 2]}]}
        read = text_format.Parse(pbtxt(message), proto.ModelConfig())
        assert read.name == text
        assert list(read.instance_group[0].gpus) == [1, 2]


class Tensor:
    """What Triton's python backend gives and takes: a tensor behind DLPack."""

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value

    def to_dlpack(self) -> Any:
        from torch.utils.dlpack import to_dlpack

        return to_dlpack(self.value)

    @classmethod
    def from_dlpack(cls, name: str, capsule: Any) -> Tensor:
        from torch.utils.dlpack import from_dlpack

        return cls(name, from_dlpack(capsule))


class Triton:
    """Loads a repository as Triton does, and runs ensembles step by step."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        stand_in = types.ModuleType("triton_python_backend_utils")
        vars(stand_in).update(
            Tensor=Tensor,
            InferenceResponse=lambda output_tensors: output_tensors,
            get_input_tensor_by_name=lambda request, name: next(t for t in request if t.name == name),
        )
        monkeypatch.setitem(sys.modules, "triton_python_backend_utils", stand_in)
        self.folder, self.configs, self.loaded = folder, load(folder), {}
        for name, config in self.configs.items():
            for number in range(len(config.instance_group)):
                self.loaded[name, number] = self._start(name, number)

    def _start(self, name: str, number: int) -> Any:
        path = self.folder / "models" / name / "1" / "model.py"
        found = importlib.util.spec_from_file_location(f"triton_{len(self.loaded)}", path)
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        config = self.configs[name]
        model = module.TritonPythonModel()
        model.initialize(
            {
                "model_config": json.dumps(json_format.MessageToDict(config, preserving_proto_field_name=True)),
                "model_instance_kind": proto.ModelInstanceGroup.Kind.Name(config.instance_group[number].kind)[5:],
                "model_instance_name": f"{name}_{number}_0",
                "model_instance_device_id": "0",
            }
        )
        return model

    def infer(self, name: str, requests: list[Any]) -> list[Any]:
        config = self.configs[name]
        if config.platform != "ensemble":
            answers = self.loaded[name, 0].execute([[Tensor(config.input[0].name, x)] for x in requests])
            return [answer[0].value for answer in answers]
        tensors = {config.input[0].name: requests}
        for step in config.ensemble_scheduling.step:
            ((_, given),), ((_, gives),) = step.input_map.items(), step.output_map.items()
            tensors[gives] = self.infer(step.model_name, tensors[given])
        return tensors[config.output[0].name]


def test_program_computes_what_the_whole_model_does(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from meshwright.kernels.specs import SPECS
    from meshwright.kernels.transformer import build_stage, make_input

    groups = [Group(ParallelConfig(1, 2), ["m"]), Group(ParallelConfig(2, 1), ["m"])]
    for architecture in ("cpu-gpt-tiny", "cpu-bert-tiny"):
        plan = make_plan(groups, architecture=architecture, max_batch=4)
        export(plan, "triton", tmp_path / architecture)
        triton = Triton(tmp_path / architecture / "node-0", monkeypatch)
        spec = SPECS[architecture]
        whole = build_stage(spec, 0, spec.n_layers, seed=plan.models[0].seed)
        requests = [make_input(spec, batch, seed=batch) for batch in (1, 3)]
        for name in ("m-op1pp2-at-2", "m-op2pp1"):
            for given, out in zip(requests, triton.infer(name, requests), strict=True):
                torch.testing.assert_close(out, whole(given), rtol=1e-4, atol=1e-4)


def test_split_stage_whose_share_fails_says_so_and_goes_on() -> None:
    """One share that raises must not leave the other waiting for it."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from meshwright.kernels.specs import SPECS
    from meshwright.kernels.transformer import make_input
    from meshwright.runtime.service.local_stage import LocalStage

    spec = SPECS["cpu-gpt-tiny"]
    stage = LocalStage(spec, 0, spec.n_layers, 0, ["cpu", "cpu"])
    good = make_input(spec, 1)
    before = stage(good)
    for _ in range(20):
        with pytest.raises(RuntimeError, match="size of tensor"):
            stage(torch.full((1, spec.seq_len + 5), 1))
    torch.testing.assert_close(stage(good), before)


def test_the_stages_of_a_model_run_every_layer_once(pipelines: Plan, tmp_path: Path) -> None:
    """From its first to its last, each where the one before ends."""
    export(pipelines, "triton", tmp_path / "x")
    seen = 0
    for node in ("node-0", "node-1"):
        configs = load(tmp_path / "x" / node)
        for ensemble in (c for c in configs.values() if c.platform == "ensemble"):
            spans = [
                [int(configs[step.model_name].parameters[key].string_value) for key in ("first", "last")]
                for step in ensemble.ensemble_scheduling.step
            ]
            whole = json.loads(
                configs[ensemble.ensemble_scheduling.step[0].model_name].parameters["architecture"].string_value
            )
            assert [first for first, _ in spans] == [0, *(last for _, last in spans[:-1])]
            assert spans[-1][1] == whole["layers"] + 2, whole
            seen += 1
    assert seen
