package kernel

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

type hostLinker struct{}

// hostLink is a link of the kernel.
type hostLink struct{ link.Link }

// Update implements Link.
func (l hostLink) Update(p Program) error { return l.Link.Update(HostProgram(p)) }

// Info implements Link.
func (l hostLink) Info() (LinkInfo, error) {
	info, err := l.Link.Info()
	if err != nil {
		return LinkInfo{}, err
	}
	i := LinkInfo{ID: info.ID}
	switch info.Type {
	case link.XDPType:
		if xdp := info.XDP(); xdp != nil {
			i.Attach, i.Ifindex = ebpf.AttachXDP, int(xdp.Ifindex)
		}
	case link.TCXType:
		if tcx := info.TCX(); tcx != nil {
			i.Attach, i.Ifindex = ebpf.AttachType(tcx.AttachType), int(tcx.Ifindex)
		}
	case link.RawTracepointType, link.TracingType: // kernels make either of programs tp_btf
		i.Attach = ebpf.AttachTraceRawTp
	}
	return i, nil
}

func hostLinkOf(l link.Link, err error) (Link, error) {
	if err != nil {
		return nil, err
	}
	return hostLink{l}, nil
}

// AttachTCX implements Linker.
func (hostLinker) AttachTCX(ifindex int, p Program, before link.ID) (Link, error) {
	opts := link.TCXOptions{Interface: ifindex, Program: HostProgram(p), Attach: ebpf.AttachTCXIngress}
	if before != 0 {
		opts.Anchor = link.BeforeLinkByID(before)
	}
	return hostLinkOf(link.AttachTCX(opts))
}

// AttachXDP implements Linker.
func (hostLinker) AttachXDP(ifindex int, p Program, mode link.XDPAttachFlags) (Link, error) {
	return hostLinkOf(link.AttachXDP(link.XDPOptions{Interface: ifindex, Program: HostProgram(p), Flags: mode}))
}

// AttachTracing implements Linker.
func (hostLinker) AttachTracing(p Program) (Link, error) {
	return hostLinkOf(link.AttachTracing(link.TracingOptions{Program: HostProgram(p)}))
}

// PinnedLink implements Linker.
func (hostLinker) PinnedLink(path string) (Link, error) {
	return hostLinkOf(link.LoadPinnedLink(path, nil))
}

// Attached implements Linker.
func (hostLinker) Attached(ifindex int) ([]link.ID, error) {
	found, err := link.QueryPrograms(link.QueryOptions{Target: ifindex, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		return nil, err
	}
	var ids []link.ID
	for _, p := range found.Programs {
		if id, ok := p.LinkID(); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
