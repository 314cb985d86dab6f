"""Alpa's intra-operator pass: sharding specs, parallel algorithms, the ILP (§4)."""
