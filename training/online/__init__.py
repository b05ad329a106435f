"""Keeps a head fitted to the traffic: samples come in, better versions go out."""
