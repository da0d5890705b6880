package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the formats that are made
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

const (
	maintainer = "Selvage maintainers <maintainers@selvage.dev>"
	homepage   = "https://github.com/selvage/selvage"
	registry   = "ghcr.io/selvage/" // as the chart's values.yaml says
)

// about is what the packages and images of a program say of it.
var about = map[string]struct{ summary, text string }{
	"selvage": {
		"Overlay network edge in eBPF",
		"Selvage connects the workloads of a host (veth, tap, network adapters) to\n" +
			"segments that span hosts, by VXLAN, Geneve or NVGRE tunnels. Its data path is\n" +
			"eBPF in tc and XDP: switching, routing, a stateful firewall, NAT and egress\n" +
			"gateways. It speaks BGP EVPN.",
	},
	"selvage-lab": {
		"Measures what overlay networks cost",
		"The lab builds networks in namespaces, or uses those that exist, and measures\n" +
			"throughput, latency, loss and CPU time of data paths side by side: a plain\n" +
			"bridge, the kernel's VXLAN, Open vSwitch, Selvage. It writes reports.",
	},
	"selvage-kube": {summary: "Egress addresses for pods of a Kubernetes cluster: controller, agent and CNI plugin"},
}

func (s source) writePackage(out, format, program, arch string, contents files.Contents) error {
	info := s.info(format, program, arch, contents)
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	path := filepath.Join(out, packager.ConventionalFileName(info))
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := packager.Package(info, f); err != nil {
		return err
	}
	return f.Close()
}

func (s source) info(format, program, arch string, contents files.Contents) *nfpm.Info {
	info := &nfpm.Info{
		Name: program, Arch: arch, Platform: "linux", Version: s.version, VersionSchema: "none",
		Section: "net", Priority: "optional", Maintainer: maintainer, Vendor: "Selvage", Homepage: homepage, License: "Apache-2.0",
		Description: strings.ToLower(about[program].summary[:1]) + about[program].summary[1:] + "\n" + about[program].text,
		MTime:       s.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Contents: copies(contents, format),
			Umask:    0o022,
			Deb:      nfpm.Deb{Compression: "gzip:9"},
			RPM: nfpm.RPM{
				Summary: about[program].summary, Group: "System Environment/Daemons", Packager: maintainer,
				BuildHost: "localhost", Compression: "zstd",
			},
		},
	}
	if format == "rpm" {
		info.Description, info.Release = about[program].text, "1"
		info.License = ourLicense
	}
	switch program {
	case "selvage":
		s.edge(info)
	case "selvage-lab":
		s.lab(info, format)
	}
	return info
}

// copies are the contents of a format: what it is made of is changed while it is made.
func copies(contents files.Contents, format string) (list files.Contents) {
	for _, c := range contents {
		if c.Packager == "" || c.Packager == format {
			one, fileInfo := *c, *c.FileInfo
			one.FileInfo = &fileInfo
			if format == "rpm" && c.Type == "" && isDoc(c.Destination) {
				one.Type = files.TypeRPMDoc
			}
			list = append(list, &one)
		}
	}
	return list
}

// edge adds what the package of the edge is and does besides.
func (s source) edge(info *nfpm.Info) {
	scripts := filepath.Join(s.root, "deploy/packages/scripts")
	info.Suggests = []string{"selvage-lab"}
	info.Scripts = nfpm.Scripts{
		PostInstall: filepath.Join(scripts, "postinst"),
		PreRemove:   filepath.Join(scripts, "prerm"),
		PostRemove:  filepath.Join(scripts, "postrm"),
	}
}

// lab adds what the lab needs: its program of edges of the same build, and what it measures with.
func (s source) lab(info *nfpm.Info, format string) {
	if format == "deb" {
		info.Depends = []string{fmt.Sprintf("selvage (= %s)", s.version)}
		info.Recommends = []string{"iperf3", "ethtool", "iproute2", "procps"}
		info.Suggests = []string{"openssh-client", "openvswitch-switch", "frr", "postgresql", "tcpdump"}
		return
	}
	info.Depends = []string{fmt.Sprintf("selvage = %s-1", s.version)}
	info.Recommends = []string{"iperf3", "ethtool", "iproute", "procps-ng"}
	info.Suggests = []string{"openssh-clients", "openvswitch", "frr", "postgresql-server", "tcpdump"}
}

// isDoc says whether rpm --excludedocs leaves a file out.
func isDoc(path string) bool {
	return strings.HasPrefix(path, "/usr/share/doc/") || strings.HasPrefix(path, "/usr/share/man/")
}
