"""Real execution of training plans: programs of actions on groups of processes."""
