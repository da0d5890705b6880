package datapath

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/overlay"
)

// PathReports is what ICMP messages of the underlay said, until DecidePath. The data path
// obeys none of it: it uses the MTUs of the tables.
func (pa *Paths) PathReports() (map[overlay.Pair]PathReport, error) {
	kept, err := pa.traffic.event(bpfEventEVENT_PATH_MTU)
	if err != nil || pa.silent.Load() == kept+1 { // as most often: this is asked for all the time, and looks through no empty table
		return nil, err
	}
	pa.silent.Store(0)
	var first bpfPathKey
	if err := pa.maps.PathReports.NextKey(nil, &first); errors.Is(err, ebpf.ErrKeyNotExist) {
		pa.silent.Store(kept + 1) // the data path makes the entry before it counts
		return nil, nil
	}
	now, err := pa.prog.kernel.Clock.Monotonic()
	if err != nil {
		return nil, err
	}
	all := make(map[overlay.Pair]PathReport)
	var old []bpfPathKey
	err = walk(pa.maps.PathReports, func(k bpfPathKey, r bpfPathReport) {
		pair := overlay.Pair{Local: addrOf(k.Local.W), Remote: addrOf(k.Remote.W)}
		_, known := pa.numbers.names.pathIDs[pair]
		age := time.Duration(since(now, r.AtNs))
		switch {
		case r.Mtu == 0 && age > reportInterval, !known:
			old = append(old, k)
		case r.Mtu != 0:
			all[pair] = PathReport{MTU: int(r.Mtu), VNIMTU: int(r.VniMtu), Age: age}
		}
	})
	if err != nil {
		return nil, err
	}
	for _, k := range old {
		if err := pa.maps.PathReports.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil, fmt.Errorf("forget a report about a path: %w", err)
		}
	}
	return all, nil
}

// reportInterval is how long the data path takes no other report about a path: PATH_REPORT_NS
// of bpf/tunnel/path_mtu.h.
const reportInterval = time.Second

// DecidePath ends a report: it was looked into, or is too old.
func (pa *Paths) DecidePath(pair overlay.Pair) error {
	k := bpfPathKey{Local: bpfAddr{W: wireAddr(pair.Local)}, Remote: bpfAddr{W: wireAddr(pair.Remote)}}
	var r bpfPathReport
	err := pa.maps.PathReports.Lookup(k, &r)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	if err == nil {
		err = pa.maps.PathReports.Put(k, bpfPathReport{AtNs: r.AtNs})
	}
	if err != nil {
		return fmt.Errorf("end the report about the path %s: %w", pair, err)
	}
	return nil
}
