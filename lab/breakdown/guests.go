package breakdown

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf/link"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/lab/losses"
)

// Points of guests: a packet leaves its sender's stack, and its receiver's socket has it.
const (
	pointLeaves = datapath.Point(guestsPointPOINT_LEAVES)
	pointReady  = datapath.Point(guestsPointPOINT_READY)
)

// Guests are stamps of the stacks in network namespaces.
type Guests struct {
	*datapath.Stamps

	objects guestsObjects
	links   []link.Link
}

// WatchGuests begins to stamp in namespaces, given as paths such as /run/netns/NAME. Those
// of the hosts between guests belong to them: every packet that is sent anywhere costs a
// little meanwhile, and a stamp tells where.
func WatchGuests(namespaces ...string) (*Guests, error) {
	g := &Guests{}
	if err := g.open(namespaces); err != nil {
		return nil, errors.Join(fmt.Errorf("stamps of guests: %w", err), g.Close())
	}
	return g, nil
}

func (g *Guests) open(namespaces []string) error {
	spec, err := loadGuests()
	if err != nil {
		return err
	}
	if err := datapath.TakeStamps(spec); err != nil {
		return err
	}
	if err := spec.LoadAndAssign(&g.objects, nil); err != nil {
		return err
	}
	for _, path := range namespaces {
		inode, err := losses.Inode(path)
		if err != nil {
			return err
		}
		if err := g.objects.Followed.Put(inode, uint32(1)); err != nil {
			return fmt.Errorf("follow %s: %w", path, err)
		}
	}
	if g.Stamps, err = datapath.NewStamps(g.objects.Stamps, g.objects.Stamped); err != nil {
		return err
	}
	for _, program := range []link.TracingOptions{{Program: g.objects.Leaves}, {Program: g.objects.Ready}} {
		l, err := link.AttachTracing(program)
		if err != nil {
			return fmt.Errorf("attach %s: %w", program.Program, err)
		}
		g.links = append(g.links, l)
	}
	return nil
}

// Close ends it.
func (g *Guests) Close() error {
	var errs []error
	for _, l := range g.links {
		errs = append(errs, l.Close())
	}
	g.links = nil
	return errors.Join(append(errs, g.objects.Close())...)
}
