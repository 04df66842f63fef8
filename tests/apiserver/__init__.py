"""The in-memory API server, through real HTTP: what it says is what a real one was seen to say."""
