"""Owns the target model: tokenizer, sequences, KV cache, sampling, acceptance, stops and usage."""
