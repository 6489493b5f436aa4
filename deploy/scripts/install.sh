#!/usr/bin/env bash
# Installs one service on this machine, from the project's folder after `make build` (and `make nats` for nats):
#   sudo deploy/scripts/install.sh prefill qwen3-coder deploy/sample/dgx-spark-1.yaml
#   sudo deploy/scripts/install.sh nats
# Binaries, units and plists are replaced; files in /etc/tandem that exist already are kept. Nothing is started.
arguments=CONFIG.yaml # of the usage message
. "$(dirname "$0")/service.sh"
service "$@"
as_root "$@"
bin=$deploy/../bin

# keep installs a configuration file, unless there is one. None holds a secret: keys are files of their own.
keep() {
  if [ -e "$2" ]; then echo "kept      $2"; else
    install -m 0644 "$1" "$2"
    echo "installed $2"
  fi
}

# replace installs a file that belongs to the program.
replace() {
  [ -f "$2" ] || fail "there is no $2: run 'make build' first, and 'make nats' for nats"
  install -m "$1" "$2" "$3"
  echo "installed $3"
}

# roots refuses a folder in which another than root could have put the files, or replace them later.
roots() {
  local mode owner
  read -r mode _ owner _ < <(ls -ldn "$1/")
  [[ $owner == 0 && $mode != ?????w* && $mode != ????????w* ]] ||
    fail "$1 may be written by others than root ($mode, user $owner): sudo chown root $1 && sudo chmod go-w $1, or they could replace what root runs"
}

# account makes the user that the services run as; it owns their state and can do nothing else.
account() {
  case $system in
    Linux)
      group=tandem
      id -u "$group" >/dev/null 2>&1 || useradd --system --user-group --home-dir /var/lib/tandem --shell /usr/sbin/nologin "$group"
      ;;
    Darwin)
      group=_tandem
      id -u "$group" >/dev/null 2>&1 && return
      local number=300
      while dscl . -list /Users UniqueID | grep -qw "$number" || dscl . -list /Groups PrimaryGroupID | grep -qw "$number"; do
        number=$((number + 1))
      done
      dscl . -create "/Groups/$group" PrimaryGroupID "$number"
      dscl . -create "/Users/$group" UniqueID "$number"
      dscl . -create "/Users/$group" PrimaryGroupID "$number"
      dscl . -create "/Users/$group" NFSHomeDirectory /var/lib/tandem
      dscl . -create "/Users/$group" UserShell /usr/bin/false
      dscl . -create "/Users/$group" IsHidden 1
      ;;
  esac
}

account
mkdir -p /usr/local/bin
install -d -m 0755 /etc/tandem
for folder in /usr /usr/local /usr/local/bin /etc /etc/tandem; do roots "$folder"; done
install -d -m 0700 -o "$group" -g "$group" /var/lib/tandem
keep "$deploy/sample/tandem.env" /etc/tandem/tandem.env
replace 0755 "$bin/submitter" /usr/local/bin/submitter
if [ "$id" = nats ]; then
  replace 0755 "$bin/nats-server" /usr/local/bin/nats-server
  keep "$deploy/nats/nats-server.conf" /etc/tandem/nats-server.conf
  keep "$deploy/nats/security.conf" /etc/tandem/security.conf
else
  [ $# -eq 3 ] || usage "name the worker's configuration file"
  replace 0755 "$bin/$1-worker" "/usr/local/bin/$1-worker"
  replace 0755 "$bin/llama-server-shim" /usr/local/bin/llama-server-shim
  keep "$3" "/etc/tandem/$id.yaml"
fi

case $system in
  Linux)
    mkdir -p /etc/systemd/system/tandem-.service.d
    replace 0644 "$deploy/systemd/tandem-.service.d/hardening.conf" /etc/systemd/system/tandem-.service.d/hardening.conf
    if getent group ollama >/dev/null; then
      replace 0644 "$deploy/systemd/ollama-group.conf" /etc/systemd/system/tandem-.service.d/ollama-group.conf
    fi
    template=$(sed -E 's/@.*\.service/@.service/' <<<"$unit")
    replace 0644 "$deploy/systemd/$template" "/etc/systemd/system/$template"
    systemctl daemon-reload
    ;;
  Darwin)
    install -d -m 0750 -o "$group" -g "$group" /var/log/tandem
    if [ "$id" = nats ]; then source=tandem.nats.plist; else source=tandem.worker.plist; fi
    sed -e "s/@ROLE@/$1/g" -e "s/@NAME@/${2:-}/g" "$deploy/launchd/$source" >"$(plist)"
    chmod 0644 "$(plist)"
    echo "installed $(plist)"
    ;;
esac
echo "start it with: sudo $here/start.sh $1${2:+ $2}"
