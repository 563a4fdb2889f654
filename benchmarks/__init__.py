"""Ratios of speed, error and memory against plain NumPy, all measured in one run: `make bench`."""
