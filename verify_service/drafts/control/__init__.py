"""How many guesses a session asks for: none where none pay."""
