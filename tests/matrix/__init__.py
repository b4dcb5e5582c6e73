"""Who may do what, at every door: one table of expectation, tried on real queue managers."""
