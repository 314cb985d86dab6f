"""Mutants of the LLM world: policies, block pools, speculation, memory counts, costs of an iteration, the fleet."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS = (
    Mutant(
        "watermark-one-block-more",
        "llm",
        "off by one",
        (
            (
                "simulator/llm/memory/blocks.py",
                "return Allocation.OK if self.gpu.free_blocks - need >= self.watermark_blocks",
                "return Allocation.OK if self.gpu.free_blocks - need > self.watermark_blocks",
            ),
            (
                "simulator/llm/compiled/kernel.py",
                "                if free - need < x.watermark:",
                "                if free - need <= x.watermark:",
            ),
        ),
        ("tests/simulator/llm/memory/test_block_accounts.py",),
        "A prompt that leaves exactly the watermark would wait, in both engines.",
    ),
    Mutant(
        "shared-block-leaks-when-swapped",
        "llm",
        "leaked block",
        (
            (
                "simulator/llm/memory/blocks.py",
                "                table.append(moved[id(block)])\n                source.free(block)",
                "                table.append(moved[id(block)])\n"
                "                if moved[id(block)].shares == 1:\n                    source.free(block)",
            ),
        ),
        ("tests/simulator/llm/memory/test_block_accounts.py",),
        "Blocks that samples of a prompt share would stay taken on the device when the group is swapped out.",
    ),
    Mutant(
        "swap-in-without-room-to-go-on",
        "llm",
        "missing term",
        (
            (
                "simulator/llm/memory/blocks.py",
                "need = len(self.held(group)) + len(group.having(Status.SWAPPED))",
                "need = len(self.held(group))",
            ),
        ),
        ("tests/simulator/llm/test_reference.py", "tests/simulator/llm/decoding/test_block_sharing.py"),
        "A group would come back from the host and be preempted at once.",
    ),
    Mutant(
        "whole-prompt-from-the-cache",
        "llm",
        "off by one",
        (
            (
                "simulator/llm/memory/block_tables.py",
                "for k in range((request.length - 1) // self.size):",
                "for k in range(request.length // self.size):",
            ),
            (
                "simulator/llm/compiled/fleet/v1.py",
                "found, free = found_prefix(x, s, e, r, (q.length - 1) // size)",
                "found, free = found_prefix(x, s, e, r, q.length // size)",
            ),
        ),
        ("tests/simulator/llm/memory/test_prefix_cache_rules.py",),
        "A prompt that is cached whole would leave nothing to compute, and no first token.",
    ),
    Mutant(
        "beginning-evicted-first",
        "llm",
        "wrong order",
        (
            (
                "simulator/llm/memory/block_tables.py",
                "self.pool.release(request.blocks[::-1])",
                "self.pool.release(request.blocks)",
            ),
            (
                "simulator/llm/compiled/fleet/blocks.py",
                "for at in range(end - step, begin - 1, -step):",
                "for at in range(begin, end, step):",
            ),
        ),
        ("tests/simulator/llm/memory/test_prefix_cache_rules.py",),
        "The blocks that most prompts share would be evicted before those that nobody asks for again.",
    ),
    Mutant(
        "found-blocks-cost-nothing",
        "llm",
        "missing term",
        (
            (
                "simulator/llm/memory/block_tables.py",
                "return own + sum(not block.shares for block in found) if found else own",
                "return own",
            ),
        ),
        ("tests/simulator/llm/memory/test_prefix_cache_rules.py",),
        "Cached blocks that nobody uses are free ones too: more would be promised than there are.",
    ),
    Mutant(
        "null-block-holds-tokens",
        "llm",
        "off by one",
        (
            (
                "simulator/llm/memory/accounting.py",
                "return pages.use(scheduler.pool.size - 1)",
                "return pages.use(scheduler.pool.size)",
            ),
        ),
        ("tests/simulator/llm/memory/test_accounting.py",),
        "Shares of the memory would not be of the memory that there is.",
    ),
    Mutant(
        "keys-swapped-without-values",
        "llm",
        "wrong factor",
        (("simulator/llm/memory/swapping.py", "return blocks * 2 * self.layers", "return blocks * self.layers"),),
        ("tests/simulator/llm/policy/test_preemption_mode.py", "tests/simulator/llm/test_reference.py"),
        "Swapping would take half of the time and look better than recomputing.",
    ),
    Mutant(
        "one-draft-step-less",
        "llm",
        "off by one",
        (
            (
                "simulator/llm/decoding/speculative.py",
                "iteration.proposing_context + i * n, n)) for i in range(s.tokens)",
                "iteration.proposing_context + i * n, n)) for i in range(1, s.tokens)",
            ),
        ),
        ("tests/simulator/llm/decoding/test_speculative.py", "tests/simulator/llm/decoding/test_block_sharing.py"),
        "Speculation would be cheaper than its drafts.",
    ),
    Mutant(
        "verified-token-of-its-own-lost",
        "llm",
        "off by one",
        (
            (
                "simulator/llm/decoding/speculative.py",
                "left = min(request.request.output - request.output, self.config.max_model_len - request.length) - 1",
                "left = min(request.request.output - request.output, self.config.max_model_len - request.length) - 2",
            ),
        ),
        ("tests/simulator/llm/decoding/test_speculative.py", "tests/simulator/llm/decoding/test_block_sharing.py"),
        "The last step of an output would take one draft less than it may.",
    ),
    Mutant(
        "one-tensor-per-kv-pair",
        "llm",
        "wrong factor",
        (
            (
                "profiles/llm/parallel/layer.py",
                "token = 2 * layout.kv_heads(model) * model.head_dim",
                "token = layout.kv_heads(model) * model.head_dim",
            ),
        ),
        ("tests/profiles/llm/test_parallel.py", "tests/profiles/llm/cost/test_iteration.py"),
        "Attention would read keys and no values.",
    ),
    Mutant(
        "repeated-kv-projections-split",
        "llm",
        "wrong factor",
        (
            (
                "profiles/llm/parallel/layer.py",
                "return (q / t + kv) * (width + bias) + (output + feed_forward) / all_of_it",
                "return (q + kv) / t * (width + bias) + (output + feed_forward) / all_of_it",
            ),
        ),
        ("tests/profiles/llm/test_parallel.py",),
        "Beyond its KV heads a model cannot split their projections: weights would be too few.",
    ),
    Mutant(
        "router-last-of-equals",
        "llm",
        "wrong tie",
        (
            (
                "simulator/llm/policy/router.py",
                "return min(range(len(engines)), key=lambda i: engines[i].outstanding)",
                "return min(reversed(range(len(engines))), key=lambda i: engines[i].outstanding)",
            ),
        ),
        ("tests/simulator/llm/policy/test_routers.py",),
        "Of equally loaded engines the last would get the request.",
    ),
    Mutant(
        "handed-off-blocks-round-down",
        "llm",
        "off by one",
        (
            (
                "simulator/llm/fleet/handoff.py",
                "self._claims.append((request.request.id, -(-request.request.prompt // c.block_size) - len(found)))",
                "self._claims.append((request.request.id, request.request.prompt // c.block_size - len(found)))",
            ),
        ),
        ("tests/simulator/llm/fleet/test_pools.py",),
        "The last block of a prompt would reach the decode engine for nothing.",
    ),
    Mutant(
        "sent-blocks-stay",
        "llm",
        "leaked block",
        (("simulator/llm/compiled/dynamic/transfers.py", "    release(x, s, e, row)\n    h.desk", "    h.desk"),),
        ("tests/simulator/llm/compiled/test_pools.py::test_bit_for_bit_on_a_grid_of_times",),
        "In the compiled engine what prefill engines have sent would stay taken, until no prompt fits.",
    ),
    Mutant(
        "drafts-drawn-on-after-a-failure",
        "llm",
        "lost case",
        (("simulator/llm/compiled/dynamic/breakdowns.py", "        s.drafts.stream[r, STEP_LOW] = 0", "        pass"),),
        ("tests/simulator/llm/compiled/test_dynamic.py::test_conversations_with_a_draft_model_on_engines_that_fail",),
        "In the compiled engine a request that is sent again would accept other drafts than in the reference.",
    ),
)
