"""Running a placement: operators of one network on several backends, one after another (Collage, thesis 003 ch. 2)."""
