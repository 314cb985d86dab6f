"""What a configuration given by hand costs: iteration time, memory and MFU in closed form.

`estimate` is the door. `kernels` and `layer_costs` price one layer, `collectives` the communication, `schedule` the
pipeline; `iteration` adds them up and `memory` counts bytes. `rates` says what devices and software reach in practice.
"""
