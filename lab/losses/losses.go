// Package losses counts, by reason, the packets that the kernel drops in network
// namespaces: what skbs were freed for, and frames that XDP could not hand on.
//
// Its one invariant: a packet is counted where it died and nowhere else. A frame
// that a program drops on purpose (XDP_DROP) is not here; the driver counts those.
package losses

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Counts are packets by reason: "freed: NO_SOCKET", "redirect: no space left on device".
type Counts map[string]uint64

// Sum is all of them.
func (c Counts) Sum() uint64 {
	sum := uint64(0)
	for _, n := range c {
		sum += n
	}
	return sum
}

// String lists them in the order of their names.
func (c Counts) String() string {
	words := make([]string, 0, len(c))
	for _, name := range slices.Sorted(maps.Keys(c)) {
		words = append(words, fmt.Sprintf("%d %s", c[name], name))
	}
	return strings.Join(words, ", ")
}

// Since is what was added after an earlier look.
func (c Counts) Since(then Counts) Counts {
	added := Counts{}
	for name, n := range c {
		if n > then[name] {
			added[name] = n - then[name]
		}
	}
	return added
}

// Watch counts for the namespaces that it follows.
type Watch struct {
	objects lossesObjects
	links   []link.Link
	reasons map[uint32]string
}

func (w *Watch) load() (err error) {
	if w.reasons, err = dropReasons(); err != nil {
		return err
	}
	return loadLossesObjects(&w.objects, nil)
}

// Open starts to count, for nobody yet.
func Open() (*Watch, error) {
	w := &Watch{}
	if err := w.load(); err != nil {
		return nil, fmt.Errorf("programs that count losses: %w", err)
	}
	for _, program := range []*ebpf.Program{
		w.objects.Freed, w.objects.Exception, w.objects.RedirectError, w.objects.Devmap, w.objects.Bulk,
	} {
		attached, err := link.AttachTracing(link.TracingOptions{Program: program})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("count losses by %s: %w", program, err), w.Close())
		}
		w.links = append(w.links, attached)
	}
	return w, nil
}

// Close ends all counting.
func (w *Watch) Close() error {
	var errs []error
	for _, l := range w.links {
		errs = append(errs, l.Close())
	}
	w.links = nil
	return errors.Join(append(errs, w.objects.Close())...)
}

// Inode identifies the network namespace of a path such as /run/netns/NAME.
func Inode(path string) (uint32, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return 0, fmt.Errorf("network namespace %s: %w", path, err)
	}
	return uint32(stat.Ino), nil
}

// What of a namespace is counted. An XDP program that drops what was an skb has it
// freed: where one sinks all traffic, Redirects alone is quicker and says as much.
const (
	All       = true
	Redirects = false
)

// Follow counts what happens in a namespace from now on: All, or Redirects and other
// frames of XDP only.
func (w *Watch) Follow(netns uint32, what bool) error {
	if err := w.objects.Followed.Put(netns, lossesFollow{Freed: what}); err != nil {
		return fmt.Errorf("follow network namespace %d: %w", netns, err)
	}
	return nil
}

// Forget ends that, and forgets what was counted.
func (w *Watch) Forget(netns uint32) error {
	if err := w.objects.Followed.Delete(netns); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("forget network namespace %d: %w", netns, err)
	}
	var key lossesLoss
	var packets uint64
	var gone []lossesLoss
	entries := w.objects.Losses.Iterate()
	for entries.Next(&key, &packets) {
		if key.Netns == netns {
			gone = append(gone, key)
		}
	}
	err := entries.Err()
	for i := range gone {
		err = errors.Join(err, w.objects.Losses.Delete(&gone[i]))
	}
	return err
}

// Read returns what died in a namespace since it is followed.
func (w *Watch) Read(netns uint32) (Counts, error) {
	counts := Counts{}
	var key lossesLoss
	var packets uint64
	entries := w.objects.Losses.Iterate()
	for entries.Next(&key, &packets) {
		if key.Netns == netns {
			counts[w.name(key)] += packets
		}
	}
	if err := entries.Err(); err != nil {
		return nil, fmt.Errorf("read losses: %w", err)
	}
	return counts, nil
}

// name is what a reason is called in reports.
func (w *Watch) name(l lossesLoss) string {
	switch l.Cause {
	case lossesCauseCAUSE_FREED:
		return Freed + w.reason(l.Detail)
	case lossesCauseCAUSE_EXCEPTION:
		return fmt.Sprintf("exception: action %d", l.Detail)
	case lossesCauseCAUSE_REDIRECT:
		return "redirect: " + unix.Errno(l.Detail).Error()
	case lossesCauseCAUSE_DEVMAP:
		return Transmit + unix.Errno(l.Detail).Error()
	}
	return "XDP_TX: " + unix.Errno(l.Detail).Error()
}

// Beginnings of names: of packets that were freed, and of frames that the next
// interface did not take.
const (
	Freed    = "freed: "
	Transmit = "transmit: "
)

// reason names one of enum skb_drop_reason.
func (w *Watch) reason(n uint32) string {
	if name := w.reasons[n]; name != "" {
		return name
	}
	return fmt.Sprint(n)
}

// dropReasons are enum skb_drop_reason as the running kernel numbers it.
func dropReasons() (map[uint32]string, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, fmt.Errorf("type information of the kernel: %w", err)
	}
	var reasons *btf.Enum
	if err := spec.TypeByName("skb_drop_reason", &reasons); err != nil {
		return nil, fmt.Errorf("reasons for which the kernel drops: %w", err)
	}
	names := map[uint32]string{}
	for _, value := range reasons.Values {
		names[uint32(value.Value)] = strings.TrimPrefix(value.Name, "SKB_DROP_REASON_")
	}
	return names, nil
}
