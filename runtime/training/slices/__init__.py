"""Plans whose microbatches are cut into token slices."""
