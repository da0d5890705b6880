package topo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Nft loads a ruleset of nftables; name tells it from the host's others.
func (h *Host) Nft(ctx context.Context, name, rules string) error {
	file := filepath.Join(h.lab.Dir, h.Name+"-"+name+".nft")
	if err := os.WriteFile(file, []byte(rules), 0o644); err != nil {
		return fmt.Errorf("rules %s: %w", name, err)
	}
	if _, err := h.Output(ctx, "nft", "-f", file); err != nil {
		return fmt.Errorf("rules %s on %s: %w", name, h.Name, err)
	}
	return nil
}
