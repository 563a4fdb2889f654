"""The service over HTTP: paths, messages, limits, metrics and the page."""
