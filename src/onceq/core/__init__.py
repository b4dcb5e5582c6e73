"""The queue manager as a pure state machine: no clock, no randomness, no I/O."""
