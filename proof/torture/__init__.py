"""Programmes that kill, cut, lie to and wear out real processes, and judge what is left."""
