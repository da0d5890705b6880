package kubelets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/test/apiserver"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// apiService is the address of the service "kubernetes", which each node has and passes on.
var apiService = netip.MustParseAddrPort("10.96.0.1:443")

// node is a container runtime and a kubelet, in a network namespace, and in mount and PID namespaces of their own: what they leave goes
// with the first process.
type node struct {
	*topo.Host
	name   string
	number int
	dir    string
	group  string // of the pods' control groups
	run    *topo.Command
}

// script is what the first process of a node does. What a node has in the file system is below its own folder.
const script = `set -e
mount --make-rshared /
mount --bind DIR/run /run
mount --bind DIR/lib /var/lib
mount --bind DIR/log /var/log
mount -t bpf bpf /sys/fs/bpf
containerd --config DIR/containerd.toml >DIR/containerd.log 2>&1 &
until ctr version >/dev/null 2>&1; do sleep 0.2; done
for image in IMAGES; do ctr -n k8s.io images import $image >>DIR/images.log 2>&1; done
KUBELET --config DIR/kubelet.yaml --kubeconfig DIR/kubeconfig --hostname-override NAME --node-ip ADDRESS --cert-dir /var/lib/kubelet/pki --v=2 >DIR/kubelet.log 2>&1 &
wait
`

const containerdConfig = `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "` + pauseImage + `"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/var/lib/cni-bin"
conf_dir = "/var/lib/cni-conf"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
`

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupRoot: /%s
enforceNodeAllocatable: []
evictionHard: {memory.available: 1Mi, nodefs.available: 1%%, imagefs.available: 1%%}
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
oomScoreAdj: 0
volumePluginDir: /var/lib/kubelet/volumeplugins
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
`

// bridge is the node's own CNI configuration, to which the chart's plugin comes.
const bridge = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "ipam": {"type": "host-local",
    "ranges": [[{"subnet": "%s"}], [{"subnet": "%s"}]], "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}}
]}
`

func podNetwork(number, family int) netip.Prefix {
	return netip.PrefixFrom(harness.SubnetAddr(number, 0, family), map[int]int{4: 24, 6: 64}[family])
}

// prepare writes what a node begins with.
func (n *node) prepare() error {
	var errs []error
	for _, dir := range []string{"run", "log", "lib/cni-bin", "lib/cni-conf", "lib/kubelet"} {
		errs = append(errs, os.MkdirAll(filepath.Join(n.dir, dir), 0o755))
	}
	write := func(name, text string) {
		errs = append(errs, os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600))
	}
	write("containerd.toml", containerdConfig)
	write("kubelet.yaml", fmt.Sprintf(kubeletConfig, n.group))
	write("lib/cni-conf/10-pods.conflist", fmt.Sprintf(bridge, podNetwork(n.number, 4), podNetwork(n.number, 6)))
	for _, plugin := range []string{"bridge", "host-local", "loopback"} {
		content, err := os.ReadFile(filepath.Join("/usr/lib/cni", plugin))
		errs = append(errs, err, os.WriteFile(filepath.Join(n.dir, "lib/cni-bin", plugin), content, 0o755))
	}
	return errors.Join(append(errs, n.makeGroups())...)
}

// groups are the node's control groups, one below each controller.
func (n *node) groups() (list []string) {
	all, _ := filepath.Glob("/sys/fs/cgroup/*/tasks") // the pattern is right
	for _, tasks := range all {
		list = append(list, filepath.Join(filepath.Dir(tasks), n.group))
	}
	return list
}

func (n *node) makeGroups() error {
	var errs []error
	for _, group := range n.groups() {
		errs = append(errs, os.Mkdir(group, 0o755))
		for _, of := range []string{"cpuset.cpus", "cpuset.mems"} {
			above, err := os.ReadFile(filepath.Join(filepath.Dir(group), of))
			if err == nil {
				errs = append(errs, os.WriteFile(filepath.Join(group, of), above, 0o644))
			}
		}
	}
	return errors.Join(errs...)
}

