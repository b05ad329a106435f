"""What the router is told of finished answers."""
