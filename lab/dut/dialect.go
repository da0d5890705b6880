package dut

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/config"
)

// translate makes a configuration one that a build reads. It asks the build for its schema,
// unless it is this program.
func translate(ctx context.Context, program, text string) (string, error) {
	if own, err := os.Executable(); err == nil && own == program {
		return text, nil
	}
	read, err := readVersions(ctx, program)
	if err != nil {
		return "", err
	}
	switch {
	case slices.Contains(read, config.Version):
		return text, nil
	case slices.Contains(read, config.PreviousVersion):
		older, err := config.Downgrade("configuration of the lab", []byte(text))
		return string(older), err
	}
	return "", fmt.Errorf("%s reads configurations of %s; this lab writes %s and %s: measure it with the lab of a build closer to it",
		program, strings.Join(read, ", "), config.Version, config.PreviousVersion)
}

// programFile is a program as it is now.
type programFile struct {
	path     string
	size     int64
	modified time.Time
}

// versions are those that builds have been asked for: each is asked once.
var versions sync.Map // programFile → []string

// readVersions are the versions of configurations that a program reads.
func readVersions(ctx context.Context, program string) ([]string, error) {
	file, err := os.Stat(program)
	if err != nil { // exec says why, or finds it elsewhere
		return askVersions(ctx, program)
	}
	of := programFile{program, file.Size(), file.ModTime()}
	if known, ok := versions.Load(of); ok {
		return known.([]string), nil
	}
	read, err := askVersions(ctx, program)
	if err == nil {
		versions.Store(of, read)
	}
	return read, err
}

func askVersions(ctx context.Context, program string) ([]string, error) {
	out, err := exec.CommandContext(ctx, program, "schema").Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its schema: %w", program, err)
	}
	var schema struct {
		Properties struct {
			APIVersion struct {
				Enum []string `json:"enum"`
			} `json:"apiVersion"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(out, &schema); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", program, err)
	}
	if len(schema.Properties.APIVersion.Enum) == 0 {
		return nil, fmt.Errorf("schema of %s: it names no apiVersion", program)
	}
	return schema.Properties.APIVersion.Enum, nil
}
