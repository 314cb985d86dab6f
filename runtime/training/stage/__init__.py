"""One stage on one device: what it lays out beforehand, runs, and keeps."""
