"""`cardwise demo`: a small cluster in one process, in which the real scheduler service places a mixed workload."""
