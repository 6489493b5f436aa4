#!/usr/bin/env bash
# Follows one service's log, from its last 100 lines on: sudo logs.sh prefill qwen3-coder, or: sudo logs.sh nats
. "$(dirname "$0")/service.sh"
service "$@"
case $system in
  Linux) exec journalctl --unit "$unit" --lines 100 --follow --output cat ;;
  Darwin) as_service tail -n 100 -F "/var/log/tandem/$1/$id.log" ;;
esac
