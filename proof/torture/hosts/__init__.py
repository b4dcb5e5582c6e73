"""Programs to which everything is done that hosts do to programs: ``make hosts``."""
