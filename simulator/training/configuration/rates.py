"""What devices and training software do in practice: documented rates, and two that are fitted to runs.

Fitted are `DeviceRates.level`, and FlashAttention's first generation on an H100.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....errors import InputError
from ....profiles.hardware import DeviceSpec
from ....reprs import Shown

__all__ = ["CORE", "FSDP_2023", "MEGATRON_2022", "NEMO_2024", "TITAN_2024", "DeviceRates", "Stack", "rates_of"]


@dataclass(frozen=True, slots=True, repr=False)
class DeviceRates(Shown):
    """How much of its data sheet's peak rates a device really reaches.

    Parameters
    ----------
    multiprocessors : int
        Streaming multiprocessors, over which the tiles of a GEMM are dealt in waves; 0: no waves.
    matmul : float
        Share of the peak FLOP/s inside a wave of full tiles, in a short run.
    sustained : float
        Share of that which remains in long runs on random numbers, which make the device lower its clocks.
    wave_s, kernel_s : float
        Fixed seconds of a wave with outputs of two bytes, and of any kernel.
    memory : float
        Share of the memory bandwidth that streaming kernels reach.
    flash_forward, flash_backward : float
        Share of the peak of fused attention on long causal sequences with heads of 128.
    flash_half_seq : float
        Sequence length at which fused attention has half of that share.
    all_reduce, half : tuple of float
        NCCL's bus bandwidth over the link's for large messages inside a node, in groups of 2, 4 and 8: of
        all-reduces, and of reduce-scatters and all-gathers.
    network : float
        The same between nodes.
    contention : float
        Share of a product's rate that a collective beside it takes: NCCL's channels over the multiprocessors.
    source : str
        Where the figures come from.
    spread : float
        Standard deviation of the sustained clock from device to device, over its mean. All devices of a job wait for
        the slowest one. Sinha et al. 2022 ("Not all GPUs are created equal") found 8 % between the ends of clusters
        of some hundred equal GPUs, on average; the ends of 400 normal values are 5.9 standard deviations apart.
    flash_1, flash_2 : tuple of float, optional
        The same three figures of fused attention for FlashAttention's first and second generation, where
        `flash_forward` and its neighbours are those of a later one.
    fp8 : float
        Share of the 8-bit peak that GEMMs reach, over the share of the half-precision peak that they reach; 0: the
        device has no 8-bit products.
    level : float
        Calibration: the clock of products and fused attention in published training runs, over the one that all the
        other figures give. It is fitted (`fitted_to`) and stands for what nothing here explains: power and
        temperature of nodes that train for hours are likely. ``replace(rates, level=1.0)`` switches it off.
    fitted_to : str
        The runs that `level` was fitted to; nothing without a level.

    Raises
    ------
    InputError
        If `level` is not above 0, or is not 1 and does not say what it was fitted to.
    """

    multiprocessors: int
    matmul: float
    sustained: float
    wave_s: float
    kernel_s: float
    memory: float
    flash_forward: float
    flash_backward: float
    flash_half_seq: float
    all_reduce: tuple[float, float, float]
    half: tuple[float, float, float]
    network: float
    contention: float
    source: str
    spread: float = 0.0135
    flash_1: tuple[float, float, float] | None = None
    flash_2: tuple[float, float, float] | None = None
    fp8: float = 0.0
    level: float = 1.0
    fitted_to: str = ""

    def __post_init__(self) -> None:
        if not self.level > 0:
            raise InputError(f"rates.level: expected a number above 0 (got {self.level!r})")
        if self.level != 1 and not self.fitted_to:
            raise InputError(f"rates.fitted_to: expected the runs that level {self.level} was fitted to (got none)")

    @property
    def said(self) -> str:
        """Where the figures come from, and what is fitted of them."""
        return self.source + (f"; level {self.level:g}: fitted to {self.fitted_to}" if self.fitted_to else "")

    def flash(self, generation: int = 0) -> tuple[float, float, float]:
        """(forward, backward, half_seq) of a generation of FlashAttention; 0, or one that is not told apart: the
        device's newest."""
        older = {1: self.flash_1, 2: self.flash_2}.get(generation)
        return older or (self.flash_forward, self.flash_backward, self.flash_half_seq)


