"""The arbiter: it decides when leases are over, asks the policy, and tells agents their GPUs.

`lease_clock.Arbiter` is the loop. `ledger` keeps the books and knows no clock, `journal` makes them survive a crash,
`roster` and `service` talk to the agents. `serving` and `remote` run it as a process of its own.
"""
