#!/bin/sh
# Lines that the tests of a coverage build reached, of ringlet, core, io and net.
#
#   coverage.sh BUILD    fails below COVERAGE percent (90)
set -eu
cd "$(dirname "$0")/.."
gcovr --root . --filter 'ringlet/' --filter 'core/' --filter 'io/' \
  --filter 'net/' \
  --object-directory "$1" --exclude-throw-branches --print-summary \
  --gcov-ignore-parse-errors --sort-percentage \
  --txt "$1/coverage.txt" --html-details "$1/coverage.html" \
  --fail-under-line "${COVERAGE:-90}" | grep '^lines'
echo "below 85 percent:"
awk '$4 ~ /%$/ && $1 != "TOTAL" && $4 + 0 < 85 { print "  " $1, $4 }' \
  "$1/coverage.txt"
echo "by line: $1/coverage.html"
