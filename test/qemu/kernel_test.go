package qemu

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/test/debian"
	"github.com/selvage/selvage/test/tier"
)

// ports are two veths, of which one is the underlay's.
const ports = `set -e
for name in u0 p0; do
	ip link add $name type veth peer name ${name}x
	ip link set $name up
	ip link set ${name}x up
done
ip addr add 192.0.2.1/24 dev u0`

const plain = `apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: a}
spec:
  underlay: {interfaces: [u0], tep: 192.0.2.1}
  segments: [{name: blue, vni: 100}]
  ports: [{name: p0, interface: p0, segment: blue}]
`

// Linux 6.1 is refused in one line that says why, and nothing is left: no pin, no program.
func TestRefusedKernel(t *testing.T) {
	tier.Long(t, "TestUnsupportedKernel, without such a kernel")
	m := debian.VM(t, debian.Options{Recipe: recipe("bookworm"), Files: programs(t)})
	release := m.Must("uname -r")
	if !strings.HasPrefix(release, "6.1.") {
		t.Fatalf("the machine has Linux %s", release)
	}
	m.Must(ports)
	m.Put("/root/a.yaml", plain)
	m.Must("selvage check /root/a.yaml")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := m.Run(ctx, "exec timeout 45 selvage edge -c /root/a.yaml")
	if err == nil || r.Status != 1 {
		t.Errorf("exit status %d, %v", r.Status, err)
	}
	last := r.Err[strings.LastIndexByte(r.Err, '\n')+1:]
	for _, want := range []string{"Linux " + release + ", is not supported", "Linux 6.6 or newer", "open-coded iterators", "tcx"} {
		if !strings.Contains(last, want) {
			t.Errorf("%q is not in the last line of\n%s", want, r.Err)
		}
	}
	if left := m.Must("ls -A /sys/fs/bpf; ip -d link | grep -o 'prog/.*'; true"); left != "" {
		t.Errorf("left:\n%s", left)
	}
	if r, err := m.Run(t.Context(), "selvage doctor"); err != nil || !strings.Contains(r.Out, "Linux "+release) {
		t.Errorf("the doctor, which needs no such kernel: %+v", r)
	}
}

// full has a firewall and NAT, which make the largest programs.
const full = `apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: a}
spec:
  underlay: {interfaces: [u0], tep: 192.0.2.1}
  segments:
  - {name: blue, vni: 100, gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00::fe/64"]}}
  routers:
  - name: tenant
    uplinks: [{name: wan, interface: w0, addresses: [203.0.113.2/24], nat: {masquerade: true}}]
  ports: [{name: p0, interface: p0, segment: blue}]
  firewall: {default: drop}
`

// An edge with everything starts on Debian 13's kernel.
func TestOldestTestedKernel(t *testing.T) {
	tier.Long(t, "TestEveryCombinationVerifies, on the kernel that there is")
	m := debian.VM(t, debian.Options{Recipe: recipe("trixie"), Files: programs(t)})
	t.Logf("Linux %s", m.Must("uname -r"))
	m.Must(strings.Replace(ports, "u0 p0", "u0 p0 w0", 1))
	for name, config := range map[string]string{"a port": plain, "firewall and NAT": full} {
		t.Run(name, func(t *testing.T) {
			m := m.In(t)
			m.Put("/root/a.yaml", config)
			m.Must("selvage check /root/a.yaml && (selvage edge --remove-at-exit -c /root/a.yaml >/root/log 2>&1 & echo $! >/root/pid)")
			m.Fact("the edge has started", "grep -F 'edge started' /root/log || { tail -n 3 /root/log; false; }")
			m.Must("kill $(cat /root/pid)")
			m.Fact("the edge is gone", "! kill -0 $(cat /root/pid)")
		})
	}
}
