"""What a configuration given by hand costs: iteration time, memory and MFU in closed form.

`estimate` is the door. `kernels`, `layer_costs` and the rooms `layer` and `mixture` price one layer, `collectives` the
communication, `schedule` the pipeline, `replicas` what replicas do together; `iteration` adds them up and `memory`
counts bytes. `rules` says what cannot be, `rates` what devices and software reach in practice.
"""
