"""What the wire costs: the same draft within the verify service's process."""
