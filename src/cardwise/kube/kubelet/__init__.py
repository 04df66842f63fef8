"""The kubelet's gRPC APIs on a node: device plugins (v1beta1) and pod-resources (v1)."""
