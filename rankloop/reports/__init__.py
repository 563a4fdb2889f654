"""Reports on logs, biases and policies: one self-contained page each."""
