"""Decisions offline: on snapshots of clusters, on manifests, on traces."""
