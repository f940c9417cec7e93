"""Serve models over HTTP, in the protocol of LibreTranslate. Only `worker` loads torch."""
