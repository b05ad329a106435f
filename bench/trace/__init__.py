"""How one answer came to be, shown in a terminal."""
