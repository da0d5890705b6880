package logging

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
)

// open is a log of lines in text.
func open(t *testing.T, out io.Writer) (*slog.Logger, *Writer) {
	t.Helper()
	l, err := Open(Options{Out: out, Format: Text})
	if err != nil {
		t.Fatal(err)
	}
	return l.Logger, l.Writer
}

// reader takes what is written once it may.
type reader struct {
	mu   sync.Mutex
	text bytes.Buffer
	may  chan struct{}
}

func (r *reader) Write(b []byte) (int, error) {
	<-r.may
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *reader) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func TestLinesComeInOrder(t *testing.T) {
	r := &reader{may: make(chan struct{})}
	close(r.may)
	log, w := open(t, r)
	const lines = 1000
	for i := range lines {
		log.Info("line", "number", i)
		log.Debug("not this one")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(r.String()), "\n")
	if len(got) != lines || w.Lost() != 0 {
		t.Fatalf("%d lines came, %d are lost, want %d", len(got), w.Lost(), lines)
	}
	for i, line := range got {
		if !strings.HasSuffix(line, "number="+slog.IntValue(i).String()) {
			t.Fatalf("line %d is %q", i, line)
		}
	}
}

// Nobody waits for a reader that has stopped, and once it goes on it is told what it missed.
func TestReaderThatStopped(t *testing.T) {
	r := &reader{may: make(chan struct{})}
	log, w := open(t, r)
	defer w.Close()
	line := strings.Repeat("x", 1024)
	for range 4 * queueMost / len(line) {
		log.Info(line)
	}
	lost := w.Lost()
	if lost == 0 {
		t.Fatal("nothing is lost, so the queue has no bound")
	}
	close(r.may)
	err := await.That(t.Context(), "the loss to be told", func() error {
		told := uint64(0)
		for _, m := range regexp.MustCompile(`msg="log lines are lost.* lines=(\d+)\n`).FindAllStringSubmatch(r.String(), -1) {
			n, err := strconv.ParseUint(m[1], 10, 64)
			if err != nil {
				return err
			}
			told += n
		}
		if told != lost {
			return fmt.Errorf("%d lines are told of", told)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%d lines are lost: %v", lost, err)
	}
	log.Info("the reader is there again")
	err = await.That(t.Context(), "further lines", func() error {
		if !strings.Contains(r.String(), "there again") {
			return io.ErrNoProgress
		}
		return nil
	})
	if err != nil || w.Lost() != lost {
		t.Errorf("%d lines are lost, were %d: %v", w.Lost(), lost, err)
	}
}

// The end waits for a reader that has stopped, but not for long.
func TestCloseDoesNotHang(t *testing.T) {
	r := &reader{may: make(chan struct{})}
	log, w := open(t, r)
	log.Info("never read")
	ended := make(chan struct{})
	go func() {
		w.Close()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(10 * closeWait):
		t.Fatal("Close waits for ever")
	}
	close(r.may)
	log.Info("after the end")
	if w.Lost() != 1 {
		t.Errorf("%d lines are lost, want the one after the end", w.Lost())
	}
}

// What a reader that is gone does not take is lost.
func TestReaderThatIsGone(t *testing.T) {
	gone, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	gone.Close()
	log, w := open(t, out)
	log.Info("one")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Lost() != 1 {
		t.Errorf("%d lines are lost, want one", w.Lost())
	}
}
