"""Whether an actor may have what its request asks for: checked before any rule of the core."""
