"""The audit: what queue managers' own histories prove, or refute, of every message."""
