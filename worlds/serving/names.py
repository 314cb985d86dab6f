"""What the serving world calls its metrics."""

from __future__ import annotations

__all__ = ["METRICS"]

METRICS = {
    "attainment": "share of all requests, rejected ones included, that finished within their SLO",
    "attainment_low": "lower end of the interval that holds 95 % of the draws of it; of drawn times and failures",
    "attainment_high": "upper end of it",
    "goodput": "attained requests per second of the time over which requests arrived",
    "mean_latency": "mean latency of served requests, seconds",
    "p50_latency": "median of it, seconds",
    "p99_latency": "99th percentile of it, seconds; from 10,000 served requests on",
    "utilization": "busy share of the whole cluster from time 0 to the last finish",
    "offered_load": "work that the busiest stage of any group accepted, over the time in which it arrived",
    "demand": "share of the cluster's device-seconds that all requests would take",
    "n_requests": "requests that are counted: without a warm-up, all",
    "rejected": "requests of them that were rejected",
    "n_devices": "devices of the cluster",
    "device_hours": "hours of devices that groups used until the last finish; where groups are started and drained",
    "mean_devices": "mean number of devices in use until then",
    "cost_per_hour": "price of the cluster per hour",
    "upper_bound": "bound on the attainment of any placement on this cluster and traffic",
    "gap": "what is missing to it",
    "evaluations": "simulations that the planner made",
}
"""Metric -> what it says: what a study knows of a case."""
