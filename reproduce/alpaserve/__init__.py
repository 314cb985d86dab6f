"""AlpaServe (OSDI '23): its figures and tables."""
