"""What the router learns from how answers went."""
