"""The scheduler's own rules about pods: what is admitted, and how."""
