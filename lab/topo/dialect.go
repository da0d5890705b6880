package topo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// apiVersion is of the configurations that the lab writes.
const apiVersion = "selvage.dev/v1alpha1"

// translate makes a configuration one that a build reads. It asks the build for its schema,
// unless it is this program.
func translate(ctx context.Context, program, config string) (string, error) {
	if own, err := os.Executable(); err == nil && own == program {
		return config, nil
	}
	versions, err := readVersions(ctx, program)
	if err != nil {
		return "", err
	}
	if slices.Contains(versions, apiVersion) {
		return config, nil
	}
	// A change of apiVersion adds a rewrite to the version before it here.
	return "", fmt.Errorf("%s reads configurations of %s; this lab writes %s: measure it with the lab of a build closer to it", program, strings.Join(versions, ", "), apiVersion)
}

func readVersions(ctx context.Context, program string) ([]string, error) {
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
	versions := schema.Properties.APIVersion.Enum
	if len(versions) == 0 {
		return nil, fmt.Errorf("schema of %s: it names no apiVersion", program)
	}
	return versions, nil
}
