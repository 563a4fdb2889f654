"""Atomic writes, the tensor container and fingerprints: everything that puts bytes into files."""
