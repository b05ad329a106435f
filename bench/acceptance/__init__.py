"""How many tokens a verify step makes, by source of guesses and kind of prompt."""
