package inject

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/selvage/selvage/lab/topo"
)

// Fault is a way to kill something.
type Fault struct {
	Name   string // of the case: "link-down"
	Words  string // what is done
	inject func(context.Context) error
	mend   func(context.Context) error
}

// NewFault is a fault by a name, what is done in words, and what does and undoes it.
func NewFault(name, words string, inject, mend func(context.Context) error) Fault {
	return Fault{name, words, inject, mend}
}

// Inject does it.
func (f Fault) Inject(ctx context.Context) error {
	if err := f.inject(ctx); err != nil {
		return fmt.Errorf("inject %s: %w", f.Name, err)
	}
	return nil
}

// Mend undoes it.
func (f Fault) Mend(ctx context.Context) error {
	if err := f.mend(ctx); err != nil {
		return fmt.Errorf("mend %s: %w", f.Name, err)
	}
	return nil
}

// Steps are when the edges did what ends a fault, by their own word. A step that
// none of them tells of is zero.
type Steps struct {
	Noticed   time.Time // liveness told the last of those that had to act
	Written   time.Time // the last of them had its tables changed
	Announced time.Time // the new owner had told its network of the addresses
}

// ReadyTime bounds how long all may take to be as before. Edges hold a path back for a
// minute at most.
const ReadyTime = 75 * time.Second

// Ports are interfaces of the hosts between the edges, which can be cut.
type Ports struct {
	Host  *topo.Host
	Names []string
}

// Down cuts the links: both ends see that.
func (p Ports) Down(context.Context) error {
	var errs []error
	for _, name := range p.Names {
		errs = append(errs, p.Host.Down(name))
	}
	return errors.Join(errs...)
}

// Up joins them again.
func (p Ports) Up(context.Context) error {
	var errs []error
	for _, name := range p.Names {
		errs = append(errs, p.Host.Up(name))
	}
	return errors.Join(errs...)
}

// holeTable is the table of nftables that a black hole is.
const holeTable = "hole"

// BlackHole returns faults' two halves: the host drops what it forwards from and to the
// ports, whose links stay up. family is "inet" for a router and "bridge" for a switch.
func (p Ports) BlackHole(family string) (dig, fill func(context.Context) error) {
	rules := fmt.Sprintf("table %s %s {\n\tchain forward {\n\t\ttype filter hook forward priority 0;\n", family, holeTable)
	for _, name := range p.Names {
		rules += fmt.Sprintf("\t\tiifname %s drop\n\t\toifname %s drop\n", name, name)
	}
	rules += "\t}\n}\n"
	return func(ctx context.Context) error { return p.Host.Nft(ctx, holeTable, rules) },
		func(ctx context.Context) error {
			_, err := p.Host.Output(ctx, "nft", "delete table "+family+" "+holeTable)
			return err
		}
}
