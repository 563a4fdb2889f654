"""From a request to a ranking: features, rules, policies, and what is deployed."""
