"""Atomic writes, the tensor container, fingerprints and JSON: everything that puts bytes into files."""
