"""Starting a run: here, on other machines over ssh, or as a job of a cluster. No torch here.

Over ssh, in the order in which things happen:

1. `plan`: the hosts a user names become commands: one agent (`cli.agent`) per machine.
2. `preflight`: all machines are asked at once whether they are ready and alike, through
   `probe_client` here and `probe_server` there.
3. `ssh`: each machine's agent is started over ssh, inside `remote_wrapper`, which stops it when
   the launcher is gone.
4. `fan_out`: the output of all machines is read in one place, until the last has ended.

`batch_systems` writes the jobs for Slurm and Kubernetes.
"""
