package cli

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
)

func TestProbePlan(t *testing.T) {
	path := func(device, remote string) api.PathInfo {
		return api.PathInfo{Interface: device, Remote: netip.MustParseAddr(remote), Offload: &api.OffloadInfo{}}
	}
	teps := []api.TEPInfo{
		{Address: netip.MustParseAddr("192.0.2.2"), Name: "b", Paths: []api.PathInfo{path("eth1", "192.0.2.2"), path("eth0", "192.0.2.3")}},
		{Address: netip.MustParseAddr("192.0.2.9"), Paths: []api.PathInfo{path("eth2", "192.0.2.9")}},
		{Address: netip.MustParseAddr("192.0.2.10"), Paths: []api.PathInfo{{Interface: "eth3"}}},
	}
	for remote, want := range map[string]string{
		"":           "offloads of eth0, eth1, eth2 on and off while traffic flows, for 3 paths to b, 192.0.2.9.",
		"b":          "offloads of eth0, eth1 on",
		"192.0.2.3":  "for 2 paths to b.",
		"192.0.2.9":  "offloads of eth2 on and off while traffic flows, for 1 path to 192.0.2.9.",
		"192.0.2.10": "", "c": "",
	} {
		plan, err := probePlan(teps, remote)
		if (err != nil) != (want == "") || !strings.Contains(plan, want) {
			t.Errorf("%q: %q (%v), want %q", remote, plan, err, want)
		}
		if err != nil && status(err) != exitUsage {
			t.Errorf("%q: exit status %d", remote, status(err))
		}
	}
}

// Only a clear yes at a terminal is one.
func TestConfirm(t *testing.T) {
	for answer, agreed := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "\n": false, "": false, "yellow\n": false} {
		var asked bytes.Buffer
		s := &streams{err: &asked, in: strings.NewReader(answer), interactive: true}
		err := s.confirm("This breaks eth0.", "Go on?")
		if (err == nil) != agreed || err != nil && status(err) != exitFailure {
			t.Errorf("%q: %v", answer, err)
		}
		if !strings.HasPrefix(asked.String(), "This breaks eth0.\nGo on? [y/N] ") {
			t.Errorf("asked %q", asked.String())
		}
	}
	s := &streams{err: &bytes.Buffer{}, in: strings.NewReader("y\n")}
	if err := s.confirm("This breaks eth0.", "Go on?"); err == nil || status(err) != exitUsage || !strings.Contains(err.Error(), "--yes") {
		t.Errorf("without a terminal: %v", err)
	}
}
