"""What to decide: pure functions over cards and pods. No I/O, no clock, no logging."""
