"""Cardwise places Kubernetes pods on shared GPU cards: which node, and which card on it."""
