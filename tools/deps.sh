#!/bin/sh
# Installs what ringlet is built and tested with, or says what to install.
#
#   tools/deps.sh          what `make build`, `make test` and `make demo` need
#   tools/deps.sh bench    also what `make bench` compares with
#
# Quiet and quick where nothing is missing.
set -eu

packages="g++ make meson ninja-build pkg-config libblis-serial-dev libuv1-dev
 libcjson-dev zlib1g-dev libgtest-dev libbenchmark-dev python3-numpy"
# The demo has a small data set of its own where this one is missing.
wanted="dataset-fashion-mnist"
[ "${1:-}" = bench ] && wanted="$wanted python3-torch"

if ! command -v dpkg-query >/dev/null; then
  missing=
  for tool in c++ make meson ninja pkg-config; do
    command -v "$tool" >/dev/null || missing="$missing $tool"
  done
  [ -z "$missing" ] && exit 0
  echo "deps: not a Debian system, and these are missing:$missing" >&2
  echo "deps: install them, and the development files of BLIS, libuv, cJSON," \
       "zlib, GoogleTest and Google Benchmark (docs/porting.md)" >&2
  exit 1
fi

missing_of() {
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null)" = \
      "ii " ] || printf ' %s' "$package"
  done
}

missing=$(missing_of $packages)
extra=$(missing_of $wanted)
[ -z "$missing$extra" ] && exit 0

if [ "$(id -u)" = 0 ]; then
  sudo=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  sudo=sudo
else
  if [ -z "$missing" ]; then
    echo "deps: going on without$extra" >&2
    exit 0
  fi
  echo "deps: not root, and sudo asks for a password. Run this once:" >&2
  echo "  sudo apt-get install -y --no-install-recommends$missing$extra" >&2
  exit 1
fi

install() {
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq \
    --no-install-recommends "$@" </dev/null >/dev/null
}
echo "deps: installing$missing$extra"
if [ -n "$missing" ] && ! install $missing 2>/dev/null; then
  $sudo apt-get update -qq || true
  install $missing || {
    echo "deps: apt-get failed (above). Install by hand:$missing" >&2
    exit 1
  }
fi
for package in $extra; do
  install "$package" 2>/dev/null || echo "deps: going on without $package" >&2
done
