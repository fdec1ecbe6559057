#!/bin/sh
# Builds the commit twice, in two folders, without a cache of objects, and
# compares the tarballs: tools/dist_check.sh [ARCH]. Says so and fails where
# they differ.
set -eu
cd "$(dirname "$0")/.."
arch=${1:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1
[ -e .git ] || {
  echo "dist-check: not a git checkout, and it builds clones of one" >&2
  exit 1
}
from=.
for copy in one another/and/deeper; do
  git clone -q "$from" "$work/$copy"
  from=$work/one # the same commit, whatever is committed meanwhile
  [ ! -d .deps ] || cp -a .deps "$work/$copy/.deps"
  make -s -C "$work/$copy" dist BUILD=build DIST=dist ${arch:+ARCH=$arch} \
    >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
  }
  cat "$work/$copy/dist/SHA256SUMS"
done
cmp "$work"/one/dist/SHA256SUMS "$work"/another/and/deeper/dist/SHA256SUMS && {
  echo "dist-check: the same bytes twice"
}
