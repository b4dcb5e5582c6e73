"""Two networks and a border server between them."""
