package debian

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/await"
)

// agent talks to Debian's qemu-guest-agent in a machine, over a virtio-serial port: the machine needs no network.
type agent struct {
	socket string
	mu     sync.Mutex // one question at a time
}

// askMost bounds one question: a machine that is emulated and has no processor to itself takes its time.
const askMost = 30 * time.Second

// delimiter comes before the answer to guest-sync-delimited, after what is left of other answers.
const delimiter = 0xff

// call has the agent do something, and reads its answer. Each call has a connection of its own, so that one to a machine
// that restarted meanwhile leaves nothing behind.
func (a *agent) call(ctx context.Context, command string, arguments, answer any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askMost)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", a.socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	from := bufio.NewReader(conn)
	id := rand.Int32()
	if err := ask(conn, "guest-sync-delimited", map[string]int32{"id": id}); err != nil {
		return err
	}
	for synced := int32(-1); synced != id; {
		if _, err := from.ReadBytes(delimiter); err != nil {
			return fmt.Errorf("the agent does not answer: %w", err)
		}
		if err := read(from, &synced); err != nil {
			return err
		}
	}
	if err := ask(conn, command, arguments); err != nil {
		return err
	}
	if answer == nil {
		return nil
	}
	return read(from, answer)
}

// refusalError is what the agent answers to what it cannot do.
type refusalError string

// Error is what it says.
func (e refusalError) Error() string { return string(e) }

func ask(conn net.Conn, command string, arguments any) error {
	text, err := json.Marshal(map[string]any{"execute": command, "arguments": arguments})
	if err != nil {
		return err
	}
	if command == "guest-sync-delimited" {
		text = append([]byte{delimiter}, text...) // what the agent was in the middle of is no question
	}
	_, err = conn.Write(append(text, '\n'))
	return err
}

func read(from *bufio.Reader, into any) error {
	line, err := from.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the agent does not answer: %w", err)
	}
	var answer struct {
		Return json.RawMessage `json:"return"`
		Error  *struct {
			Desc string `json:"desc"`
		} `json:"error"`
	}
	if err := json.Unmarshal(bytes.TrimSpace(line), &answer); err != nil {
		return fmt.Errorf("answer %q: %w", line, err)
	}
	if answer.Error != nil {
		return refusalError(answer.Error.Desc)
	}
	return json.Unmarshal(answer.Return, into)
}

// asked is a script that the agent runs.
type asked struct {
	agent *agent
	pid   int
}

func (a *agent) begin(ctx context.Context, script string) (process, error) {
	var begun struct {
		PID int `json:"pid"`
	}
	err := a.call(ctx, "guest-exec", map[string]any{
		"path": "/bin/sh", "arg": []string{"-c", script}, "capture-output": true, "env": environment,
	}, &begun)
	return asked{a, begun.PID}, err
}

func (c asked) wait(ctx context.Context) (r Result, err error) {
	var state struct {
		Exited   bool   `json:"exited"`
		ExitCode int    `json:"exitcode"`
		Signal   int    `json:"signal"`
		Out      []byte `json:"out-data"`
		Err      []byte `json:"err-data"`
	}
	var gone error
	err = await.Within(ctx, patience(ctx), "the command to end", func() error {
		err := c.agent.call(ctx, "guest-exec-status", map[string]int{"pid": c.pid}, &state)
		if refused := refusalError(""); errors.As(err, &refused) { // the machine was booted again, and knows nothing of it
			gone = refused
			return nil
		}
		if err != nil {
			return err
		}
		if state.Exited {
			return nil
		}
		pause(ctx) // each question is work for an emulated processor
		return errRuns
	})
	if gone != nil {
		return Result{Status: -1}, gone
	}
	r = Result{strings.TrimSpace(string(state.Out)), strings.TrimSpace(string(state.Err)), state.ExitCode}
	if err == nil {
		err = ended(r, state.Signal)
	}
	return r, err
}
