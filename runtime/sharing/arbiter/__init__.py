"""The arbiter: the lease clock, its books and journal, and the service that agents talk to."""
