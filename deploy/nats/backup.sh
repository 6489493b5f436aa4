#!/usr/bin/env bash
# Usage: backup.sh FILE.tar.gz [STORE]
# Copies the store of the NATS server: every queued job, result and dead letter. The service is stopped for the copy and
# started again; workers and callers wait and go on. With STORE, a folder, no service is touched: its server must be stopped.
# The file holds students' texts and is readable by its owner only.
. "$(dirname "$0")/../scripts/service.sh"
umask 077
set -o noclobber # nor is a link followed that is there already

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: $0 FILE.tar.gz [STORE]" >&2
  exit 2
fi
file=$1
store=${2:-/var/lib/tandem/nats}
service nats # whose files they are
[ -d "$store/jetstream" ] || { echo "backup: $store holds no JetStream store (no folder jetstream in it)" >&2; exit 1; }
[ ! -e "$file" ] || { echo "backup: $file exists: name a new file" >&2; exit 1; }

if [ $# -eq 1 ]; then
  "$here/stop.sh" nats
  trap '"$here/start.sh" nats' EXIT
else
  as_service() { "$@"; }
fi

# sums lists every file with its checksum.
sums() { as_service find "$store/jetstream" -type f -exec cksum {} + | LC_ALL=C sort; }

before=$(sums)
as_service tar -C "$store" -czf - jetstream >"$file.part"
if [ "$(sums)" != "$before" ]; then
  rm -f "$file.part"
  echo "backup: the store changed while it was copied: stop the NATS server on it first" >&2
  exit 1
fi
gzip -t "$file.part"
mv "$file.part" "$file"
echo "backup: wrote $file, $(wc -c <"$file" | tr -d ' ') bytes, $(wc -l <<<"$before" | tr -d ' ') files"
