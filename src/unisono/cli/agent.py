"""What `launch` starts on a machine: torchrun, with errors a person can read.

`--supervise=N --run=DIR`, before all options of torchrun: start it again when it fails, until
N starts in a row have brought the run in DIR no further (see `cli.supervise`).
"""

import sys

from unisono.exit_codes import INTERRUPTED, RESTARTABLE

FIX = (
    "look above and in the system's log for why (out of memory?), then start the same "
    "command again: it continues from the last checkpoint"
)


def main() -> None:
    """Run torchrun with our arguments and end with the exit code of the workers."""
    if any(word.startswith("--supervise=") for word in sys.argv[1:3]):
        from unisono.cli.supervise import supervise

        sys.exit(supervise(sys.argv[1:]))
    try:
        from unisono.comm.agent import run_agent

        outcome = run_agent(sys.argv[1:])
    except KeyboardInterrupt:  # before there was anything to stop
        sys.exit(INTERRUPTED)
    if outcome.death:
        print(f"error: {outcome.death}\n  fix:   {FIX}", file=sys.stderr)
    sys.exit(RESTARTABLE if outcome.death else outcome.exit_code)


if __name__ == "__main__":
    main()
