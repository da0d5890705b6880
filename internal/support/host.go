package support

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/datapath/inventory"
	"github.com/selvage/selvage/internal/doctor"
)

// mostInterfaces are looked at one by one.
const mostInterfaces = 24

// doctorTime is how long the doctor may take.
const doctorTime = 12 * time.Second

// hostCommands are what the host is asked, by the name of the item.
var hostCommands = [][]string{
	{"uname.txt", "uname", "-a"},
	{"uptime.txt", "uptime"},
	{"ip-link.json", "ip", "-s", "-d", "-j", "link"},
	{"ip-address.json", "ip", "-j", "address"},
	{"ip-rule.json", "ip", "-j", "rule"},
	{"ip-rule6.json", "ip", "-6", "-j", "rule"},
	{"tc-qdisc.txt", "tc", "-s", "qdisc"},
	{"systemd-units.txt", "systemctl", "--no-pager", "list-units", "selvage*"},
	{"loaded-modules.txt", "lsmod"},
	{"processes.txt", "ps", "-eo", "pid,ppid,stat,ni,rtprio,psr,rss,etime,comm", "--sort=-rss"},
	{"sockets.txt", "ss", "-s"},
	{"memory.txt", "free", "-m"},
}

// cutCommands are those whose answers may be as large as a routing table: lines after so many are left out, and so is their
// command when they do not end.
var cutCommands = [][]string{
	{"ip-route.txt", "ip", "-4", "route", "show", "table", "all"},
	{"ip-route6.txt", "ip", "-6", "route", "show", "table", "all"},
	{"nft-ruleset.txt", "nft", "-t", "list", "ruleset"},
	{"ip-neighbour.txt", "ip", "-s", "neigh"},
}

const mostLines = 2000

// hostFiles are read whole.
var hostFiles = []string{
	"/etc/os-release", "/proc/version", "/proc/cmdline", "/proc/cpuinfo", "/proc/meminfo", "/proc/loadavg", "/proc/stat", "/proc/softirqs",
	"/proc/interrupts", "/proc/net/softnet_stat", "/proc/net/snmp", "/proc/net/snmp6", "/proc/net/netstat", "/proc/net/dev", "/proc/net/sockstat",
	"/proc/pressure/cpu", "/proc/pressure/memory", "/proc/vmstat",
}

// sysctls are those that matter for an overlay; * stands for a part of a name.
var sysctls = []string{
	"kernel/bpf_stats_enabled", "kernel/unprivileged_bpf_disabled", "kernel/sched_rt_runtime_us", "net/core/*", "net/ipv4/conf/*/forwarding",
	"net/ipv4/conf/*/rp_filter", "net/ipv4/conf/*/arp_*", "net/ipv4/ip_forward", "net/ipv4/neigh/default/*", "net/ipv6/conf/*/forwarding",
	"net/ipv6/conf/*/disable_ipv6", "net/ipv6/neigh/default/*", "net/bridge/*", "net/netfilter/nf_conntrack_*", "net/unix/*", "vm/min_free_kbytes",
}

// host adds what the host and its kernel are like.
func (c *collector) host() {
	for _, command := range hostCommands {
		c.command("host/"+command[0], command[1:]...)
	}
	for _, command := range cutCommands {
		_ = c.do("host/"+command[0], strings.Join(command[1:], " "), commandTime, func(ctx context.Context) ([]byte, error) {
			return cut(output(ctx, command[1:]))
		})
	}
	for _, path := range hostFiles {
		c.file("host/"+strings.ReplaceAll(strings.Trim(path, "/"), "/", "-")+".txt", path)
	}
	_ = c.do("host/sysctls.txt", "/proc/sys", 3*time.Second, readSysctls)
	_ = c.do("host/bpf.json", "BPF programs and maps", 5*time.Second, func(ctx context.Context) ([]byte, error) {
		inv, err := inventory.Read(ctx)
		return indented(inv, err)
	})
	for _, name := range interfaces() {
		for _, flag := range []string{"-k", "-i", "-g", "-S"} { // of a device without rings -g fails, which says that
			c.command("host/ethtool/"+name+flag+".txt", "ethtool", flag, name)
		}
	}
}

// doctor adds what the doctor finds.
func (c *collector) doctor(runtimeDir string) {
	_ = c.do("doctor.json", "selvage doctor -o json", doctorTime, func(ctx context.Context) ([]byte, error) {
		report, err := doctor.Examine(ctx, doctor.Options{RuntimeDir: runtimeDir})
		return indented(report, err)
	})
}

func indented(document any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(document, "", "  ")
}

// cut leaves lines after the first ones out.
func cut(text []byte, err error) ([]byte, error) {
	lines := strings.SplitAfter(string(text), "\n")
	if len(lines) <= mostLines {
		return text, err
	}
	return fmt.Appendf([]byte(strings.Join(lines[:mostLines], "")), "… %d lines more\n", len(lines)-mostLines), err
}

func readSysctls(ctx context.Context) ([]byte, error) {
	var out strings.Builder
	for _, pattern := range sysctls {
		paths, err := filepath.Glob("/proc/sys/" + pattern)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if ctx.Err() != nil || out.Len() > mostItem {
				return []byte(out.String()), ctx.Err()
			}
			if value, err := readFile(path); err == nil {
				fmt.Fprintf(&out, "%s = %s\n", strings.ReplaceAll(strings.TrimPrefix(path, "/proc/sys/"), "/", "."), strings.Join(strings.Fields(string(value)), " "))
			}
		}
	}
	return []byte(out.String()), nil
}

// interfaces are those with hardware first, then others, without loopback.
func interfaces() (names []string) {
	list, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var others []string
	for _, one := range list {
		_, err := os.Stat(filepath.Join("/sys/class/net", one.Name, "device"))
		switch {
		case one.Flags&net.FlagLoopback != 0:
		case err == nil:
			names = append(names, one.Name)
		default:
			others = append(others, one.Name)
		}
	}
	names = slices.Concat(names, others)
	return names[:min(len(names), mostInterfaces)]
}
