"""Apps and their jobs: what they are (`app`, `models`), drawn as Themis' workloads (`themis`), or read from job logs
(`logs`); `statistics` says what a workload is like."""
