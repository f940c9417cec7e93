"""What `launch` starts on a machine: torchrun, with errors a person can read."""

import sys

from unisono.errors import UnisonoError

FIX = (
    "look above and in the system's log for why (out of memory?), then start the same "
    "command again: it continues from the last checkpoint"
)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Run torchrun with our arguments and end with the exit code of the workers."""
    try:
        from unisono.comm.agent import run_agent

        outcome = run_agent(sys.argv[1:], _tell)
    except KeyboardInterrupt:  # before there was anything to stop
        sys.exit(130)
    except UnisonoError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    if outcome.death:
        print(f"error: {outcome.death}\n  fix:   {FIX}", file=sys.stderr)
    sys.exit(outcome.exit_code)


if __name__ == "__main__":
    main()
