package measure

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

// What the server says is the address that it sees, and both families have it without a mapping.
func TestPeers(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "::1"} {
		listener, err := net.Listen("tcp", net.JoinHostPort(addr, "0"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				tellPeer(conn.(*net.TCPConn))
			}
		}()
		c := &PeerClient{Endpoint: Endpoint{Addr: netip.MustParseAddr(addr), Port: listener.Addr().(*net.TCPAddr).Port}}
		if peer, err := c.ask(); err != nil || peer.Seen.String() != addr || peer.Local.String() != addr {
			t.Errorf("%s: %+v, %v", addr, peer, err)
		}
	}
}

func TestReadPeers(t *testing.T) {
	peers, err := ReadPeers([]byte(`[{"local":"10.0.0.1","seen":"192.0.2.1"},{"local":"fd00::1","seen":"fd00::1"}]`))
	if err != nil || len(peers) != 2 || peers[0].Seen.String() != "192.0.2.1" || peers[1].Local != peers[1].Seen {
		t.Errorf("%+v, %v", peers, err)
	}
	for text, want := range map[string]string{"[]": "no connection", `[{"local":"10.0.0.1"}]`: "does a proxy answer", "HTTP/1.1 400": "report of peers", "[" + strings.Repeat("{},", 3): "report of peers"} {
		if _, err := ReadPeers([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestPeerRole(t *testing.T) {
	role := Role{Instrument: RolePeer, Addr: netip.MustParseAddr("192.0.2.1"), Port: 7, Flows: 3}
	for server, want := range map[bool]string{true: "lab-peer-server --addr=192.0.2.1 --port=7", false: "lab-peer-client --connections=3 --addr=192.0.2.1 --port=7"} {
		role.Server = server
		argv, err := role.Argv()
		if got := strings.Join(argv, " "); err != nil || got != want || role.Network() != "tcp" || role.Sends() {
			t.Errorf("%s, %v", got, err)
		}
	}
}
