#!/usr/bin/env bash
# Usage: tools/needs.sh COMMAND...
# Makes sure that the commands exist: a missing one is installed as a Debian or Homebrew package, or named with its remedy.
set -euo pipefail

# package prints what provides a command, for the package manager given.
package() {
  case "$1/$2" in
    apt/cc) echo gcc libc6-dev ;;
    apt/c++) echo g++ ;;
    apt/node) echo nodejs ;;
    apt/systemd-analyze) echo systemd ;;
    apt/ip | apt/tc | apt/ss) echo iproute2 ;;
    apt/mkfs.ext4) echo e2fsprogs ;;
    apt/losetup | apt/fsfreeze | apt/nsenter) echo "util-linux mount" ;;
    brew/npm) echo node ;;
    apt/promtool | brew/promtool) echo prometheus ;;
    brew/chromium) echo google-chrome ;;
    apt/chromium | apt/npm | apt/openssl | apt/prometheus | apt/shellcheck | brew/prometheus | brew/node | brew/openssl | brew/shellcheck) echo "$2" ;;
    *) return 1 ;; # no package: the caller is told
  esac
}

# there reports whether a command exists. For chromium its relatives do, too, and a Mac's are no commands (as in test/pages).
there() {
  local names=("$1") name
  PATH=$PATH:/usr/sbin:/sbin # where some live, out of an ordinary user's way
  [ "$1" != chromium ] || names+=(chromium-browser google-chrome google-chrome-stable
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" /Applications/Chromium.app/Contents/MacOS/Chromium)
  for name in "${names[@]}"; do
    command -v "$name" >/dev/null && return
  done
  return 1
}

missing=()
for command in "$@"; do
  there "$command" || missing+=("$command")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if command -v apt-get >/dev/null; then manager=apt; elif command -v brew >/dev/null; then manager=brew; else
  echo "needs: please install: ${missing[*]} (found neither apt-get nor brew to do it)" >&2
  exit 1
fi

packages=()
for command in "${missing[@]}"; do
  if ! found=$(package "$manager" "$command"); then
    echo "needs: please install $command by hand ($manager has no package for it; for cc and c++ on macOS: xcode-select --install)" >&2
    exit 1
  fi
  read -ra words <<<"$found"
  packages+=("${words[@]}")
done

# programs puts the two programs of the prometheus package where commands are: installed, it would run a service.
programs() {
  local work
  work=$(mktemp -d)
  (cd "$work" && apt-get download -qq prometheus && dpkg -x prometheus_*.deb . &&
    "${root[@]}" install -m 0755 usr/bin/prometheus usr/bin/promtool /usr/local/bin/) >&2
  rm -rf "$work"
}

echo "needs: installing ${packages[*]} with $manager" >&2
case $manager in
  apt)
    root=()
    [ "$(id -u)" -eq 0 ] || root=(sudo)
    "${root[@]}" apt-get update -qq
    others=()
    for package in "${packages[@]}"; do [ "$package" = prometheus ] || others+=("$package"); done
    [ ${#others[@]} -eq ${#packages[@]} ] || programs
    [ ${#others[@]} -eq 0 ] ||
      "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${others[@]}" </dev/null >&2
    ;;
  brew) brew install --quiet "${packages[@]}" </dev/null >&2 ;;
esac
