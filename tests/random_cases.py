"""The numbers of the cases that a random test in Python runs.

The numbers are those of random_cases.h. --case runs one case, --count that many
of the seed.
Otherwise the cases that failed in the past come first, then 0, 1, 2 and so on
of the seed. The time limit is the caller's share of RINGLET_TEST_SECONDS (5).
The last line has the numbers of the cases that were run.
"""
import os
import time


def add_arguments(parser):
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int)


def cases(options, share, failed_once=()):
    """Yields (seed, number) of each case; at least one of the seed."""
    if options.case is not None:
        yield options.seed, options.case
        return
    end = time.monotonic() + share * float(
        os.environ.get("RINGLET_TEST_SECONDS", "5"))
    if options.count is None:
        yield from failed_once
    number = 0
    while (number < options.count if options.count is not None
           else number == 0 or time.monotonic() < end):
        yield options.seed, number
        number += 1
    print(f"cases 0 to {number - 1} of seed {options.seed}"
          + (f", and {len(failed_once)} that once failed"
             if options.count is None and failed_once else ""))
