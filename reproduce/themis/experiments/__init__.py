"""What Themis' figures share: workloads, simulated points, and figures that the paper draws twice."""
