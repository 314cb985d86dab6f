"""The compiled loop over engines that share devices: `simulator.llm.turns` in arrays.

`run.run_shared` fills the tables (`tables`, `fill`, `prices`), `loop` runs them, `able` says what is compiled. Every
scheduler has rules and a price of its own. Schedulers and memory are those of `compiled.fleet`; `routers` restates
`policy.router` for several models at once.

What happens when, as in the reference:

- A group of devices that is free lets the next of its schedulers decide: the first after the one that decided last, in
  the order in which they were given, that has requests and no iteration under way. If there is none it is idle until a
  request comes to one of its schedulers, or one of their iterations ends.
- The iteration goes through the stages; each begins when the one before has ended and its stage is free. The group
  decides again when the first stage is free, at once if the decision asked for no iteration.
- At one instant iterations end, then requests arrive, then groups decide. Of several events of one kind the one that
  was scheduled first comes first: a decision schedules its iteration's end and then its group's next decision.
"""
