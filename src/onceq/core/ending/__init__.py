"""How a message ends: the one place that decides who is told, and where its packet goes.

Dead-letter queues, journals, acknowledgment messages, final acknowledgments and trace reports are
made here and nowhere else, from the change under construction.
"""
