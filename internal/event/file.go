package event

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/replace"
)

const (
	// mostFile is from which size a file is written anew, with what is kept.
	mostFile = 2 << 20
	// mostLine is more than any event is as JSON.
	mostLine = 64 << 10
)

// Join has numbers go on where those of a former process ended, and keeps its events. It is called before the first Add.
func (l *Log) Join(path string) error {
	events, err := ReadFile(path)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		if e.Number <= l.last {
			continue // the file was written to by two: nobody does
		}
		l.last = e.Number
		l.keep(e, about(e.Kind).Busy)
	}
	return err
}

// ReadFile returns the events of a file that Keep wrote, also while one writes it; none where there is no file. Lines that are
// none, as the last one of a process that was killed, are passed over.
func ReadFile(path string) (events []Event, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read events: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, 2*mostFile))
	lines.Buffer(nil, mostLine)
	for lines.Scan() {
		var e Event
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Number > 0 {
			events = append(events, e)
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
		return events, fmt.Errorf("read events: %w", err)
	}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Number, b.Number) })
	return events, nil
}

// Keep writes events to a file for a later process, until the Log has ended or ctx has. report is told of an error, and with nil
// that it is over.
func (l *Log) Keep(ctx context.Context, path string, report func(error)) {
	k := keeper{log: l, path: path}
	defer k.close()
	next := l.Last()
	report(k.anew())
	for {
		b, more, err := l.Wait(ctx, Filter{After: next}, 0)
		if err != nil {
			return
		}
		next = b.Next
		if len(b.Events) > 0 {
			report(k.write(b.Events))
		}
		if !more {
			return
		}
	}
}

// keeper writes a file.
type keeper struct {
	log  *Log
	path string
	f    *os.File
	size int
}

func (k *keeper) write(events []Event) error {
	text := lines(events)
	if k.f == nil || k.size+len(text) > mostFile {
		return k.anew()
	}
	n, err := k.f.Write(text)
	k.size += n
	if err != nil {
		k.close() // the next ones write it anew
	}
	return err
}

// anew writes the file with what is kept.
func (k *keeper) anew() error {
	k.close()
	kept := lines(k.log.Read(Filter{}, 0).Events)
	if err := replace.File(k.path, kept); err != nil {
		return err
	}
	f, err := os.OpenFile(k.path, os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	k.f, k.size = f, len(kept)
	return nil
}

func (k *keeper) close() {
	if k.f != nil {
		_ = k.f.Close() // what it has was written
		k.f = nil
	}
}

func lines(events []Event) []byte {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	for _, e := range events {
		_ = enc.Encode(e) // fields are texts, numbers and booleans
	}
	return text.Bytes()
}
