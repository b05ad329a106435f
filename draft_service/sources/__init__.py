"""Where guesses come from. Each source is a module; configuration picks one."""
