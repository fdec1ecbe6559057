#!/bin/sh
# Installs what ringlet is built and tested with, or says what to install.
#
#   tools/deps.sh          what `make build`, `make test` and `make demo` need
#   tools/deps.sh bench    also what `make bench` compares with
#   tools/deps.sh tables   also pandas, for `make long RUN=tables`
#   tools/deps.sh clang    also clang and its sanitizers
#   tools/deps.sh tidy     also clang-tidy and clang-format
#   tools/deps.sh coverage also gcovr
#   tools/deps.sh mpi      also Open MPI
#   tools/deps.sh fuzz     also clang and libFuzzer
#   tools/deps.sh boards   also a compiler and an emulator for Cortex-M
#   tools/deps.sh static   also what `make static` links
#   tools/deps.sh cross ARCH  also a compiler, libraries and an emulator for
#                          Debian's architecture ARCH (arm64, armhf, s390x)
#
# Libraries for other machines, and sources, are unpacked into .deps and touch
# nothing of the system's. Quiet and quick where nothing is missing.
set -eu
cd "$(dirname "$0")/.."
root=$PWD

packages="g++ make meson ninja-build pkg-config libblis-serial-dev libuv1-dev
 libcjson-dev libsodium-dev zlib1g-dev libgtest-dev libbenchmark-dev python3-numpy"
# All does without these: JPEG is not read, pictures are not compared with those
# of libpng and djpeg, the demo has a small data set of its own, the tests of
# networks, of an older CPU and of CMake are left out.
wanted="libjpeg62-turbo-dev libpng-dev libjpeg-turbo-progs dataset-fashion-mnist
 iproute2 nftables cmake"
target= triplet=
case "${1:-}" in
  '') ;;
  bench) wanted="$wanted python3-torch python3-pandas libdlib-dev" ;;
  tables) wanted="$wanted python3-pandas" ;;
  clang) packages="$packages clang libclang-rt-14-dev" ;;
  tidy) packages="$packages clang clang-tidy clang-format git" ;;
  coverage) packages="$packages gcovr" ;;
  mpi) packages="$packages libopenmpi-dev openmpi-bin" ;;
  fuzz) packages="$packages clang libclang-rt-14-dev" ;;
  boards)
    packages="$packages gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm" ;;
  static)
    packages="$packages gcc dpkg-dev patch file git"
    wanted="$wanted qemu-user-static" ;; # a CPU without AVX2
  cross)
    target=${2:-}
    case $target in
      arm64) triplet=aarch64-linux-gnu ;;
      armhf) triplet=arm-linux-gnueabihf ;;
      s390x) triplet=s390x-linux-gnu ;;
      *)
        echo "deps: no cross build for '$target'; there are arm64, armhf," \
             "s390x" >&2
        exit 1 ;;
    esac
    packages="$packages gcc-$triplet g++-$triplet qemu-user-static dpkg-dev patch" ;;
  *) echo "deps: what is '$1'? see the head of tools/deps.sh" >&2; exit 1 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  missing=
  for tool in c++ make meson ninja pkg-config; do
    command -v "$tool" >/dev/null || missing="$missing $tool"
  done
  if [ -n "$missing" ]; then
    echo "deps: not a Debian system, and these are missing:$missing" >&2
    echo "deps: install them, and the development files of BLIS, libuv, cJSON," \
         "libsodium, zlib, GoogleTest and Google Benchmark (docs/porting.md)" >&2
    exit 1
  elif [ "${1:-}" = cross ]; then
    echo "deps: not a Debian system: bring a cross file and libraries of your" \
         "own (docs/porting.md, \"A new board\")" >&2
    exit 1
  elif [ "${1:-}" = static ] && [ ! -e .deps/cjson/cJSON.c ]; then
    echo "deps: not a Debian system: put cJSON.c and cJSON.h of cJSON's sources" \
         "into $root/.deps/cjson" >&2
    exit 1
  fi
  exit 0
fi

missing_of() {
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null)" = \
      "ii " ] || printf ' %s' "$package"
  done
}

missing=$(missing_of $packages)
extra=$(missing_of $wanted)

