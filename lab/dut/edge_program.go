package dut

import (
	"context"
	"fmt"
	"sync"

	"github.com/selvage/selvage/internal/program"
)

// EdgeProgram is the program that runs edges where no other is named: selvage of this program's
// build, beside it or in $PATH.
var EdgeProgram = sync.OnceValues(func() (string, error) {
	path, err := program.Find(context.Background(), program.Selvage)
	if err != nil {
		return "", fmt.Errorf("the program of edges: %w", err)
	}
	return path, nil
})
