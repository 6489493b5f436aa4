#!/usr/bin/env bash
# Usage: restore.sh FILE.tar.gz [STORE]
# Puts a copy made by backup.sh in the place of the NATS server's store. The store that was there is kept beside it.
# The service is stopped meanwhile and started again. With STORE, a folder, no service is touched: its server must be stopped.
set -euo pipefail
umask 077
here=$(cd "$(dirname "$0")" && pwd)

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: $0 FILE.tar.gz [STORE]" >&2
  exit 2
fi
file=$1
store=${2:-/var/lib/tandem/nats}

# All is checked before anything is moved.
entries=$(tar -tzf "$file") || { echo "restore: $file is not whole" >&2; exit 1; }
if grep -qvE '^jetstream/' <<<"$entries" || grep -qE '(^|/)\.\.(/|$)' <<<"$entries"; then
  echo "restore: $file is not a copy made by backup.sh: it holds more than the folder jetstream" >&2
  exit 1
fi

if [ $# -eq 1 ]; then
  "$here/../scripts/stop.sh" nats
  trap '"$here/../scripts/start.sh" nats' EXIT
fi

mkdir -p "$store"
fresh=$(mktemp -d "$store/.restore-XXXXXX")
tar -C "$fresh" -xzf "$file"
if [ -e "$store/jetstream" ]; then
  kept=$store/jetstream.before-$(date +%Y%m%d-%H%M%S)
  mv "$store/jetstream" "$kept"
  echo "restore: the former store is $kept; remove it when all is well, it holds students' texts"
fi
mv "$fresh/jetstream" "$store/jetstream"
rmdir "$fresh"
if [ "$(id -u)" -eq 0 ] && [ $# -eq 1 ]; then
  owner=$(stat -c %u:%g "$store" 2>/dev/null || stat -f %u:%g "$store") # GNU, BSD
  chown -R "$owner" "$store/jetstream"
fi
echo "restore: $store is as $file has it"
