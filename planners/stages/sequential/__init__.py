"""The least bottleneck of sequential pipelines, exactly: what PipeDream and Piper search by."""
