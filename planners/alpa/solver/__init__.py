"""The auto-sharding ILP (Alpa §4.2), solved to proven optimality or with its gap."""
