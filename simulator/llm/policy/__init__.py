"""The schedulers of LLM engines, which decide what the next iteration computes, and the routers in front of engines.

None of them has a clock. `catalogue.POLICIES` names the schedulers: `vllm_paper` (the paper's vLLM), `vllm02` (what was
released after it), `vllm06` (the last of its first engine), `vllm_v1` (today's), `sarathi`, `orca` and
`fastertransformer`. `own.register_policy` adds one. `work.Work` is what every scheduler's step asks of an engine.
"""
