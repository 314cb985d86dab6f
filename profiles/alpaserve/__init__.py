"""The shipped `alpaserve-v100` profiles, and where their numbers come from."""
