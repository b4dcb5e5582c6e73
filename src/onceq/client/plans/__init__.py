"""The operations of the client library, by subject, each written once.

An operation is a plan: a generator that yields ``Request``s, is sent their results, and returns
what the caller gets. It does no I/O and waits for nothing. What it is about is its first parameter:
a session, a unit of work, an open queue. ``client/enlisting.py`` makes of one operation a method
for threads and a method for tasks, with its docstring, signature and types; that is why both do the
same.
"""
