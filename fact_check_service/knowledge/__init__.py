"""A local knowledge base: facts in a SQLite file."""
