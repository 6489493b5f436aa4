#!/usr/bin/env bash
# What the scripts beside this one share: which service is meant, and how this machine's service manager is spoken to.
# Sourced, not run. After `service "$@"`: $id is the service's name in files (prefill-qwen3-coder, gateway or nats), $unit its name
# for systemd or launchd, and $user the user that it runs as.
# shellcheck disable=SC2034 # what is set here is used there
set -euo pipefail
umask 022 # whatever root's is: what is installed is for all to read and for root to write

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
deploy=$(dirname "$here")
system=$(uname -s)

service() {
  local role=${1:-} name=${2:-}
  case $role in
    nats | gateway) id=$role ;;
    prefill | decode)
      [[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || usage "name the model, in short and without a colon: qwen3-coder for qwen3-coder:30b"
      id=$role-$name
      ;;
    *) usage "the first argument must be prefill, decode, gateway or nats" ;;
  esac
  case $system in
    Linux)
      user=tandem-$role
      if [ "$id" = "$role" ]; then unit=tandem-$role.service; else unit=tandem-$role@$name.service; fi
      ;;
    Darwin)
      user=_tandem-$role
      if [ "$id" = "$role" ]; then unit=tandem.$role; else unit=tandem.$role.$name; fi
      ;;
    *) fail "$system is neither Linux nor macOS" ;;
  esac
}

usage() {
  echo "$(basename "$0"): $1" >&2
  echo "usage: $(basename "$0") prefill|decode NAME${arguments:+ $arguments}" >&2
  echo "       $(basename "$0") gateway${arguments:+ $arguments}" >&2
  echo "       $(basename "$0") nats" >&2
  exit 2
}

fail() {
  echo "$(basename "$0"): $1" >&2
  exit 1
}

as_root() { [ "$(id -u)" -eq 0 ] || fail "must run as root: sudo $0 $*"; }

# as_service runs a command as the user that the service runs as. What lies in that user's folders is for it alone to move and
# make: a name in there may be a link by the time root comes to it.
as_service() (
  cd /
  case $system in
    Linux) exec runuser -u "$user" -- "$@" ;;
    Darwin) exec sudo -u "$user" "$@" ;;
  esac
)

plist() { echo "/Library/LaunchDaemons/$unit.plist"; }
