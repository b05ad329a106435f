"""Decides, once per request, which verify replica and which draft replicas serve it."""
