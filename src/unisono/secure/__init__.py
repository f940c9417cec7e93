"""Who may talk to the processes of a run: only those who know its secret. No torch here.

`secret` is what the launcher hands to every process. `channel` proves that both ends of a
connection know it, and authenticates every frame. `server` accepts connections and keeps
working while strangers connect. `private_socket` serves processes of one user on one machine.
"""
