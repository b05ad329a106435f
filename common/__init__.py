"""What both ends of a wire must agree on. Imports no service."""
