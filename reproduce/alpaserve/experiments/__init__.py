"""What AlpaServe's figures share: set-ups, systems, and the points of a sweep, which are kept between runs."""
