package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/observe"
)

// change has the flags of every change of live objects.
type change struct {
	query
	DryRun bool `short:"n" help:"Show what would change, and what becomes of connections. Nothing changes."`
}

// do asks for operations, and prints what they did.
func (c change) do(ctx context.Context, s *streams, operations ...api.LiveOperation) error {
	question := func(client *api.Client, ctx context.Context) (api.LiveInfo, error) {
		return client.Live().Change(ctx, api.LiveQuery{Operations: operations, For: os.Getenv("SUDO_USER"), DryRun: c.DryRun})
	}
	return show(ctx, c.query, s.out, question, observe.LiveApplied)
}

// adding has the flags of what makes an object.
type adding struct {
	change
	Durable  bool `help:"Have it outlast a reboot. Without it, it outlasts a restart of the edge, and no reboot."`
	MayExist bool `help:"When it is there, have it become what is given."`
}

// add adds an object.
func (a adding) add(ctx context.Context, s *streams, kind config.Kind, key string, object map[string]any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return a.do(ctx, s, api.LiveOperation{Op: api.LiveAdd, Kind: string(kind), Key: key, Object: text, Durable: ifSet(a.Durable), MayExist: a.MayExist})
}

func ifSet(b bool) *bool {
	if !b {
		return nil
	}
	return &b
}

// setting has the flags of what changes an object.
type setting struct {
	change
	Durable   *bool  `negatable:"" help:"Have it outlast a reboot, or not."`
	IfExists  bool   `help:"When it is not there, do nothing."`
	IfVersion uint64 `placeholder:"N" help:"Only when this is its version, see selvage live."`
}

// set changes an object.
func (c setting) set(ctx context.Context, s *streams, kind config.Kind, key string, object map[string]any) error {
	if len(object) == 0 && c.Durable == nil {
		return usageError{fmt.Errorf("%s %s: say what to change", kind, key)}
	}
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return c.do(ctx, s, api.LiveOperation{
		Op: api.LiveSet, Kind: string(kind), Key: key, Object: text, Durable: c.Durable, IfExists: c.IfExists, IfVersion: c.IfVersion,
	})
}

// removing has the flags of what removes objects.
type removing struct {
	change
	IfExists  bool   `help:"When it is not there, do nothing."`
	IfVersion uint64 `placeholder:"N" help:"Only when this is its version, see selvage live."`
}

func (c removing) remove(ctx context.Context, s *streams, kind config.Kind, keys ...string) error {
	var operations []api.LiveOperation
	for _, key := range keys {
		operations = append(operations, api.LiveOperation{Op: api.LiveRemove, Kind: string(kind), Key: key, IfExists: c.IfExists, IfVersion: c.IfVersion})
	}
	return c.do(ctx, s, operations...)
}

// namedRemoval removes objects by their names.
type namedRemoval struct {
	removing
	Names []string `arg:"" name:"name" help:"Names of the objects."`
}

// showing lists live objects of a kind.
type showing struct {
	query
	Names []string `arg:"" optional:"" name:"name" help:"Names of the objects; all when left out."`
}

func (c showing) show(ctx context.Context, s *streams, kinds ...config.Kind) error {
	question := func(client *api.Client, ctx context.Context) (api.LiveList, error) {
		list, err := client.Live().List(ctx)
		list.Objects = slices.DeleteFunc(list.Objects, func(o api.LiveObject) bool {
			return len(kinds) > 0 && !slices.Contains(kinds, config.Kind(o.Kind)) || len(c.Names) > 0 && !slices.Contains(c.Names, o.Key)
		})
		for _, name := range c.Names {
			if err == nil && !slices.ContainsFunc(list.Objects, func(o api.LiveObject) bool { return o.Key == name }) {
				err = fmt.Errorf("there is no live object %q", name)
			}
		}
		return list, err
	}
	return show(ctx, c.query, s.out, question, observe.LiveObjects)
}

type liveCmd struct {
	Show  liveShowCmd  `cmd:"" default:"withargs" help:"List the objects that were added while the edge runs."`
	Apply liveApplyCmd `cmd:"" help:"Change several objects at once: all of them or none."`
}

type liveShowCmd struct{ showing }

// Run lists all live objects.
func (c *liveShowCmd) Run(ctx context.Context, s *streams) error { return c.show(ctx, s) }

type liveApplyCmd struct {
	change
	Durable bool   `help:"Have the objects outlast a reboot."`
	File    string `arg:"" help:"JSON file, or - for standard input: lists ports, segments, remotes, fdb, neighbours and groups of objects, which become what is given; or operations, as the API takes them."`
}

// Run reads a file and has its objects be there.
func (c *liveApplyCmd) Run(ctx context.Context, s *streams) error {
	text, err := c.read(s)
	if err != nil {
		return fmt.Errorf("live objects: %w", err)
	}
	operations, err := operationsOf(text)
	if err != nil {
		return usageError{fmt.Errorf("%s: %w", c.File, err)}
	}
	for i := range operations {
		if c.Durable && operations[i].Op != api.LiveRemove {
			operations[i].Durable = ifSet(true)
		}
	}
	return c.do(ctx, s, operations...)
}

func (c *liveApplyCmd) read(s *streams) ([]byte, error) {
	if c.File == "-" {
		return io.ReadAll(s.in)
	}
	return os.ReadFile(c.File)
}

// liveFile is what selvage live apply reads.
type liveFile struct {
	Operations []api.LiveOperation `json:"operations"`
	Ports      []json.RawMessage   `json:"ports"`
	Segments   []json.RawMessage   `json:"segments"`
	Remotes    []json.RawMessage   `json:"remotes"`
	FDB        []json.RawMessage   `json:"fdb"`
	Neighbours []json.RawMessage   `json:"neighbours"`
	Groups     []json.RawMessage   `json:"groups"`
}

func operationsOf(text []byte) ([]api.LiveOperation, error) {
	var f liveFile
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, err
	}
	operations := f.Operations
	for _, part := range []struct {
		kind config.Kind
		list []json.RawMessage
	}{
		{config.KindSegment, f.Segments}, {config.KindRemote, f.Remotes}, {config.KindPort, f.Ports}, {config.KindFDB, f.FDB},
		{config.KindNeighbour, f.Neighbours}, {config.KindGroup, f.Groups},
	} {
		for _, object := range part.list {
			operations = append(operations, api.LiveOperation{Op: api.LivePut, Kind: string(part.kind), Object: object})
		}
	}
	if len(operations) == 0 {
		return nil, errors.New("it has neither objects nor operations")
	}
	return operations, nil
}

// awaitUp waits until a port's interface is there and up.
func (c change) awaitUp(ctx context.Context, port string, within time.Duration) error {
	client, err := c.dial()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, within) // a question takes no longer either
	defer cancel()
	err = await.Within(ctx, within, "port "+port, func() error {
		ports, err := client.Ports(ctx)
		if err == nil && !slices.ContainsFunc(ports, func(p api.PortInfo) bool { return (p.Name == port || p.Trunk == port) && p.State == "up" }) {
			err = errors.New("not up")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("port %s is in the configuration, and not up after %s: see selvage ports", port, within)
	}
	return nil
}
