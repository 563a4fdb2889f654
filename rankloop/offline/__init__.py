"""Learn from a log that exists: fit a policy, rank with it, say what it is worth."""
