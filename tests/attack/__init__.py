"""Attacks on the engine: commands with a seed and a count, which say what held and how to repeat what did not."""
