"""State: what must outlive the process. One SQLite file for what must not be lost one by one."""
