#!/bin/sh
# Whether the lines changed since BASE (tools/changed.sh) are formatted, and
# what clang-tidy says of the files they are in.
#
#   lint.sh BUILD changed|all JOBS    all: clang-tidy of every file
set -eu
cd "$(dirname "$0")/.."
base=$(tools/changed.sh) || { code=$?; echo "$base"; exit $code; }
change=$(git clang-format --diff --extensions cc,h "$base")
case $change in *--git*) echo "$change"; exit 1 ;; esac
if [ "$2" = all ]; then
  files=$(git ls-files '*.cc')
else
  files=$(git diff --name-only --diff-filter=d "$base" -- '*.cc')
fi
echo "$files" | grep -E '^(core|io|net|samples|tools)/' |
  while read -r file; do
    ! grep -q "/$file\"" "$1/compile_commands.json" || echo "$file"
  done | xargs -r -P "$3" -n 2 clang-tidy -p "$1" --quiet
