package top

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// commands are the command lines that tell more of a line.
type commands struct {
	program string   // path of selvage
	edge    []string // the arguments by which a command finds the edge
	now     func() time.Time
}

// about is the command line of a key about a subject, without the program.
func (c commands) about(key string, s subject) ([]string, error) {
	switch key {
	case "t":
		return c.trace(s)
	case "m":
		args := append([]string{"monitor"}, c.where(s)...)
		if s.reason == "" && s.packet != "" {
			args = append(args, "--forwarded")
		}
		return append(args, words(s)...), nil
	default:
		file := "selvage-" + c.now().UTC().Format("20060102T150405Z") + ".pcapng"
		return append(append([]string{"capture", "-w", file}, c.where(s)...), words(s)...), nil
	}
}

// trace is possible for what has packets in words.
func (c commands) trace(s subject) ([]string, error) {
	if s.packet == "" {
		return nil, errors.New("trace needs a packet: choose a line of Flows that is IP")
	}
	args := append([]string{"trace"}, c.edge...)
	if s.remote.IsValid() {
		args = append(args, "--remote", s.remote.String(), "--segment", s.segment)
	} else {
		args = append(args, "--port", s.port)
	}
	return append(args, s.packet), nil
}

// where are the filters for what a line is of. A port or remote says more than its segment.
func (c commands) where(s subject) []string {
	args := append([]string{}, c.edge...)
	if s.reason != "" {
		args = append(args, "--reason", s.reason)
	}
	switch {
	case s.port != "":
		args = append(args, "--port", s.port)
	case s.remote.IsValid():
		args = append(args, "--remote", s.remote.String())
	case s.segment != "":
		args = append(args, "--segment", s.segment)
	}
	return args
}

func words(s subject) []string {
	if s.packet == "" {
		return nil
	}
	return []string{s.packet}
}

// visit is a command that has the terminal for itself, until it has ended and Enter was pressed.
type visit struct {
	program  string
	args     []string
	in       io.Reader
	out, err io.Writer
}

// SetStdin is part of tea.ExecCommand.
func (v *visit) SetStdin(r io.Reader) { v.in = r }

// SetStdout is part of tea.ExecCommand.
func (v *visit) SetStdout(w io.Writer) { v.out = w }

// SetStderr is part of tea.ExecCommand.
func (v *visit) SetStderr(w io.Writer) { v.err = w }

// Run is part of tea.ExecCommand. That the command failed is to be read above the prompt.
func (v *visit) Run() error {
	fmt.Fprintf(v.out, "$ selvage %s\n", quoted(v.args))
	command := exec.Command(v.program, v.args...)
	command.Stdin, command.Stdout, command.Stderr = v.in, v.out, v.err
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	fmt.Fprint(v.out, "\nEnter goes back to selvage top.")
	_, err = bufio.NewReader(v.in).ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// quoted is a command line as a shell takes it.
func quoted(args []string) string {
	var all []string
	for _, a := range args {
		if strings.ContainsAny(a, " >") {
			a = "'" + a + "'"
		}
		all = append(all, a)
	}
	return strings.Join(all, " ")
}
