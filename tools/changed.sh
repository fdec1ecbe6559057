#!/bin/sh
# Prints the commit that changes are counted from: BASE, else where this branch
# left origin/main, else the previous commit. Exits 77 where there is none, and 1
# where BASE is no commit.
set -u
cd "$(dirname "$0")/.."
none() {
  echo "skipped: $1"
  exit 77
}
[ -e .git ] || none "not a git checkout"
head=$(git rev-parse HEAD 2>&1) || none "git: $head"
if [ -n "${BASE:-}" ]; then
  git rev-parse --verify --quiet "$BASE^{commit}" && exit
  echo "BASE: no commit '$BASE' here; in a shallow clone: git fetch --unshallow"
  exit 1
fi
base=$(git merge-base HEAD origin/main 2>/dev/null)
[ -n "$base" ] && [ "$base" != "$head" ] ||
  base=$(git rev-parse --verify --quiet HEAD~1) ||
  none "no earlier commit to compare with"
echo "$base"
