"""Every annotation and label key that is no family's own."""

NODE_POLICY = "hami.io/node-scheduler-policy"
CARD_POLICY = "hami.io/gpu-scheduler-policy"
SCORING_WEIGHTS = "hami.io/device-scoring-weights"

ASSIGNED_NODE = "hami.io/vgpu-node"
ASSIGNED_TIME = "hami.io/vgpu-time"
BIND_TIME = "hami.io/bind-time"
BIND_PHASE = "hami.io/bind-phase"
EXCLUSIVE_CARDS = "cardwise.io/exclusive-cards"
"""Comma list of UUIDs that the pod holds alone, where the assignment text cannot say it (cores below 100)."""

NODE_AGENT = "cardwise.io/agent"
"""On nodes whose register our own agent writes; without it a register is HAMi's device plugin's."""
NODE_LOCK = "hami.io/mutex.lock"
"""Which pod HAMi's device plugin on this node is to serve next: time, namespace and name."""
TAKEOVER = "cardwise.io/takeover"
"""On the scheduler's own pod: what it wrote there when it became the leader, to see it come by on its watch."""
WAKE = "cardwise.io/wake"
"""On a refused pod: touched when the pod fits now."""

WEBHOOK_LABEL = "hami.io/webhook"
WEBHOOK_IGNORE = "ignore"

OWNED_PREFIXES = ("hami.io/vgpu-", "hami.io/bind-", "cardwise.io/")
"""Annotations that only the scheduler and the agents write."""

TASK_PRIORITY_ENV = "CUDA_TASK_PRIORITY"
"""The environment variable from which HAMi's library in a container learns its task priority: 0 high, 1 low."""
