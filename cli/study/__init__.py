"""What `meshwright study` asks, shows and leaves."""
