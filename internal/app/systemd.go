package app

import (
	"net"
	"os"
)

// notifySystemd tells systemd the state of the service, if it asked to be told (sd_notify(3)).
// Elsewhere it does nothing; a failure changes nothing for the service.
func notifySystemd(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(state))
}
