"""What the service must not lose: impressions, events, policies and deployments, in SQLite or PostgreSQL."""
