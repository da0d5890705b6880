package bridge

import (
	"bytes"
	"fmt"
	"time"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
)

// framesCross sends frames of every kind of length from client to server, and
// answers from server to client.
func framesCross(n *harness.TwoHosts, dst string) {
	n.T.Helper()
	back := dst
	if dst == harness.ServerMAC {
		back = harness.ClientMAC
	}
	for _, c := range []struct {
		from, to *topo.Host
		src, dst string
	}{{n.Client, n.Server, harness.ClientMAC, dst}, {n.Server, n.Client, harness.ServerMAC, back}} {
		n.Once(fmt.Sprintf("frames that are not IP cross from %s to %s", c.from.Name, c.dst), func() error {
			return cross(c.from, c.to, c.src, c.dst)
		})
	}
}

func cross(from, to *topo.Host, src, dst string) error {
	out, err := harness.OpenFrames(from, topo.EndName, false)
	if err != nil {
		return err
	}
	defer out.Close()
	in, err := harness.OpenFrames(to, topo.EndName, false)
	if err != nil {
		return err
	}
	defer in.Close()
	for _, size := range []int{15, 18, 46, harness.MinFrame - 1, harness.MinFrame, harness.MinFrame + 1, 64, 128, 161, 1000, harness.MaxFrame - 1, harness.MaxFrame} {
		frame := harness.RawFrame(src, dst, pkttest.EtherTypeExperimental, size)
		if err := out.Send(frame); err != nil {
			return err
		}
		if err := arrives(in, frame); err != nil {
			return fmt.Errorf("frame of %d bytes: %w", size, err)
		}
	}
	return nil
}

// arrives waits for a frame, which may have been brought to Ethernet's minimum.
func arrives(in *harness.Frames, frame []byte) error {
	got, err := in.Until(
		func(b []byte) bool { return len(b) > 13 && bytes.Equal(b[12:14], frame[12:14]) },
		func(b []byte) bool {
			padding := max(0, min(harness.MinFrame, len(b))-len(frame))
			return len(b) == len(frame)+padding && bytes.HasPrefix(b, frame) && bytes.Count(b[len(frame):], []byte{0}) == padding
		})
	for _, b := range got {
		err = fmt.Errorf("%w\ngot %x", err, b[:min(80, len(b))])
	}
	return err
}

// expect waits for a frame that starts as this one. A tag makes a padded one longer than Ethernet's minimum.
func expect(f *harness.Frames, frame []byte) error {
	deadline := time.Now().Add(harness.Patience)
	for {
		got, err := f.Next(deadline)
		if err != nil {
			return fmt.Errorf("%s: %w, want %x", f.Name, err, frame[:min(len(frame), 80)])
		}
		if bytes.HasPrefix(got, frame) && len(got) <= max(len(frame), harness.MinFrame+8) {
			return nil
		}
	}
}