// removeGroups removes them, the deepest first; nothing runs in them any more.
func (n *node) removeGroups() error {
	var errs []error
	made, _ := filepath.Glob("/sys/fs/cgroup/*/" + n.group) // with those that programs have made in cgroup2; the pattern is right
	for _, group := range made {
		var dirs []string
		_ = filepath.WalkDir(group, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		slices.Reverse(dirs)
		for _, dir := range dirs {
			if err := os.Remove(dir); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// start runs the node, with images of these files.
func (b *cluster) start(n *node, images []string) {
	b.T.Helper()
	kubelet, err := apiserver.Program(b.Ctx, "kubelet")
	b.Must(err)
	b.Must(apiserver.WriteKubeconfig(filepath.Join(n.dir, "kubeconfig"), b.server.Admin()))
	text, err := os.ReadFile(filepath.Join(n.dir, "kubeconfig"))
	b.Must(err)
	b.Must(os.WriteFile(filepath.Join(n.dir, "kubeconfig"), []byte(strings.ReplaceAll(string(text), b.server.Address(), apiService.String())), 0o600))
	b.passOn(n)
	lines := strings.NewReplacer("DIR", n.dir, "IMAGES", strings.Join(images, " "), "KUBELET", kubelet, "NAME", n.name, "ADDRESS", b.Tep(n.number).String()).Replace(script)
	n.run = n.Command(b.Ctx, "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", lines)
	n.run.Log = filepath.Join(n.dir, "node.log")
	b.Must(n.run.Start())
}

// end ends all that runs on a node, at once.
func (n *node) end() {
	if n.run != nil {
		n.run.Kill()
	}
}

// remove ends the node and what is left of it.
func (n *node) remove(b *cluster) {
	n.end()
	if err := await.That(context.WithoutCancel(b.Ctx), "control groups of "+n.name+" are gone", n.removeGroups); err != nil {
		b.T.Error(err)
	}
}

// passOn has the node listen as the API server, for its own programs and its pods.
func (b *cluster) passOn(n *node) {
	b.T.Helper()
	b.Must(n.AddAddr("lo", netip.PrefixFrom(apiService.Addr(), 32)))
	b.Must(n.Do(func() error {
		l, err := net.Listen("tcp", apiService.String())
		if err != nil {
			return err
		}
		b.T.Cleanup(func() { l.Close() })
		go func() {
			for {
				from, err := l.Accept()
				if err != nil {
					return
				}
				go relay(from, b.server.Address())
			}
		}()
		return nil
	}))
}

func relay(from net.Conn, address string) {
	defer from.Close()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	done := make(chan struct{}, 2)
	pump := func(to, from net.Conn) {
		_, _ = to.(*net.TCPConn).ReadFrom(from)
		done <- struct{}{}
	}
	go pump(to, from)
	go pump(from, to)
	<-done
}

// within runs a function in the network namespace of a pod of the node. Sockets that it opens stay there.
func (n *node) within(pod string, do func() error) error {
	pid, err := n.process(pod)
	if err != nil {
		return err
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return err
	}
	defer ns.Close()
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends, and goes to no other's work
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			ended <- fmt.Errorf("enter pod %s: %w", pod, err)
			return
		}
		ended <- do()
	}()
	return <-ended
}

// process is one of a pod, by its UID.
func (n *node) process(pod string) (pid int, err error) {
	err = filepath.WalkDir(filepath.Join("/sys/fs/cgroup/pids", n.group), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" || !strings.Contains(path, "/pod"+pod+"/") || pid != 0 {
			return err
		}
		text, err := os.ReadFile(path)
		if first, _, _ := strings.Cut(string(text), "\n"); err == nil && first != "" {
			pid, err = strconv.Atoi(first)
		}
		return err
	})
	if err == nil && pid == 0 {
		err = fmt.Errorf("pod %s has no process on %s", pod, n.name)
	}
	return pid, err
}
