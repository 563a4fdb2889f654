"""Every compiled loop (numba), and nothing else; functions around them carry the types and the checks."""
