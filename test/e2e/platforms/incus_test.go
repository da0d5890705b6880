package platforms

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// The script for Incus makes the port and names the instance's interface: when Incus makes a pair of that name, as it
// does for nictype p2p at each start, the port is up. Incus itself does not run here: a program in its place writes
// down what it is told.
func TestIncus(t *testing.T) {
	t.Parallel()
	n := harness.NewUnderlay(t, picture, 2, 4)
	blue2 := n.Guest("blue2", 0, 2, n.Hosts[1], "r0", 1450)
	const segments = "  segments: [{name: web, vni: 100, remotes: REMOTES}]\n"
	n.EdgesUp(segments, segments+"  ports: [{name: r0, interface: r0, segment: web}]\n")
	dir := t.TempDir()
	told := filepath.Join(dir, "told")
	for name, text := range map[string]string{
		"incus":   "#!/bin/sh\necho \"$@\" >>" + told + "\n",
		"selvage": fmt.Sprintf("#!/bin/sh\nexec %s \"$@\" --edge %s\n", harness.Program, n.Edges["edge1"].Name),
	} {
		n.Must(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	for range 2 { // again, as after a change
		add := n.Hosts[0].Command(n.Ctx, deploy+"/incus/add", "web1", "web", "10.0.0.1")
		add.Env = []string{"INCUS=" + filepath.Join(dir, "incus"), "SELVAGE=" + filepath.Join(dir, "selvage")}
		if _, err := add.Output(); err != nil {
			n.Fail("the script makes a port", err)
		}
	}
	text, err := os.ReadFile(told)
	n.Must(err)
	words := strings.Fields(strings.Split(string(text), "\n")[0])
	var name string
	var mac net.HardwareAddr
	for _, word := range words {
		if value, is := strings.CutPrefix(word, "host_name="); is {
			name = value
		}
		if value, is := strings.CutPrefix(word, "hwaddr="); is {
			mac, err = net.ParseMAC(value)
			n.Must(err)
		}
	}
	if strings.Join(words[:5], " ") != "config device override web1 eth0" || name != "web1" || mac == nil {
		t.Fatalf("incus is told %s", text)
	}
	n.Fact("the port waits", func() error { return n.PortState("edge1", "web1", "absent") })
	instance := n.Host("instance")
	for range 2 { // a start, and another one
		n.Must(n.Topo.Link(n.Ctx, topo.LinkEnd{Host: instance, Name: topo.EndName, MAC: mac, Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}},
			topo.LinkEnd{Host: n.Hosts[0], Name: name}, 1450))
		n.Fact("the instance pings blue2", func() error { return harness.Ping(n.Ctx, instance, blue2.Addr(4)) })
		n.Must(n.Hosts[0].Delete(name))
		n.Fact("the port waits again", func() error { return n.PortState("edge1", "web1", "absent") })
	}
	n.Prints([]string{"port"}, "web1 ")
	n.Once("the port goes", func() error {
		_, err := n.Asks("port", "remove", "web1")
		return err
	})
}

// The profile is what Incus reads: a nic without a bridge.
func TestIncusProfile(t *testing.T) {
	text, err := os.ReadFile(deploy + "/incus/profile.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var profile struct {
		Description string
		Devices     map[string]map[string]string
	}
	if err := yaml.UnmarshalWithOptions(text, &profile, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if nic := profile.Devices["eth0"]; nic["type"] != "nic" || nic["nictype"] != "p2p" || nic["parent"] != "" || nic["network"] != "" {
		t.Error(errors.New("it is no nic of type p2p"), nic)
	}
}
