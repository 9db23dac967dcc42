"""The shell: from batches to counts, frontier, alerts and sent messages. Glue around the core; decides nothing."""
