"""An arbiter for pods: kube-scheduler asks it on which nodes a pod fits.

`pods_arbiter.Extender` decides, `service.serve_extender` is its HTTP service, `pods` reads kube-scheduler's questions,
and `task` is the file that it is started with.
"""
