"""What the backend says when another process is gone. No torch here."""

SIGNS = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Timed out waiting",
    "Connection refused",
    "Connection timed out",
    "NCCL communicator was aborted",
)


def how_contact_was_lost(error: RuntimeError) -> str:
    """Return in a few words how contact with another process was lost, or "" if it was not."""
    text = str(error)
    return next((sign for sign in SIGNS if sign in text), "")
