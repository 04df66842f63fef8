"""A real etcd, kube-apiserver and kube-scheduler on loopback, to test against."""
