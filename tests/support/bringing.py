"""Bring the files of a directory to machines, as `launch --sync` does, and start nothing.

python -m support.bringing SSH_CONFIG HOSTS DIRECTORY LOCK [--remove-unused]
"""

import sys
from pathlib import Path

from support.tiny import tiny_settings
from unisono.cli.launching.bring_screen import BringScreen
from unisono.cli.launching.bringing import PYTHONS, USUAL_DIRECTORY
from unisono.errors import UnisonoError
from unisono.launch.bring.bring import BringRequest, bring
from unisono.launch.bring.client import BringTarget
from unisono.launch.bring.package import this_unisono
from unisono.launch.bring.payload import BroughtTree, RunPayload, file_at
from unisono.launch.ssh import Ssh


def main(ssh_config, hosts, directory, lock, *options):
    names = hosts.split(",")
    ssh = Ssh(ssh_config)
    targets = tuple(BringTarget(ssh, name, PYTHONS, USUAL_DIRECTORY) for name in names)
    files = tuple(file_at(path.name, path) for path in sorted(Path(directory).iterdir()))
    settings = tiny_settings(Path(), run="runs/test-00000000")
    payload = RunPayload((BroughtTree("corpus", "the files", files),), Path(), (), settings)
    request = BringRequest(
        targets,
        payload,
        this_unisono(),
        (Path(lock),),
        offline=True,
        remove_unused="--remove-unused" in options,
    )
    screen = BringScreen(names)
    try:
        with screen:
            result = bring(request, screen)
    except UnisonoError as error:
        sys.exit(str(error))
    for name, unused in zip(names, result.unused, strict=True):
        screen.tell(name, f"unused: {' '.join(sorted(unused))}")
    print(result.places[0].python, sum(result.missing))


if __name__ == "__main__":
    main(*sys.argv[1:])
