"""What a queue manager tells of itself: the core builds views, and applications get them."""
