"""The protocol between applications and their queue manager."""