_GEMM = (
    "matmul, wave_s, kernel_s: least median error on the public bf16 GEMM tables of aiconfigurator (vLLM 0.14; 1,152 "
    "shapes with m >= 1024: 4.3 % on A100, 4.7 % on H100)"
)
_SUSTAINED = (
    "sustained: cuBLAS multiplies random normal matrices of 8192 at {} TFLOP/s ({}); the tables' operands are kinder"
)
_FLASH = "flash: causal figures of the FlashAttention-{} paper"
# The second generation's paper calls itself twice as fast as the first, which it gives 30 to 50 % of an A100's peak
# forward and 25 to 35 % backward. The third's has the second on an H100 at 191, 298, 333 TFLOP/s forward (causal,
# sequences of 512, 2,048, 8,192) and at 322 backward (long, not causal). Nobody published the first on an H100: an
# A100's shares by what the second loses from one to the other would be 0.17, 0.16 and 340. It is fitted instead: 1.2
# times these shares, half of it at 1,400 tokens (least mean |error| of 1.0 to 1.5 times and 340 to 1,400, with `level`
# as it is, on the 16 runs of LLM Foundry that `_FITTED_H100` names: 6.8 % before, 4.1 % so).
_FLASH_A100 = (0.315, 0.28, 500)
_FLASH_H100 = ((0.204, 0.192, 1400), (0.345, 0.325, 340))
_NCCL = "all_reduce, half: NCCL 2.27-2.29 there, 8 to 512 MiB; contention: 24 NCCL channels over the multiprocessors"

_VOLTA = (
    "matmul x sustained: PyTorch multiplied random normal matrices of 8192 at 97.4 and 94.8 TFLOP/s on two V100-SXM2 "
    "(GitHub, zzc0721/torch-performance-test-data, issues 140, 52; 57, 78, 96, 89 at 1024, 2048, 4096, 10240); wave_s: "
    "A100's by the bytes of the tiles of all multiprocessors and the memory's bandwidth; the rest estimated from A100's"
)
_FP8 = (
    "fp8: 0.72 of the 8-bit peak beside 0.86 of the half-precision one inside a wave, least median errors (7.3 %, "
    "5.4 %) on 7,650 GEMMs each of aiconfigurator's TensorRT-LLM 1.3 tables (cuBLAS; its casts of inputs taken off)"
)
# Least median |error| on a grid of 0.01 over the parts of published runs that were set aside for it by a split made
# before any error was computed (reproduce/accuracy/published/later.py and fresh.py). A100s' is 1.00 by the same rule.
_FITTED_V100 = "11 runs of Megatron-LM on V100s (LiBai's benchmark): median |error| 8.4 % at 1.00, 2.1 % at 0.87"
_FITTED_H100 = (
    "32 runs: 12 of NVIDIA's DGX Cloud recipes (GPT-3 175B, Nemotron-4 15B and 340B), 4 of NeMo 24.07 (GPT-3), 16 of "
    "LLM Foundry (MPT 350M to 30B): median |error| 6.0 % at 1.00, 2.2 % at 0.93 (1.5 % with flash_1 as fitted then)"
)

