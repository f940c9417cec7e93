"""The records of all machines of a run, brought to one directory while it trains. No torch.

1. `record_names`: which files of a run directory travel, and how.
2. `record_store`: a run directory that takes in records of other directories, each byte once.
3. `messages`: what is said over ssh. `server` answers there, `client` asks here.
4. `run_stream`: one thread a machine: connect, fetch what is new, connect again after a break.
5. `checkpoint_fetch`: checkpoints, by choice. `launch_record`: what `attach` and `pull` need.
"""
