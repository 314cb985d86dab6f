"""vLLM (SOSP '23; thesis ch. 5): its figures and tables, by the paper's numbers.

`serving_rates`, `decoding_rates` and `kv_memory` hold what several figures share.
"""
