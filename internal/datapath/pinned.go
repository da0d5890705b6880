package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// Pinned is how many programs of each edge are attached to interfaces by pins below pinRoot,
// "" for DefaultPinRoot. They take packets whether or not the edge's process runs. A
// directory that is not there, or that this user may not read, has none.
func Pinned(pinRoot string) (map[string]int, error) {
	if pinRoot == "" {
		pinRoot = DefaultPinRoot
	}
	edges, err := os.ReadDir(pinRoot)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the pins: %w", err)
	}
	programs := make(map[string]int)
	for _, e := range edges {
		links := filepath.Join(pinRoot, e.Name(), "links")
		pins, err := os.ReadDir(links)
		if err != nil { // not of an edge
			continue
		}
		for _, pin := range pins {
			if takesPackets(links, pin.Name()) {
				programs[e.Name()]++
			}
		}
	}
	return programs, nil
}

// takesPackets reports whether a pin keeps a program at an interface that is there.
func takesPackets(dir, name string) bool {
	h, ok := parseHook(name)
	if !ok || h.ifindex == 0 || h.role == roleCoalescer {
		return false
	}
	pin := lookAt(kernel.Host().Linker, filepath.Join(dir, name))
	if pin.link != 0 {
		return pin.ifindex != 0
	}
	return h.role == rolePort || h.role == roleUnderlay
}
