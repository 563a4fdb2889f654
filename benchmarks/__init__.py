"""Ratios of speed, error and memory against baselines in plain NumPy, all measured in one run: `make bench`."""
