"""Guesses the next tokens of many sessions; has no say in which of them stand."""
