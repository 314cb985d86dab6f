"""`TrainingPlan`: how one model is trained on a cluster.

`file` holds the plan and `entries` its parts. `checks`, `fit` and `passes` find what is wrong with one, `words`
explains it, `graph` finds the model that it is for, `program` and `links` turn it into what the simulator times.
"""