RATES: dict[str, DeviceRates] = {
    "v100": DeviceRates(
        80, 0.92, 0.86, 5e-6, 3e-6, 0.80, 0.40, 0.32, 500, (0.14, 0.57, 0.85), (0.14, 0.57, 0.85), 0.90, 0.15,
        f"{_VOLTA}; all_reduce, half: 1, 4 and 6 of a device's 6 links join groups of 2, 4 and 8 in the hybrid cube "
        "mesh (`nvidia-smi topo -m` of such a node: Oneflow-Inc/DLPerf), 0.85 of a link's rate each",
        level=0.87, fitted_to=_FITTED_V100,
    ),
    "v100sxm3": DeviceRates(
        80, 0.92, 0.86, 5e-6, 3e-6, 0.80, 0.40, 0.32, 500, (0.85, 0.85, 0.85), (0.85, 0.85, 0.85), 0.90, 0.15,
        f"{_VOLTA}; all_reduce, half: all 6 links go into the switch of a DGX-2, 0.85 of a link's rate each",
        level=0.87, fitted_to=_FITTED_V100,
    ),
    "a100": DeviceRates(
        108, 0.92, 0.913, 3e-6, 2e-6, 0.80, 0.63, 0.56, 500, (0.65, 0.73, 0.75), (0.53, 0.66, 0.71), 0.90, 0.22,
        "; ".join((_GEMM, _SUSTAINED.format(258, "He 2024"), _FLASH.format(2), _NCCL)), flash_1=_FLASH_A100,
    ),
    "h100": DeviceRates(
        132, 0.92, 0.830, 2e-6, 2e-6, 0.80, 0.65, 0.55, 800, (0.72, 0.78, 1.01), (0.58, 0.72, 0.76), 0.90, 0.18,
        "; ".join((_GEMM, _SUSTAINED.format(716, "Shankhdhar 2024"), _FLASH.format(3), _NCCL, _FP8)),
        flash_1=_FLASH_H100[0], flash_2=_FLASH_H100[1], fp8=0.84, level=0.93, fitted_to=_FITTED_H100,
    ),
}  # fmt: skip
OTHER = DeviceRates(
    0, 0.80, 1.0, 0.0, 3e-6, 0.80, 0.40, 0.32, 500, (0.70, 0.70, 0.70), (0.70, 0.70, 0.70), 0.80, 0.15,
    "round figures for an unknown device",
)  # fmt: skip


def rates_of(spec: DeviceSpec) -> DeviceRates:
    """Rates of a device by the family in its name; round figures for families that are not known.

    Raises
    ------
    InputError
        If the device has no FLOP/s or no memory bandwidth.
    """
    for name in ("peak_flops", "memory_bandwidth_bytes_per_s"):
        if not getattr(spec, name) > 0:
            raise InputError(f"cluster.device {spec.name!r}: expected {name} > 0 (got {getattr(spec, name)})")
    for name, link in (("intra_node", spec.intra_node), ("inter_node", spec.inter_node)):
        if not link.bandwidth_bytes_per_s > 0:
            raise InputError(f"cluster.device {spec.name!r}: expected {name} bandwidth > 0 (got {link})")
    family = spec.name.lower().split("-")[0]
    return RATES.get("h100" if family in ("h200", "h800") else "a100" if family == "a800" else family, OTHER)


