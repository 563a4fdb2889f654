"""Experiments: a spec in, results and figures out."""
