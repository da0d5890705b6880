package nodes

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// Ports of a node that lead to a pod answer whoever asks, as portmap and kube-proxy make them, whether or not a policy selects who asks,
// or the pod.
func TestPortsOfNode(t *testing.T) {
	t.Parallel()
	b := newCluster(t)
	defer b.dump()
	node := b.Hosts[0]
	pods := []harness.Guest{b.db1, b.web1}
	for i, pod := range pods {
		b.Mirror(pod.Host)
		b.portmap(node, pod, 8080+i)
	}
	b.kubeProxy(node, pods)
	b.Must(node.Do(b.steerer().Setup))
	b.Must(node.Do(func() error { return b.steerer().Apply(b.Ctx, nil, nil) }))
	if out, err := node.Output(b.Ctx, "ip", "rule"); err != nil || strings.Contains(string(out), "\n90:") {
		t.Errorf("without a policy there is a rule: %s %v", out, err)
	}
	b.portsAnswer("without a policy", pods)
	b.up()
	b.leaves(b.web1, "tcp", harness.Outside4, egress4)
	b.portsAnswer("with one that selects web1 and web2", pods)
}

// portmap gives a pod a port of its node, as a container runtime does for hostPort.
func (b *cluster) portmap(node *topo.Host, pod harness.Guest, port int) {
	b.T.Helper()
	c := node.Command(b.Ctx, filepath.Join(debianPlugins, "portmap"))
	c.Env = []string{"CNI_COMMAND=ADD", "CNI_CONTAINERID=c-" + pod.Name, "CNI_NETNS=" + pod.Path(), "CNI_IFNAME=eth0", "CNI_PATH=" + debianPlugins, "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	c.Stdin = strings.NewReader(fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "pods", "type": "portmap", "snat": true, "capabilities": {"portMappings": true},
	"runtimeConfig": {"portMappings": [{"hostPort": %d, "containerPort": %d, "protocol": "tcp"}]},
	"prevResult": {"cniVersion": "1.0.0", "interfaces": [{"name": "cni0"}, {"name": "eth0", "sandbox": %q}], "ips": [{"address": "%s/24", "interface": 1}]}}`,
		port, harness.MirrorPort, pod.Path(), pod.Addr(4)))
	if out, err := c.Output(); err != nil {
		b.T.Fatalf("portmap: %v: %s", err, out)
	}
}

// kubeProxy has services of type NodePort, each of one pod, as kube-proxy writes them: pkg/proxy/iptables.
func (b *cluster) kubeProxy(node *topo.Host, pods []harness.Guest) {
	b.T.Helper()
	text := `*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
`
	for i, pod := range pods {
		text += strings.NewReplacer("NAME", pod.Name, "@POD", pod.Addr(4).String(), "@OUTER", fmt.Sprint(30080+i), "@INNER", fmt.Sprint(harness.MirrorPort)).Replace(`:KUBE-EXT-NAME - [0:0]
:KUBE-SVC-NAME - [0:0]
:KUBE-SEP-NAME - [0:0]
-A KUBE-NODEPORTS -p tcp -m tcp --dport @OUTER -j KUBE-EXT-NAME
-A KUBE-EXT-NAME -m comment --comment "masquerade traffic for external destinations" -j KUBE-MARK-MASQ
-A KUBE-EXT-NAME -j KUBE-SVC-NAME
-A KUBE-SVC-NAME -j KUBE-SEP-NAME
-A KUBE-SEP-NAME -s @POD/32 -j KUBE-MARK-MASQ
-A KUBE-SEP-NAME -p tcp -m tcp -j DNAT --to-destination @POD:@INNER
`)
	}
	text += `-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
COMMIT
`
	c := node.Command(b.Ctx, "iptables-restore", "--noflush")
	c.Stdin = strings.NewReader(text)
	if out, err := c.Output(); err != nil {
		b.T.Fatalf("iptables-restore: %v: %s", err, out)
	}
}

// portsAnswer is facts: each asks each of the node's ports.
func (b *cluster) portsAnswer(when string, pods []harness.Guest) {
	b.T.Helper()
	own, local := b.Tep(1), netip.MustParseAddr("127.0.0.1")
	for _, from := range []*topo.Host{b.db1.Host, b.web1.Host, b.web2.Host, b.Hosts[0], b.Hosts[1]} {
		for i := range pods {
			to := []netip.AddrPort{netip.AddrPortFrom(own, uint16(8080+i)), netip.AddrPortFrom(own, uint16(30080+i))}
			if from == b.Hosts[0] {
				to = append(to, netip.AddrPortFrom(local, uint16(8080+i)))
			}
			for _, to := range to {
				b.Fact(fmt.Sprintf("%s: %s reaches %s of the node, pod %s", when, from.Name, to, pods[i].Name), func() error {
					_, err := harness.Mirrored(from, "tcp", 0, to)
					return err
				})
			}
		}
	}
}
