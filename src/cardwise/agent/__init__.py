"""The node agent: finds a node's cards, registers them, and hands them to the containers that the scheduler chose."""
