"""Import the logs of other programs: UBI, Metarank, and tables with arbitrary column names."""
