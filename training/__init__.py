"""Trains heads for the draft service on the target's own answers. No service imports it."""
