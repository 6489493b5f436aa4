package natsembed

import "testing"

// NATS' monitoring asks nobody for a password and lets every web page read it.
func TestNoMonitoring(t *testing.T) {
	for _, opts := range []Options{{}, {Dir: t.TempDir(), Cluster: &Cluster{Server: "n", Port: 1, Peers: []string{"127.0.0.1:1"}}}} {
		s := &Server{opts: opts}
		if o := s.serverOptions(); o.HTTPPort != 0 || o.HTTPSPort != 0 || o.ProfPort != 0 || o.Websocket.Port != 0 {
			t.Errorf("with %+v the server listens for HTTP on %d, %d, %d, %d; want none", opts, o.HTTPPort, o.HTTPSPort, o.ProfPort, o.Websocket.Port)
		}
	}
}