install_packages() {
  [ -z "$missing$extra" ] && return
  if [ "$(id -u)" = 0 ]; then
    sudo=
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo=sudo
  else
    if [ -z "$missing" ]; then
      echo "deps: going on without$extra" >&2
      return
    fi
    echo "deps: not root, and no sudo without a password. As root, once:" >&2
    echo "  apt-get install -y --no-install-recommends$missing$extra" >&2
    exit 1
  fi

  install() {
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq \
      -o DPkg::Lock::Timeout=600 --no-install-recommends "$@" \
      </dev/null >/dev/null
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
}

# .deps for this process alone, which another make may be filling too. What an
# interrupted one left is thrown away.
own_deps() {
  mkdir -p .deps 2>/dev/null && [ -w .deps ] || {
    echo "deps: cannot write $root/.deps; build from a copy of your own" >&2
    exit 1
  }
  exec 9>.deps/lock
  flock 9
  rm -rf .deps/apt
}

# apt-get with lists, sources and a cache of its own, under .deps/apt.
apt_of() {
  arch=$1
  shift
  apt-get -qq -o APT::Architecture="$arch" -o APT::Architectures="$arch" \
    -o Dir::Etc::SourceList="$root/.deps/apt/sources.list" \
    -o Dir::Etc::SourceParts=- -o Dir::State="$root/.deps/apt/$arch" \
    -o Dir::State::Status=/dev/null -o Dir::Cache="$root/.deps/apt/$arch" \
    -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none "$@"
}

# `apt_update TYPE ARCH`: TYPE is deb or deb-src. The places are the system's.
apt_update() {
  mkdir -p ".deps/apt/$2/lists/partial" ".deps/apt/$2/archives/partial"
  apt-get indextargets --format \
    "$1 [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \$(REPO_URI) \$(CODENAME) \$(COMPONENT) \$(ORIGIN)" \
    'Created-By: Packages' | sed -n 's/ Debian$//p' | sort -u \
    >.deps/apt/sources.list
  [ -s .deps/apt/sources.list ] || { # the system has no lists
    . /etc/os-release
    echo "$1 http://deb.debian.org/debian $VERSION_CODENAME main" \
      >.deps/apt/sources.list
  }
  # One suite without this architecture does not matter.
  apt_of "$2" update 2>.deps/apt/log || true
}

# `cannot WHAT`: what apt-get said, but for its advice on lists it was given.
cannot() {
  grep -v "put some 'deb-src'" .deps/apt/log >&2 || true
  echo "deps: no $1 (above); is the network up? The places asked:" >&2
  cat .deps/apt/sources.list >&2
  exit 1
}

# Debian has no static cJSON: its source package, of one file.
fetch_cjson() {
  [ -e .deps/cjson/version ] && return
  own_deps
  [ -e .deps/cjson/version ] && return
  echo "deps: unpacking the source package of cJSON"
  native=$(dpkg --print-architecture)
  apt_update deb-src "$native"
  (cd .deps/apt && apt_of "$native" source cjson >/dev/null 2>>log) ||
    cannot "source package of cJSON"
  mkdir -p .deps/cjson
  cp .deps/apt/cjson-*/cJSON.[ch] .deps/apt/cjson-*/LICENSE .deps/cjson
  sed -n 's/^Version: //p' .deps/apt/cjson_*.dsc >.deps/apt/version
  mv .deps/apt/version .deps/cjson # last: it says that the others are whole
  rm -rf .deps/apt
}

# The target's development packages, unpacked.
fetch_sysroot() {
  sysroot=.deps/$target
  ini="[constants]
sysroot = '$root/$sysroot'"
  libraries="libblis-serial-dev libuv1-dev libsodium-dev zlib1g-dev libgtest-dev
   libjpeg62-turbo-dev"
  libraries=$(echo $libraries)
  [ "$(cat "$sysroot/done" 2>/dev/null)" = "$libraries" ] &&
    [ "$(cat "$sysroot/sysroot.ini")" = "$ini" ] && return
  own_deps
  mkdir -p "$sysroot"
  echo "$ini" >"$sysroot/sysroot.ini" # the folder may have been moved
  [ "$(cat "$sysroot/done" 2>/dev/null)" = "$libraries" ] && return
  echo "deps: unpacking libraries for $target"
  apt_update deb "$target"
  (cd ".deps/apt/$target/archives" && apt_of "$target" download $libraries \
     >/dev/null 2>>"$root/.deps/apt/log") ||
    cannot "libraries for $target"
  for package in ".deps/apt/$target/archives/"*.deb; do
    dpkg-deb -x "$package" "$sysroot"
  done
  rm -rf .deps/apt
  echo "$libraries" >"$sysroot/done"
}

install_packages
case "${1:-}" in
  static) fetch_cjson ;;
  cross) fetch_cjson && fetch_sysroot ;;
esac
