#!/usr/bin/env bash
# Says whether one service of this machine runs, and what a worker says of itself: sudo status.sh prefill qwen3-coder, or: sudo status.sh nats
# All machines at once: submitter status; whether NATS answers: submitter doctor.
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
[ "$id" != nats ] || exit 0 # submitter doctor asks the server itself
address=$(sed -nE 's/^http: *([^ ]+).*/\1/p' "/etc/tandem/$id.yaml")
scheme=http
! grep -q '^tls-cert:' "/etc/tandem/$id.yaml" || scheme=https
# It is this machine's own service, by its address: the certificate is for a name.
curl --insecure --fail-with-body --silent --show-error --max-time 5 "$scheme://$address/health"
echo
