"""What an operation may cost, counted without noise."""
