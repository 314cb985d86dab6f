"""Agents: processes that train an app's jobs on the slots that the arbiter grants.

`process.agent` is the loop of one. `jobs` trains, saves and resumes, `meter` says how many steps its slots entitle a
job to, `link` talks to the arbiter. `fleet` and `nursery` start and end the processes.
"""
