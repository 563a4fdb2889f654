"""From the logs of other programs to a log: UBI, Metarank, and tables with any column names."""
