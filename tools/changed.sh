#!/bin/sh
# Prints the commit that changes are counted from: BASE, else where this branch
# left origin/main, else the commit before. Exits 77 where there is none.
set -u
cd "$(dirname "$0")/.."
none() {
  echo "skipped: $1"
  exit 77
}
head=$(git rev-parse HEAD 2>/dev/null) || none "not a git checkout"
base=${BASE:-$(git merge-base HEAD origin/main 2>/dev/null)}
[ -n "$base" ] && [ "$base" != "$head" ] ||
  base=$(git rev-parse --verify --quiet HEAD~1) ||
  none "no earlier commit to compare with"
echo "$base"
