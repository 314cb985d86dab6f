"""What a placement that is up really costs: probes that are sent through it, and what it does in service."""
