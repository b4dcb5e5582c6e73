"""How a message ends: the one place that decides which reports are made, and where its packet goes.

Dead-letter queues, journals, acknowledgment messages, final acknowledgments and trace reports are
filled here and nowhere else, from the change under construction.
"""
