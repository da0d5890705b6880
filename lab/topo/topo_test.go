package topo_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/testlab"
)

func TestInnerMTU(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o    topo.TwoHostsOptions
		want int
	}{
		{topo.TwoHostsOptions{}, 1450},
		{topo.TwoHostsOptions{UnderlayFamily: 6}, 1430},
		{topo.TwoHostsOptions{UnderlayMTU: 9000}, 8950},
		{topo.TwoHostsOptions{UnderlayMTU: 9000, InnerMTU: 1500}, 1500},
	} {
		if got := testlab.TwoHosts(t, c.o).Options.InnerMTU; got != c.want {
			t.Errorf("%+v: inner MTU %d, want %d", c.o, got, c.want)
		}
	}
	if _, err := topo.NewTwoHosts(t.Context(), testlab.New(t), topo.TwoHostsOptions{UnderlayFamily: 5}); err == nil {
		t.Error("no error for family 5")
	}
}

func TestFeatures(t *testing.T) {
	t.Parallel()
	n := testlab.TwoHosts(t, topo.TwoHostsOptions{Offloads: map[string]bool{"tx-udp_tnl-segmentation": false}})
	check := func(name string, want bool) {
		t.Helper()
		features, err := n.A.Features(topo.UnderlayName)
		if err != nil || features[name] != want {
			t.Errorf("%s is %t (%v), want %t", name, features[name], err, want)
		}
	}
	check("tx-udp_tnl-segmentation", false)
	restore, err := n.A.SetFeatures(topo.UnderlayName, map[string]bool{"rx-gro": true})
	if err != nil {
		t.Fatal(err)
	}
	check("rx-gro", true)
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	check("rx-gro", false)
	for _, bad := range []string{"no-such-offload", "rx-lro"} {
		if _, err := n.A.SetFeatures(topo.UnderlayName, map[string]bool{bad: true}); err == nil || !strings.Contains(err.Error(), "hosta/u0") {
			t.Errorf("%s: error %v, want one that names hosta/u0", bad, err)
		}
	}
}

func TestBridgeNetfilter(t *testing.T) {
	t.Parallel()
	// get is how a host's bridges stand, "" without br_netfilter.
	get := func(h *topo.Host) string {
		values := make([]string, 0, 3)
		for _, key := range topo.BridgeNetfilterSysctls() {
			value, err := h.SysctlGet(key)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return strings.Join(values, "")
	}
	want := map[topo.BridgeNetfilter]string{"": "000", topo.BridgeNetfilterDefault: "111", topo.BridgeNetfilterOn: "111", topo.BridgeNetfilterOff: "000"}
	off := "000"
	if fresh := testlab.TwoHosts(t, topo.TwoHostsOptions{}); get(fresh.A) == "" {
		off, want = "", map[topo.BridgeNetfilter]string{topo.BridgeNetfilterDefault: "", topo.BridgeNetfilterOff: ""}
		_, err := topo.NewTwoHosts(t.Context(), testlab.New(t), topo.TwoHostsOptions{BridgeNetfilter: topo.BridgeNetfilterOn})
		if err == nil || !strings.Contains(err.Error(), "modprobe br_netfilter") {
			t.Errorf("on without br_netfilter: %v, want an error that names it", err)
		}
	}
	for choice, want := range want {
		n := testlab.TwoHosts(t, topo.TwoHostsOptions{BridgeNetfilter: choice})
		for h, want := range map[*topo.Host]string{n.A: want, n.B: want, n.Client: off, n.Server: off} {
			if got := get(h); got != want {
				t.Errorf("%q: %s has %q, want %q", choice, h.Name, got, want)
			}
		}
	}
	if _, err := topo.NewTwoHosts(t.Context(), testlab.New(t), topo.TwoHostsOptions{BridgeNetfilter: "yes"}); err == nil {
		t.Error(`no error for "yes"`)
	}
}

func TestPicture(t *testing.T) {
	t.Parallel()
	n := testlab.TwoHosts(t, topo.TwoHostsOptions{})
	picture := n.Picture()
	for _, want := range []string{"client --1450-- hosta ==1500== hostb --1450-- server", "client/eth0 02:00:00:00:00:01 10.0.0.1/24 fd00::1/64", n.Lab.ID} {
		if !strings.Contains(picture, want) {
			t.Errorf("no %q in\n%s", want, picture)
		}
	}
}
