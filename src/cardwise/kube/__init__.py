"""The API server: requests as values, one thin client that sends them, and a watch that does not end."""
