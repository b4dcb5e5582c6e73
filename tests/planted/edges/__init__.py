"""Mistakes at the edges of the promise: copies, strangers, damage, commands that lose."""
