package deploy

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestServicesAreSeparateUsers installs all four services in a mount namespace with folders of its own in place of this machine's,
// where nothing but systemctl is a stand-in: what one service has, the others cannot read, and a backup and its return work.
func TestServicesAreSeparateUsers(t *testing.T) {
	folder := t.TempDir()
	if err := os.Chown(folder, 1, 1); err != nil {
		t.Skipf("it makes users and becomes them, which takes root: %v", err)
	}
	if err := errors.Join(os.Chmod(folder, 0o755), os.CopyFS(filepath.Join(folder, "deploy"), os.DirFS(".")), os.Mkdir(filepath.Join(folder, "bin"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"submitter", "nats-server", "prefill-worker", "decode-worker", "gateway", "llama-server-shim"} {
		if err := os.WriteFile(filepath.Join(folder, "bin", name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const script = `
set -eu
mount --make-rprivate /
mkdir etc lib && cp -a /etc/. etc/
mount --bind etc /etc
for place in /var/lib /var/log /usr/local/bin; do mount -t tmpfs -o mode=0755 none "$place"; done
printf '#!/bin/sh\n' >/usr/local/bin/systemctl
chmod 0755 /usr/local/bin/systemctl
PATH=/usr/local/bin:$PATH
getent group ollama >/dev/null || groupadd --system ollama
chown -R 0:0 .

deploy/scripts/install.sh nats
deploy/scripts/install.sh prefill m deploy/sample/dgx-spark-1.yaml
deploy/scripts/install.sh decode m deploy/sample/mac-studio-1.yaml
chmod 0644 /etc/tandem/decode-m.yaml
deploy/scripts/install.sh decode m deploy/sample/mac-studio-1.yaml

deploy/scripts/install.sh gateway deploy/sample/gateway.yaml

for role in nats prefill decode gateway; do
  as() { runuser -u "tandem-$1" -- sh -c "$2" 2>/dev/null; }
  as $role "umask 077; mkdir -p /var/lib/tandem/$role/jetstream && echo text >/var/lib/tandem/$role/jetstream/file" || echo "$role cannot write its folder"
  for other in nats prefill decode gateway; do
    [ $other = $role ] || ! as $other "ls /var/lib/tandem/$role || cat /var/lib/tandem/$role/jetstream/file" || echo "$other reads the folder of $role"
    file=/etc/tandem/$role-m.yaml
    [ $role != nats ] || file=/etc/tandem/nats-server.conf
    [ $role != gateway ] || file=/etc/tandem/gateway.yaml
    if [ $other = $role ]; then as $other "cat $file" >/dev/null || echo "$other cannot read $file"; else ! as $other "cat $file" || echo "$other reads $file"; fi
  done
  ! as $role "mv /var/lib/tandem/$role /var/lib/tandem/x" || echo "$role moves its folder"
  as $role "cat /etc/tandem/tandem.env" >/dev/null || echo "$role cannot read tandem.env"
done
ls /etc/systemd/system/tandem-*@.service.d/ollama-group.conf >/dev/null
! ls /etc/systemd/system/tandem-nats.service.d /etc/systemd/system/tandem-.service.d/ollama-group.conf 2>/dev/null || echo "NATS has the group of Ollama"

deploy/nats/backup.sh backup.tar.gz
rm /var/lib/tandem/nats/jetstream/file
deploy/nats/restore.sh backup.tar.gz
[ "$(stat -c %U:%a /var/lib/tandem/nats/jetstream/file)" = tandem-nats:600 ] || echo "the store is not that of tandem-nats after restore.sh"

# An installation whose services were one user.
chown tandem-nats /var/lib/tandem
deploy/scripts/install.sh nats 2>&1 | grep 'From one user to three' >refused || echo "the folder of one user for all is taken"
`
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "bash", "-c", script)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if said, _, _ := strings.Cut(line, " "); !map[string]bool{"installed": true, "kept": true, "start": true, "started": true, "stopped": true, "backup:": true, "restore:": true}[said] {
			t.Error(fmt.Sprint("it says: ", strings.TrimSpace(line)))
		}
	}
}
