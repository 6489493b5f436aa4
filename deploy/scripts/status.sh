#!/usr/bin/env bash
# Says whether one service of this machine runs, and what the worker says of itself: sudo status.sh prefill qwen3-coder, or: status.sh nats
# All machines at once: submitter status.
. "$(dirname "$0")/service.sh"
service "$@"
case $system in
  Linux) systemctl status --no-pager --lines 5 "$unit" ;;
  Darwin)
    state=$(launchctl print "system/$unit" 2>/dev/null | grep -E '^[[:space:]]*(state|pid|last exit code) =') || fail "$unit is not loaded: start it with start.sh"
    echo "$unit"
    echo "$state"
    ;;
esac
if [ "$id" = nats ]; then address=127.0.0.1:8222/healthz; else address=$(sed -nE 's/^http: *([^ ]+).*/\1/p' "/etc/tandem/$id.yaml")/health; fi
curl --fail-with-body --silent --show-error --max-time 5 "http://$address"
echo
