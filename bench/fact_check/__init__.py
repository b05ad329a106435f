"""How fast workers check drafted blocks, and whether every verdict is stored once when they are killed."""
