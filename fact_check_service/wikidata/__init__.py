"""What Wikidata states, over HTTP."""
