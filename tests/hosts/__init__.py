"""What hosts do to the programs that use onceq: they fork them, signal them, stop them, end them.

``make hosts`` is the programme (``make hosts``); here stand its sample, and a test for each
thing that it has found.
"""
