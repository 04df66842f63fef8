"""The stand-in kubelet: the state machine of a node, and many nodes over real sockets."""
