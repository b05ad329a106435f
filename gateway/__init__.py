"""The OpenAI HTTP surface: validate, route, stream what the verify service answers."""
