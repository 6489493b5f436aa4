#!/usr/bin/env bash
# Installs one service on this machine, from the project's folder after `make build` (and `make nats` for nats):
#   sudo deploy/scripts/install.sh prefill qwen3-coder deploy/sample/dgx-spark-1.yaml
#   sudo deploy/scripts/install.sh gateway deploy/sample/gateway.yaml
#   sudo deploy/scripts/install.sh nats
# Binaries, units and plists are replaced; files in /etc/tandem that exist already are kept. Nothing is started.
arguments=CONFIG.yaml # of the usage message
. "$(dirname "$0")/service.sh"
service "$@"
as_root "$@"
bin=$deploy/../bin

# keep installs a configuration file, unless there is one, with its rights: those that belong to one service may hold the password of
# a URL, and are for it alone to read.
keep() { # FROM TO MODE GROUP
  if [ -e "$2" ]; then
    chown "0:$4" "$2"
    chmod "$3" "$2"
    echo "kept      $2"
  else
    install -m "$3" -o 0 -g "$4" "$1" "$2"
    echo "installed $2"
  fi
}

# replace installs a file that belongs to the program.
replace() {
  [ -f "$2" ] || fail "there is no $2: run 'make build' first, and 'make nats' for nats"
  install -m "$1" "$2" "$3"
  echo "installed $3"
}

# roots reports whether only root could have put the files into a folder, or can replace them later.
roots() {
  read -r mode _ owner _ < <(ls -ldn "$1/")
  [[ $owner == 0 && $mode != ?????w* && $mode != ????????w* ]]
}

# account makes the user that the service runs as; it owns its state and can do nothing else.
account() {
  case $system in
    Linux)
      id -u "$user" >/dev/null 2>&1 || useradd --system --user-group --home-dir "$state" --no-create-home --shell /usr/sbin/nologin "$user"
      ;;
    Darwin)
      id -u "$user" >/dev/null 2>&1 && return
      local number=300
      while dscl . -list /Users UniqueID | grep -qw "$number" || dscl . -list /Groups PrimaryGroupID | grep -qw "$number"; do
        number=$((number + 1))
      done
      dscl . -create "/Groups/$user" PrimaryGroupID "$number"
      dscl . -create "/Users/$user" UniqueID "$number"
      dscl . -create "/Users/$user" PrimaryGroupID "$number"
      dscl . -create "/Users/$user" NFSHomeDirectory "$state"
      dscl . -create "/Users/$user" UserShell /usr/bin/false
      dscl . -create "/Users/$user" IsHidden 1
      ;;
  esac
}

state=/var/lib/tandem/$1
mkdir -p /usr/local/bin
install -d -m 0755 /etc/tandem
for folder in /usr /usr/local /usr/local/bin /etc /etc/tandem; do
  roots "$folder" ||
    fail "$folder may be written by others than root ($mode, user $owner): sudo chown root $folder && sudo chmod go-w $folder, or they could replace what root runs"
done
for folder in /var/lib/tandem /var/log/tandem; do
  [ ! -e "$folder" ] || roots "$folder" ||
    fail "$folder is user $owner's ($mode), as when all services ran as one user: see \"From one user to three\" in deploy/README.md"
done
account
install -d -m 0755 /var/lib/tandem
install -d -m 0700 -o "$user" -g "$user" "$state"
keep "$deploy/sample/tandem.env" /etc/tandem/tandem.env 0644 0
replace 0755 "$bin/submitter" /usr/local/bin/submitter
case $id in
  nats)
    replace 0755 "$bin/nats-server" /usr/local/bin/nats-server
    keep "$deploy/nats/nats-server.conf" /etc/tandem/nats-server.conf 0640 "$user"
    ;;
  gateway)
    [ $# -eq 2 ] || usage "name the gateway's configuration file"
    replace 0755 "$bin/gateway" /usr/local/bin/gateway
    keep "$2" /etc/tandem/gateway.yaml 0640 "$user"
    ;;
  *)
    [ $# -eq 3 ] || usage "name the worker's configuration file"
    replace 0755 "$bin/$1-worker" "/usr/local/bin/$1-worker"
    replace 0755 "$bin/llama-server-shim" /usr/local/bin/llama-server-shim
    keep "$3" "/etc/tandem/$id.yaml" 0640 "$user"
    ;;
esac

case $system in
  Linux)
    mkdir -p /etc/systemd/system/tandem-.service.d
    replace 0644 "$deploy/systemd/tandem-.service.d/hardening.conf" /etc/systemd/system/tandem-.service.d/hardening.conf
    template=$(sed -E 's/@.*\.service/@.service/' <<<"$unit")
    rm -f /etc/systemd/system/tandem-.service.d/ollama-group.conf # where NATS had the group, too
    if [ "$id" != "$1" ] && getent group ollama >/dev/null; then
      mkdir -p "/etc/systemd/system/$template.d"
      replace 0644 "$deploy/systemd/ollama-group.conf" "/etc/systemd/system/$template.d/ollama-group.conf"
    fi
    replace 0644 "$deploy/systemd/$template" "/etc/systemd/system/$template"
    systemctl daemon-reload
    ;;
  Darwin)
    install -d -m 0755 -o 0 -g 0 /var/log/tandem
    install -d -m 0750 -o "$user" -g "$user" "/var/log/tandem/$1"
    if [ "$id" = "$1" ]; then source=tandem.$id.plist; else source=tandem.worker.plist; fi
    sed -e "s/@ROLE@/$1/g" -e "s/@NAME@/${2:-}/g" "$deploy/launchd/$source" >"$(plist)"
    chmod 0644 "$(plist)"
    echo "installed $(plist)"
    ;;
esac
name=${id#"$1"}
echo "start it with: sudo $here/start.sh $1${name:+ ${name#-}}"
