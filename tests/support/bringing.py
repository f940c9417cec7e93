"""Bring the files of a directory to machines, as `launch --sync` does, and start nothing.

python -m support.bringing SSH_CONFIG HOSTS DIRECTORY LOCK
"""

import sys
from pathlib import Path

from unisono.cli.launching.bringing import PYTHONS, USUAL_DIRECTORY, BringScreen
from unisono.errors import UnisonoError
from unisono.launch.bring.bring import BringRequest, bring
from unisono.launch.bring.client import BringTarget
from unisono.launch.bring.package import this_unisono
from unisono.launch.bring.payload import BroughtTree, RunPayload, file_at
from unisono.launch.ssh import Ssh


def main(ssh_config, hosts, directory, lock):
    names = hosts.split(",")
    ssh = Ssh(ssh_config)
    targets = tuple(BringTarget(ssh, name, PYTHONS, USUAL_DIRECTORY) for name in names)
    files = tuple(file_at(path.name, path) for path in sorted(Path(directory).iterdir()))
    payload = RunPayload((BroughtTree("corpus", "the files", files),), Path(), (), None)
    request = BringRequest(targets, payload, this_unisono(), (Path(lock),), offline=True)
    try:
        result = bring(request, BringScreen(names))
    except UnisonoError as error:
        sys.exit(str(error))
    print(result.places[0].python, sum(result.missing))


if __name__ == "__main__":
    main(*sys.argv[1:])
