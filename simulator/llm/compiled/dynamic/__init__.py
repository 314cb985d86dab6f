"""The compiled loop over engines that fail, come and go, of pools too: `fleet.run.FleetRun` in arrays.

`run.run_dynamic` fills the tables (`tables`; `pools` those of prefill and decode pools, `routings` the routers'),
`loop` runs them, `outcome` says what came of them, `able` what is compiled. Each other file restates a part of the
reference: `happens` the events, `members` the engines' lives, `requests` where requests go, `handoff` the schedulers
of pools, `transfers` what goes from one to the other, `breakdowns` failures, `growth` autoscaling, `routers` the
routers. Other schedulers and memory are those of `compiled.fleet`.
"""
