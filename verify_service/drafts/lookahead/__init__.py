"""Guesses of the target's own making: what it would say after tokens that may come."""
