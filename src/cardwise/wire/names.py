"""Every annotation and label key that is no family's own."""

NODE_POLICY = "hami.io/node-scheduler-policy"
CARD_POLICY = "hami.io/gpu-scheduler-policy"
SCORING_WEIGHTS = "hami.io/device-scoring-weights"

ASSIGNED_NODE = "hami.io/vgpu-node"
EXCLUSIVE_CARDS = "cardwise.io/exclusive-cards"
"""Comma list of UUIDs that the pod holds alone, where the assignment text cannot say it (cores below 100)."""

WEBHOOK_LABEL = "hami.io/webhook"
WEBHOOK_IGNORE = "ignore"

OWNED_PREFIXES = ("hami.io/vgpu-", "hami.io/bind-", "cardwise.io/")
"""Annotations that only the scheduler and the agents write."""
