"""Sharing policies: which app gets the GPUs that are free. None of them knows a clock.

`contract.Policy` is what a policy is, `baselines` the schedulers that Themis is compared with (Themis itself is a
planner). `agent.AppView` is what a policy sees of an app, `split` divides an app's GPUs over its jobs, and `nearness`
chooses which free GPUs to take.
"""
