"""A stand-in for the kubelets of many nodes, in one process: it plays what schedulers and node agents see of them."""
