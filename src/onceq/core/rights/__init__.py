"""Whether whoever asks may have what he asks for: looked at before any rule of the core."""
