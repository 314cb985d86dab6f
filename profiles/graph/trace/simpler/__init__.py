"""What `tidy` needs to say a computation in fewer operators: values of constants, weights that are picked by row."""
