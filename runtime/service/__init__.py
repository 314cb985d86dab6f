"""The placement as a service: one HTTP server per group and a router, which exported files start elsewhere.

``python -m meshwright.runtime.service.group`` under torchrun is one device of one group;
``python -m meshwright.runtime.service.router`` dispatches and admits with the simulator's policy objects. Both
speak the Open Inference Protocol (V2) over HTTP.
"""
