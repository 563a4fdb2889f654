"""The programs behind the tables and figures of the documentation: `python -m experiments.NAME`."""