@dataclass(frozen=True, slots=True, repr=False)
class Stack(Shown):
    """Properties of the training software, which are no part of a configuration.

    Parameters
    ----------
    name : str
        Its name in explanations.
    flash : bool
        Attention is one fused kernel; otherwise the scores are written to memory, and kept unless recomputed.
    dropout : bool
        Whether GPT models have dropout if they do not say so themselves.
    overlap_data : bool
        Gradients are reduced under the last backward pass, parameters gathered under the first forward pass.
    overlap_pipeline : bool
        Interleaved schedules overlap sends with compute.
    scatter_gather : bool
        Without sequence parallelism, stages send a tensor-parallel share of an activation and gather it after.
    ops_forward, ops_backward : int
        Operators that the host launches for one layer.
    op_s : float
        Host time of one of them: a layer takes no less than all of them.
    iteration_s : float
        Fixed host work of one iteration: batch, loss scale, norms, log line; the optimizer's loops come on top.
    context_bytes : int
        Device memory outside the allocator: CUDA context, NCCL buffers, cuBLAS workspaces.
    fragmentation : float
        Reserved but unusable memory, as a share of what is allocated at the peak.
    gradient_bytes : int
        Bytes of a gradient as it is kept, added to and reduced; 0: as the type has it (fp32 in bf16 training).
    overlap_tensor : bool
        Whether tensor-parallel collectives run beside the products that they feed or follow, chunk by chunk
        (Transformer Engine's "userbuffers"), with sequence parallelism.
    flash_generation : int
        Generation of FlashAttention, 1 or 2; 0: the newest that the device has (`DeviceRates.flash`).
    early_stop : bool
        Full recomputation ends with the input of a layer's last product, whose output nothing needs (PyTorch's
        checkpoints that are not reentrant, since 2.1).
    flat : bool
        A layer's parameters are one flat tensor (PyTorch's FSDP): weight gradients are written in their own type,
        copied into it, cast to fp32 and divided before they are reduced, once per microbatch.
    loss_bytes : tuple of int
        Bytes moved per logit by the loss, forward and backward. Megatron's runs in fp32, kernel by kernel: cast 6,
        maximum 4, subtract 8, exponential 8, sum 4, divide 8; backward scale 8, cast 6.
    eager : bool
        Whether RMSNorm, rotary positions, SwiGLU and the repetition of grouped keys and values are single kernels of
        PyTorch, part of them in fp32 (Llama's public code, as torchtitan has it), instead of fused ones.
    dispatch_once : bool
        Whether a token goes to each node of its experts once, and is passed on there (DeepSeek's DeepEP); otherwise
        once for each expert (NCCL's all-to-all).
    dispatch_bytes : int
        Bytes of a number of a token on its way to its experts; 0: as it is stored.
    expert_ops : tuple of int
        Operators that the host launches for each expert of a device, forward and backward, where every expert's
        product is a kernel of its own; (0, 0): all experts are one (`mixture.block.host_waits`).
    """

    name: str
    flash: bool
    dropout: bool
    overlap_data: bool
    overlap_pipeline: bool
    scatter_gather: bool
    # Round figures. A GPT layer of Megatron's operators on tensors of a few bytes took one EPYC core 0.12 ms forward
    # and 0.19 ms backward (PyTorch 2.13, 26 kernels forward); launching a CUDA kernel adds about 5 us to each of them.
    # A CUDA context with NCCL and cuBLAS takes about 1.5 GiB. Only small layers and the first check of memory depend on
    # these.
    ops_forward: int = 30
    ops_backward: int = 35
    op_s: float = 10e-6
    iteration_s: float = 5e-3
    context_bytes: int = 3 * 2**29
    fragmentation: float = 0.03
    gradient_bytes: int = 0
    overlap_tensor: bool = False
    flash_generation: int = 0
    early_stop: bool = False
    flat: bool = False
    loss_bytes: tuple[int, int] = (38, 14)
    eager: bool = False
    dispatch_once: bool = False
    dispatch_bytes: int = 0
    # Counted in Transformer Engine 2 (pytorch/module/grouped_linear.py) and in the hooks of Megatron Core's gradient
    # buckets (core/distributed), for each of an expert's two matrices: a view of its tokens, a product, what is kept;
    # then views of gradient and input, two products, a placeholder for the weight's gradient, its accumulation, a hook.
    expert_ops: tuple[int, int] = (6, 16)

    @property
    def added_bytes(self) -> int:
        """Bytes moved per weight gradient by the product that makes it: added to what is there, or written."""
        return 2 if self.flat else 2 * (self.gradient_bytes or 4)


MEGATRON_2022 = Stack("Megatron-LM 2021-2022", False, True, False, False, True)
"""The software of Narayanan et al. (2021) and Korthikanti et al. (2022): scores in memory, nothing overlapped but
tensor-parallel communication in the backward pass."""
CORE = Stack("Megatron Core", True, False, True, True, False)
"""Megatron Core with fused attention and its communication overlap switched on, as in its published H100 recipes."""
NEMO_2024 = Stack("NeMo 2024", True, True, True, True, False, gradient_bytes=2, overlap_tensor=True)
"""NeMo's performance recipes of 2023-2024 (NeMo-Framework-Launcher, gpt3/*_fp8_performance.yaml): `grad_sync_dtype:
bf16` with the distributed Adam, `ub_tp_comm_overlap`, dropout 0.1 in GPT models."""
FSDP_2023 = Stack(
    "PyTorch FSDP 2023", True, False, True, False, False, flash_generation=2, early_stop=True, flat=True,
    loss_bytes=(2, 4), expert_ops=(0, 0),
)  # fmt: skip
"""PyTorch's FullyShardedDataParallel of 2023, one unit per layer, gradients reduced in fp32, with FlashAttention-2 and
its fused loss on half-precision logits (as MosaicML's LLM Foundry has them);
``replace(FSDP_2023, flash_generation=1)`` for software before August 2023. Give it zero 2 or 3."""
TITAN_2024 = replace(FSDP_2023, name="torchtitan 2024, eager", loss_bytes=CORE.loss_bytes, eager=True)
"""torchtitan of 2024 without ``torch.compile``: FSDP, gradients reduced in fp32, FlashAttention-2 of PyTorch, norms,
rotary positions, SwiGLU and the loss in single kernels. Give it zero 2 or 3."""
