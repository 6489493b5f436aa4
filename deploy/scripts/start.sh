#!/usr/bin/env bash
# Starts one service, now and whenever the machine starts: sudo start.sh prefill qwen3-coder, or: sudo start.sh nats
. "$(dirname "$0")/service.sh"
service "$@"
as_root "$@"
case $system in
  Linux) systemctl enable --now --quiet "$unit" ;;
  Darwin)
    launchctl enable "system/$unit"
    if ! launchctl print "system/$unit" >/dev/null 2>&1; then
      # launchd cannot rotate a log, and nobody else can while it is open.
      as_service find "/var/log/tandem/$1" -name "$id.log" -size +10M -exec mv -f {} {}.1 \;
      launchctl bootstrap system "$(plist)"
    fi
    ;;
esac
echo "started $unit"
