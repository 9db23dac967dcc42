"""What people wrote, read whole: settings, sources, rules, routes, tasks; typed values, or every problem."""
