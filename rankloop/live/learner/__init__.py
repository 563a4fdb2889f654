"""From sealed clicks to a better policy: learn, prove, deploy, roll back."""
