"""From the environment a launcher left behind to a process group that has formed.

In the order in which things happen:

1. `rendezvous`: on every machine, our agent hosts or finds the store of torchrun's agents,
   reports missing machines, compares clocks, and lets torchrun start the workers.
2. `launcher_env`: each worker reads its rank, and where process 0 is, from the variables of
   torchrun, mpirun or srun.
3. `device`: it takes its GPU or the CPU, if wheel, driver and card go together.
4. `network`: it picks an interface and an address, and checks ports.
5. `store`: process 0 listens on one address and hosts the store of the run.
6. `find_leader`: the other processes find that store.
7. `roll_call`: all register in it, check that their machines reach each other, compare
   clocks with process 0, and devices (`seats`).
8. `join`: the process group forms, and the caller gets a `Comm`.
"""
