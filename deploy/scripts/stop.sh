#!/usr/bin/env bash
# Stops one service and keeps it stopped; a worker finishes or hands back its job first (up to two minutes).
#   sudo stop.sh prefill qwen3-coder, or: sudo stop.sh nats
. "$(dirname "$0")/service.sh"
service "$@"
as_root "$@"
case $system in
  Linux) systemctl disable --now --quiet "$unit" ;;
  Darwin)
    launchctl disable "system/$unit"
    if launchctl print "system/$unit" >/dev/null 2>&1; then
      launchctl bootout "system/$unit"
      while launchctl print "system/$unit" >/dev/null 2>&1; do sleep 1; done # bootout returns before the drain has ended
    fi
    ;;
esac
echo "stopped $unit"
