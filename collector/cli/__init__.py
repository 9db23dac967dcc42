"""The command line: one small file per command; they translate flags, signals and exit codes, and decide nothing."""
