"""Heartbeats: who of a run is still alive, and limits on how long its sections may take.

A process that waits for a peer inside the backend can neither look around nor report. Each
worker therefore starts a small process without torch, its sidecar, which outlives the worker
long enough to name who was lost. No torch here, and no `torch.distributed`.

In the order in which things happen:

1. `worker`: the worker starts its sidecar (`python -m unisono.heartbeat`) and configures it.
2. `section_limits`: a thread of the worker times its sections: start, data, step, …
3. `sidecar`: the sidecar looks at its worker and sends a heartbeat every second.
4. `client` and `server`: the sidecars of all ranks send their heartbeats to that of rank 0.
5. `loss_detector`: rank 0's sidecar decides who is lost, from reports and from silence.
6. `announce`: every sidecar prints and records the loss, then ends its worker.

`messages` are what workers and sidecars send each other.
"""
