package plant_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/plant"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

// Of 1000 datagrams every tenth is lost and the others are held up; what is planted is counted,
// and gone when it is closed.
func TestHarm(t *testing.T) {
	tier.Root(t)
	lab, err := topo.New(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	n, err := topo.NewTwoHosts(t.Context(), lab, topo.TwoHostsOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dut.Wire(t.Context(), n, dut.EndOptions{}); err != nil {
		t.Fatal(err)
	}
	index, err := n.Client.Index(topo.EndName)
	if err != nil {
		t.Fatal(err)
	}
	var planted *plant.Plant
	if err := n.Client.Do(func() (err error) {
		planted, err = plant.At(index, plant.Harm{UDP: 100, OneOf: 10})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	receive, send := sockets(t, n)
	got := exchange(t, receive, send, 1000)
	delayed, dropped, err := planted.Count()
	if err != nil || got != 900 || dropped != 100 || delayed < 900 {
		t.Errorf("%d of 1000 came; %d dropped, %d delayed (%v)", got, dropped, delayed, err)
	}
	if err := planted.Close(); err != nil {
		t.Fatal(err)
	}
	if got := exchange(t, receive, send, 1000); got != 1000 {
		t.Errorf("%d of 1000 came afterwards", got)
	}
}

func sockets(t *testing.T, n *topo.TwoHosts) (receive *net.UDPConn, send net.Conn) {
	t.Helper()
	at := netip.AddrPortFrom(n.ServerAddr(4), 7000)
	if err := n.Server.Do(func() (err error) {
		receive, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { receive.Close() })
	if err := n.Client.Do(func() (err error) {
		send, err = net.Dial("udp", at.String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { send.Close() })
	return receive, send
}

// exchange sends datagrams one by one and counts what comes. The wire delivers within the call,
// so what has not come soon is lost.
func exchange(t *testing.T, receive *net.UDPConn, send net.Conn, n int) (got int) {
	t.Helper()
	buffer := make([]byte, 16)
	for i := range n {
		if _, err := send.Write([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}

		if err := receive.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := receive.Read(buffer); err == nil {
			got++
		}
	}
	return got
}
