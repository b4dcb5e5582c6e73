"""Real processes under a clock and links in hand, killed at named points."""
