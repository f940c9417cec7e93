"""What `launch` starts on a machine: torchrun, with errors a person can read.

`--supervise=N --run=DIR`, before all options of torchrun: start it again when it fails, until
N starts in a row have brought the run in DIR no further (see `cli.supervise`).
"""

import os
import sys

from unisono.errors import UnisonoError
from unisono.exit_codes import INTERRUPTED, RESTARTABLE

FIX = (
    "look above and in the system's log for why (out of memory?), then start the same "
    "command again: it continues from the last checkpoint, if there is one yet"
)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Run torchrun with our arguments and end with the exit code of the workers."""
    if any(word.startswith("--supervise=") for word in sys.argv[1:3]):
        from unisono.cli.launching.supervise import supervise

        sys.exit(supervise(sys.argv[1:]))
    # Frames of C++ help nobody; what they warn of, the watchmen and we ourselves say.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    _watch_endpoint(sys.argv[1:])
    try:
        from unisono.comm.bootstrap.rendezvous import run_agent

        outcome = run_agent(sys.argv[1:], _tell)
    except KeyboardInterrupt:  # before there was anything to stop
        sys.exit(INTERRUPTED)
    except UnisonoError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    if outcome.death:
        print(f"error: {outcome.death}\n  fix:   {FIX}", file=sys.stderr)
    sys.exit(outcome.exit_code)


def _watch_endpoint(arguments: list[str]) -> None:
    """Never wait without end for a store on another machine."""
    from unisono.heartbeat.client import watch_endpoint

    prefix = "--rdzv-endpoint="
    named = [word.removeprefix(prefix) for word in arguments if word.startswith(prefix)]
    host, _, port = named[-1].rpartition(":") if named else ("", "", "")
    if host and port.isdecimal() and int(port):
        watch_endpoint(host.strip("[]"), int(port), _give_up)


def _give_up(words: str) -> None:
    fix = "see whether that machine and its link are up"
    print(f"error: {words}\n  fix:   {fix}", file=sys.stderr, flush=True)
    os._exit(RESTARTABLE)


if __name__ == "__main__":
    main()
