"""What the histories of queue managers prove about every message."""
