"""What goes wrong in simulated worlds, planned from the seed: crashes, liars, restores, copies."""
