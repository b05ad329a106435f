"""Trains the weights by which the router sorts prompts into classes. No service imports it."""
