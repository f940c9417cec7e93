"""Who may talk to the processes of a run: only those who know its secret. No torch here.

`secret` is what the launcher hands to every process. `channel` proves that both ends of a
connection know it, and guards every frame. `server` accepts connections and holds up under
strangers. `private_socket` is for processes of one machine: no other user reaches it.
"""
