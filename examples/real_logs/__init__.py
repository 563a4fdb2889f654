"""Published logs, from the file to a verdict: the page docs/real-logs.md."""
