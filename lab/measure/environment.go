package measure

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/cores"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
)

// offloads are the features that change what a packet path costs, by the
// kernel's names.
var offloads = []string{
	"rx-checksum", "rx-gro", "rx-gro-list", "rx-lro", "rx-udp-gro-forwarding",
	"tx-checksum-ip-generic", "tx-scatter-gather", "tx-generic-segmentation",
	"tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-udp-segmentation",
	"tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation",
}

// sysctls are what they are for offloads. Some exist for the machine alone.
var sysctls = []string{
	"net.core.bpf_jit_enable", "net.core.bpf_jit_harden", "net.core.default_qdisc",
	"net.core.netdev_budget", "net.core.netdev_max_backlog", "net.core.rmem_max", "net.core.wmem_max",
	"net.core.rps_default_mask", "net.ipv4.tcp_congestion_control", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
	"net.ipv4.tcp_timestamps", "net.ipv4.tcp_mtu_probing", "net.ipv4.ip_no_pmtu_disc", "kernel.sched_autogroup_enabled",
}

// tools are asked for their version by these arguments.
var tools = map[string][]string{
	"iperf3": {"iperf3", "--version"}, "iproute2": {"ip", "-V"}, "ovs": {"ovs-vswitchd", "--version"},
	"nft": {"nft", "--version"},
}

var versionPattern = regexp.MustCompile(`\d+(\.\d+)+`)

// Environment records what must be equal before two results may be compared,
// with the topology as it is now. version is Selvage's own. Tools that are not
// installed have no version, and sysctls that do not exist no value.
func Environment(ctx context.Context, n *topo.TwoHosts, version string) (result.Environment, error) {
	env := result.Environment{
		Cores:    cores.Count(),
		Versions: toolVersions(ctx),
		MTU: map[string]int{
			"underlay": n.Options.UnderlayMTU, "inner": n.Options.InnerMTU, "plain": n.Options.UnderlayMTU,
		},
		Sysctls: map[string]string{},
	}
	env.Versions["selvage"], env.Versions["go"] = version, strings.TrimPrefix(runtime.Version(), "go")
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return env, fmt.Errorf("kernel version: %w", err)
	}
	env.Kernel = unix.ByteSliceToString(name.Release[:])
	var err error
	if env.CPU, err = procField("/proc/cpuinfo", "model name"); err != nil {
		return env, err
	}
	if env.MemoryBytes, err = memory(); err != nil {
		return env, err
	}
	for _, key := range sysctls {
		if value, err := sysctl(n.Client, key); err == nil {
			env.Sysctls[key] = value
		}
	}
	for _, key := range topo.BridgeNetfilterSysctls() { // the hosts have the bridges; A stands for both
		if value, err := sysctl(n.A, key); err == nil {
			env.Sysctls[key] = value
		}
	}
	env.Offloads, err = Offloads(n)
	return env, err
}

// Offloads returns the offloads of the standard topology's interfaces by role:
// client, access, underlay, server. Host A stands for both.
func Offloads(n *topo.TwoHosts) (map[string]map[string]bool, error) {
	roles := map[string]map[string]bool{}
	for role, at := range map[string]struct {
		host *topo.Host
		name string
	}{
		"client": {n.Client, topo.EndName}, "server": {n.Server, topo.EndName},
		"access": {n.A, topo.AccessName}, "underlay": {n.A, topo.UnderlayName},
	} {
		features, err := at.host.Features(at.name)
		if err != nil {
			return nil, err
		}
		roles[role] = map[string]bool{}
		for _, name := range offloads {
			if on, known := features[name]; known {
				roles[role][name] = on
			}
		}
	}
	return roles, nil
}

func toolVersions(ctx context.Context) map[string]string {
	versions := map[string]string{}
	for tool, argv := range tools {
		path, err := topo.Tool(argv[0])
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, path, argv[1:]...).Output()
		if version := versionPattern.FindString(string(out)); err == nil && version != "" {
			versions[tool] = version
		}
	}
	return versions
}

// sysctl reads a sysctl as the host sees it, or else the machine's.
func sysctl(h *topo.Host, key string) (string, error) {
	if value, err := h.SysctlGet(key); err == nil {
		return value, nil
	}
	data, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(key, ".", "/"))
	return strings.TrimSpace(string(data)), err
}

func memory() (int64, error) {
	field, err := procField("/proc/meminfo", "MemTotal")
	if err != nil {
		return 0, err
	}
	kib, err := strconv.ParseInt(strings.TrimSuffix(field, " kB"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	return kib << 10, nil
}

// procField returns the value of the first line "name: value" of a file.
func procField(path, name string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("%s has no %q", path, name)
}
