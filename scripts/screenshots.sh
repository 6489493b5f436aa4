#!/usr/bin/env bash
# Takes pictures of the console's pages after a class was graded, and keeps those of the documents: screenshots.sh FOLDER [FOLDER FOR ALL]. `make screenshots` runs it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly folder=$1 class=examples/class nats=4299 http=127.0.0.1:11599
work=$(mktemp -d)
pictures=${2:-$work/pictures}
bin/submitter dev --engine standin --port $nats --http $http --grading "$work/classes" >"$work/log" 2>&1 &
trap 'kill -INT $! 2>/dev/null; wait; rm -rf "$work"' EXIT
until curl -fsS "http://$http/api/tags" >/dev/null 2>&1; do
  kill -0 $! 2>/dev/null || { cat "$work/log" >&2; exit 1; }
  sleep 0.2
done
readonly own=$work/classes/homework-4 # as the console keeps a class
mkdir -p "$own"
cp -r $class/submissions $class/rubric.json $class/solution.ipynb $class/template.ipynb "$own"
bin/submitter --nats "nats://127.0.0.1:$nats" grade "$own/submissions" --rubric "$own/rubric.json" --solution "$own/solution.ipynb" \
  --template "$own/template.ipynb" --out "$own/grades" || [ $? -eq 3 ] # some need review, as they must
TANDEM_CONSOLE=http://$http TANDEM_PICTURES=$pictures go test -count=1 -run 'TestConsole$' ./test/pages
cp "$pictures"/*-wide-light.png "$pictures"/console-overview-phone-light.png "$folder"
