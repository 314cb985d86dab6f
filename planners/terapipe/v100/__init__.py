"""TeraPipe's own V100s, from what its paper prints."""
