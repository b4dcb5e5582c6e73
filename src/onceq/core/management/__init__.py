"""What operators see and do: views, queues made and deleted, the directory, damage, restores."""
