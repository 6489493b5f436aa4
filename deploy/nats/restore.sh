#!/usr/bin/env bash
# Usage: restore.sh FILE.tar.gz [STORE]
# Puts a copy made by backup.sh in the place of the NATS server's store. The store that was there is kept beside it.
# The service is stopped meanwhile and started again. With STORE, a folder, no service is touched: its server must be stopped.
. "$(dirname "$0")/../scripts/service.sh"
umask 077

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: $0 FILE.tar.gz [STORE]" >&2
  exit 2
fi
file=$1
store=${2:-/var/lib/tandem/nats}
service nats # whose files they are

# All is checked before anything is moved.
entries=$(tar -tzf "$file") || { echo "restore: $file is not whole" >&2; exit 1; }
if grep -qvE '^jetstream/' <<<"$entries" || grep -qE '(^|/)\.\.(/|$)' <<<"$entries"; then
  echo "restore: $file is not a copy made by backup.sh: it holds more than the folder jetstream" >&2
  exit 1
fi

if [ $# -eq 1 ]; then
  "$here/stop.sh" nats
  trap '"$here/start.sh" nats' EXIT
else
  as_service() { "$@"; }
fi

as_service mkdir -p "$store"
fresh=$(as_service mktemp -d "$store/.restore-XXXXXX")
as_service tar -C "$fresh" -xzf - <"$file"
if [ -e "$store/jetstream" ]; then
  kept=$store/jetstream.before-$(date +%Y%m%d-%H%M%S)
  as_service mv "$store/jetstream" "$kept"
  echo "restore: the former store is $kept; remove it when all is well, it holds students' texts"
fi
as_service mv "$fresh/jetstream" "$store/jetstream"
as_service rmdir "$fresh"
echo "restore: $store is as $file has it"
