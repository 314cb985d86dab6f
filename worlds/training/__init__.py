"""The world of training: one model on a cluster, planned by any planner of training, one iteration simulated."""
