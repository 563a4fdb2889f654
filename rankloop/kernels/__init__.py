"""Every compiled loop (numba), and nothing else."""
