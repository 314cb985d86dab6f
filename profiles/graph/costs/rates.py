"""The shares of its data sheet that a device reaches in training, by family; none is fitted to a training run."""

from __future__ import annotations

from dataclasses import dataclass

from ....errors import InputError
from ...hardware import DeviceSpec

__all__ = ["Rates", "peak_flops", "rates_of"]


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of one family of devices; `meshwright.simulator.training.configuration.rates` names the sources.

    Parameters
    ----------
    multiprocessors : int
        Over which the tiles of a product are dealt in waves; 0: no waves.
    matmul : float
        Share of the peak inside a wave of full tiles, in a short run.
    sustained : float
        What is left of that at the clocks of a device that multiplies all day.
    wave_s, kernel_s : float
        Fixed seconds of a wave (outputs of two bytes) and of a kernel.
    memory : float
        Share of the memory bandwidth of streaming kernels.
    flash_forward, flash_backward : float
        Share of the peak of fused causal attention on long sequences.
    flash_half_seq : float
        Sequence length at which it has half of that share.
    single : float
        Peak of float32 products over that of half precision.
    brain : float
        The same ratio for bfloat16.
    source : str
        Where the figures come from.
    eight : float
        Rate of 8-bit products over that of half precision; 0: the device has none.
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
    single: float
    brain: float
    source: str
    eight: float = 0.0


_GEMM = "products: public bf16 GEMM tables at sustained clocks; memory: 0.8 of the data sheet"
_V100_SINGLE = 15.7 / 125  # data sheet of V100 SXM2: no tensor cores for float32, none for bfloat16

_FAMILIES: dict[str, Rates] = {
    "v100": Rates(
        80, 0.92, 0.86, 5e-6, 3e-6, 0.80, 0.40, 0.32, 500, _V100_SINGLE, _V100_SINGLE,
        "float32 15.7 TFLOP/s: V100 SXM2 data sheet; shares of the peak estimated from A100's, no measurement",
    ),
    "a100": Rates(108, 0.92, 0.913, 3e-6, 2e-6, 0.80, 0.63, 0.56, 500, 0.5, 1.0, f"{_GEMM}; float32 as TF32"),
    "h100": Rates(
        132, 0.92, 0.830, 2e-6, 2e-6, 0.80, 0.65, 0.55, 800, 0.5, 1.0,
        f"{_GEMM}; float32 as TF32; 8 bits: 1,979 of 989 TFLOP/s (data sheet), of which products reach 0.84 of the "
        "share that half precision reaches (as in the training estimates)", 2.0 * 0.84,
    ),
    "cpu": Rates(0, 0.80, 1.0, 0.0, 3e-6, 0.80, 0.40, 0.32, 500, 1.0, 1.0, "round figures; peaks are float32's"),
}  # fmt: skip
_OTHER = Rates(0, 0.80, 1.0, 0.0, 3e-6, 0.80, 0.40, 0.32, 500, 0.5, 1.0, "round figures for an unknown device")
_LIKE = {"h200": "h100", "h800": "h100", "a800": "a100"}


def rates_of(device: DeviceSpec) -> Rates:
    """Rates of a device by the family in its name; round figures for families that are not known.

    Raises
    ------
    InputError
        If the device has no FLOP/s or no memory bandwidth.
    """
    for name in ("peak_flops", "memory_bandwidth_bytes_per_s"):
        if not getattr(device, name) > 0:
            raise InputError(f"device {device.name!r}: expected {name} > 0 (got {getattr(device, name)})")
    family = device.name.lower().split("-")[0]
    return _FAMILIES.get(_LIKE.get(family, family), _OTHER)


def peak_flops(device: DeviceSpec, dtype: str) -> float:
    """Dense peak of products of one type, FLOP per second; float64 at half of float32."""
    rates = rates_of(device)
    share = {"float16": 1.0, "bfloat16": rates.brain, "float64": rates.single / 2}.get(dtype, rates.single)
    return device.peak_flops * share
