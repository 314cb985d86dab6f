"""What comes in: apps and their jobs, drawn as Themis' workloads or read from job logs."""
