package datapath

import (
	"testing"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// countedWires counts the sockets that are opened and closed, and the frames that they send.
type countedWires struct{ opened, sent, closed int }

func (c *countedWires) Send(int, []byte) error { c.sent++; return nil }
func (c *countedWires) Close() error           { c.closed++; return nil }

// All frames go by one socket, which goes with the data path.
func TestWireStaysOpen(t *testing.T) {
	c := &countedWires{}
	open := func() (kernel.Wire, error) { c.opened++; return c, nil }
	ev := &HostEvents{prog: &programs{kernel: kernel.Kernel{Wire: open}}}
	for range 3 {
		if err := ev.send(1, []byte{0}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := ev.wire.close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := ev.send(1, []byte{0}); err == nil {
		t.Error("a frame is sent after the end")
	}
	if want := (countedWires{opened: 1, sent: 3, closed: 1}); *c != want {
		t.Errorf("%+v, want %+v", *c, want)
	}
}
