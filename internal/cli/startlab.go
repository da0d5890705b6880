package cli

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/selvage/selvage/internal/completion"
	"github.com/selvage/selvage/internal/program"
)

// labCommand is what selvage-lab is started by: its arguments are that program's.
const labCommand = "lab"

// labCmd stands in the list of commands. Main starts it.
type labCmd struct {
	Args []string `arg:"" optional:"" help:"A command of the lab; selvage lab --help lists them."`
}

// startLab replaces this process by selvage-lab. It returns why it could not.
func startLab(args []string) error {
	path, err := program.Find(context.Background(), program.Lab)
	if err != nil {
		return fmt.Errorf("the lab is a program of its own: %w", err)
	}
	return become(path, args)
}

// completeLab is startLab for a shell that completes. Any build will do, and to ask takes time.
func completeLab(words []string) error {
	path, err := program.Path(program.Lab)
	if err != nil {
		return err
	}
	return become(path, append([]string{completion.Command}, words...))
}

// become replaces this process by the lab's program: it has the terminal, the signals and the exit
// status from then on.
func become(path string, args []string) error {
	err := syscall.Exec(path, append([]string{program.LabCommand}, args...), os.Environ())
	return fmt.Errorf("start %s: %w", path, err)
}
