"""Text to core types and back: one module per format, every version of it that was ever written."""
