"""Shapes of common public decoders, by name, from their published config.json files."""

from __future__ import annotations

from .decoder import DecoderSpec

__all__ = ["DECODERS"]

# name, layers, hidden, heads, kv heads, head dim, ffn, vocab, positions, tied
_GATED = (
    ("Llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000, 4096, False),
    ("Llama-2-13b", 40, 5120, 40, 40, 128, 13824, 32000, 4096, False),
    ("Llama-2-70b", 80, 8192, 64, 8, 128, 28672, 32000, 4096, False),
    ("Llama-7b", 32, 4096, 32, 32, 128, 11008, 32000, 2048, False),
    ("Llama-13b", 40, 5120, 40, 40, 128, 13824, 32000, 2048, False),
    ("Meta-Llama-3-8B", 32, 4096, 32, 8, 128, 14336, 128256, 8192, False),
    ("Meta-Llama-3-70B", 80, 8192, 64, 8, 128, 28672, 128256, 8192, False),
    ("Llama-3.1-8B", 32, 4096, 32, 8, 128, 14336, 128256, 131072, False),
    ("Llama-3.1-70B", 80, 8192, 64, 8, 128, 28672, 128256, 131072, False),
    ("Llama-3.1-405B", 126, 16384, 128, 8, 128, 53248, 128256, 131072, False),
    ("Llama-3.2-1B", 16, 2048, 32, 8, 64, 8192, 128256, 131072, True),
    ("Llama-3.2-3B", 28, 3072, 24, 8, 128, 8192, 128256, 131072, True),
    ("Llama-3.3-70B-Instruct", 80, 8192, 64, 8, 128, 28672, 128256, 131072, False),
    ("Mistral-7B-v0.1", 32, 4096, 32, 8, 128, 14336, 32000, 32768, False),
    ("Mistral-7B-v0.2", 32, 4096, 32, 8, 128, 14336, 32000, 32768, False),
    ("Mistral-7B-v0.3", 32, 4096, 32, 8, 128, 14336, 32768, 32768, False),
    ("Mistral-Nemo-Base-2407", 40, 5120, 32, 8, 128, 14336, 131072, 131072, False),
    ("Mistral-Large-Instruct-2407", 88, 12288, 96, 8, 128, 28672, 32768, 131072, False),
    ("Qwen2.5-0.5B", 24, 896, 14, 2, 64, 4864, 151936, 32768, True),
    ("Qwen2.5-1.5B", 28, 1536, 12, 2, 128, 8960, 151936, 131072, True),
    ("Qwen2.5-3B", 36, 2048, 16, 2, 128, 11008, 151936, 32768, True),
    ("Qwen2.5-7B", 28, 3584, 28, 4, 128, 18944, 152064, 131072, False),
    ("Qwen2.5-14B", 48, 5120, 40, 8, 128, 13824, 152064, 131072, False),
    ("Qwen2.5-32B", 64, 5120, 40, 8, 128, 27648, 152064, 131072, False),
    ("Qwen2.5-72B", 80, 8192, 64, 8, 128, 29568, 152064, 131072, False),
    ("Qwen3-0.6B", 28, 1024, 16, 8, 128, 3072, 151936, 40960, True),
    ("Qwen3-1.7B", 28, 2048, 16, 8, 128, 6144, 151936, 40960, True),
    ("Qwen3-4B", 36, 2560, 32, 8, 128, 9728, 151936, 40960, True),
    ("Qwen3-8B", 36, 4096, 32, 8, 128, 12288, 151936, 40960, False),
    ("Qwen3-14B", 40, 5120, 40, 8, 128, 17408, 151936, 40960, False),
    ("Qwen3-32B", 64, 5120, 64, 8, 128, 25600, 151936, 40960, False),
)

_WINDOWS = {"Mistral-7B-v0.1": 4096}
"""Tokens that layers see, where their files give windows (Mistral's later versions, Mixtral and Qwen have none)."""

# name, layers, hidden, heads, vocab, positions
_PLAIN = (
    ("opt-125m", 12, 768, 12, 50272, 2048),
    ("opt-1.3b", 24, 2048, 32, 50272, 2048),
    ("opt-2.7b", 32, 2560, 32, 50272, 2048),
    ("opt-6.7b", 32, 4096, 32, 50272, 2048),
    ("opt-13b", 40, 5120, 40, 50272, 2048),
    ("opt-30b", 48, 7168, 56, 50272, 2048),
    ("opt-66b", 64, 9216, 72, 50272, 2048),
    ("opt-175b", 96, 12288, 96, 50272, 2048),
    ("gpt2", 12, 768, 12, 50257, 1024),
    ("gpt3-175b", 96, 12288, 96, 50257, 2048),
)

# name, layers, hidden, heads, kv heads, head dim, experts, per token, expert's ffn, vocab, positions
_EXPERTS = (
    ("Mixtral-8x7B-v0.1", 32, 4096, 32, 8, 128, 8, 2, 14336, 32000, 32768),
    ("Mixtral-8x7B-Instruct-v0.1", 32, 4096, 32, 8, 128, 8, 2, 14336, 32000, 32768),
    ("Mixtral-8x22B-v0.1", 56, 6144, 48, 8, 128, 8, 2, 16384, 32768, 65536),
    ("Mixtral-8x22B-Instruct-v0.1", 56, 6144, 48, 8, 128, 8, 2, 16384, 32768, 65536),
    ("Qwen3-30B-A3B", 48, 2048, 32, 4, 128, 128, 8, 768, 151936, 40960),
    ("Qwen3-30B-A3B-Instruct-2507", 48, 2048, 32, 4, 128, 128, 8, 768, 151936, 262144),
    ("Qwen3-235B-A22B", 94, 4096, 64, 4, 128, 128, 8, 1536, 151936, 40960),
    ("Qwen3-235B-A22B-Instruct-2507", 94, 4096, 64, 4, 128, 128, 8, 1536, 151936, 262144),
    ("Qwen3-Coder-480B-A35B-Instruct", 62, 6144, 96, 8, 128, 160, 8, 2560, 151936, 262144),
)

# name, layers, hidden, heads, kv heads, head dim, ffn, vocab, positions, window, layers without it
_ALTERNATING = (
    ("gemma-2-2b", 26, 2304, 8, 4, 256, 9216, 256000, 8192, 4096, 13),
    ("gemma-2-9b", 42, 3584, 16, 8, 256, 14336, 256000, 8192, 4096, 21),
    ("gemma-2-27b", 46, 4608, 32, 16, 128, 36864, 256000, 8192, 4096, 23),
    ("gemma-3-1b", 26, 1152, 4, 1, 256, 6912, 262144, 32768, 512, 4),
)

# name, layers, hidden, heads, ffn, vocab, positions, experts, shared, per token, expert's ffn, dense layers, latent of
# the queries, precision of the published weights
_LATENT = (
    ("DeepSeek-V2-Lite", 27, 2048, 16, 10944, 102400, 163840, 64, 2, 6, 1408, 1, 0, ""),
    ("DeepSeek-V2", 60, 5120, 128, 12288, 102400, 163840, 160, 2, 6, 1536, 1, 1536, ""),
    ("DeepSeek-V3", 61, 7168, 128, 18432, 129280, 163840, 256, 1, 8, 2048, 3, 1536, "fp8_block"),
    ("DeepSeek-R1", 61, 7168, 128, 18432, 129280, 163840, 256, 1, 8, 2048, 3, 1536, "fp8_block"),
    ("Kimi-K2", 61, 7168, 64, 18432, 163840, 131072, 384, 1, 8, 2048, 1, 1536, "fp8_block"),
)

_FURTHER = ("DeepSeek-V3", "DeepSeek-R1")
"""Those whose checkpoints hold a layer that predicts a further token."""

DECODERS: dict[str, DecoderSpec] = {
    **{
        name: DecoderSpec(
            name, layers, hidden, heads, ffn, vocab, kv, dim, tied=True, max_positions=positions, window=window,
            full_layers=full, source="the model's published config.json",
        )
        for name, layers, hidden, heads, kv, dim, ffn, vocab, positions, window, full in _ALTERNATING
    },
    **{
        name: DecoderSpec(
            name, layers, 2880, 64, 2880, 201088, 8, 64, max_positions=131072, window=128, full_layers=layers // 2,
            experts=experts, experts_per_token=4, moe_ffn=2880, source="the model's published config.json",
            weights_precision="int4_wo",
        )
        for name, layers, experts in (("gpt-oss-20b", 24, 32), ("gpt-oss-120b", 36, 128))
    },
    **{
        name: DecoderSpec(
            name, layers, hidden, heads, ffn, vocab, heads, 192, max_positions=positions, experts=experts,
            experts_per_token=each, moe_ffn=width, shared_ffn=shared * width, dense_layers=dense, kv_rank=512,
            rope_dim=64, value_dim=128, q_rank=q_rank, weights_precision=precision,
            mtp_layers=int(name in _FURTHER), source="the model's published config.json",
        )
        for name, layers, hidden, heads, ffn, vocab, positions, experts, shared, each, width, dense, q_rank, precision
        in _LATENT
    },
    **{
        name: DecoderSpec(
            name, layers, hidden, heads, ffn, vocab, kv, dim, tied=tied, max_positions=positions,
            window=_WINDOWS.get(name, 0), source="the model's published config.json",
        )
        for name, layers, hidden, heads, kv, dim, ffn, vocab, positions, tied in _GATED
    },
    **{
        name: DecoderSpec(
            name, layers, hidden, heads, width, vocab, kv, dim, max_positions=positions,
            experts=experts, experts_per_token=each, moe_ffn=width, source="the model's published config.json",
        )
        for name, layers, hidden, heads, kv, dim, experts, each, width, vocab, positions in _EXPERTS
    },
    **{
        name: DecoderSpec(
            name, layers, hidden, heads, 4 * hidden, vocab, heads, hidden // heads, gated=False, tied=True, biases=True,
            max_positions=positions, learned_positions=True,
            source="Zhang et al. 2022, Table 1" if name.startswith("opt") else "Radford 2019; Brown 2020, Table 2.1",
        )
        for name, layers, hidden, heads, vocab, positions in _PLAIN
    },
    "tiny-llama": DecoderSpec(
        "tiny-llama", 4, 256, 8, 688, 512, 4, 32, max_positions=2048, source="ours: small enough to serve on a CPU core"
    ),
    "tiny-opt": DecoderSpec(
        "tiny-opt", 4, 256, 8, 1024, 512, 8, 32, gated=False, tied=True, biases=True, max_positions=2048,
        learned_positions=True, source="ours: small enough to serve on a CPU core",
    ),
}  # fmt: skip
"""Name -> shape."""
