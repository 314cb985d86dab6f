"""An arbiter for pods, asked by kube-scheduler."""
