"""The compiled loop over engines that fail, come and go: `fleet.run.FleetRun` in arrays.

`run.run_dynamic` fills the tables (`tables`), `loop` runs them, `outcome` says what came of them, `able` what is
compiled. Each other file restates a part of the reference: `members` the engines' lives, `requests` where requests go,
`breakdowns` failures, `growth` autoscaling, `routers` the routers. Schedulers and memory are those of
`compiled.fleet`.
"""
