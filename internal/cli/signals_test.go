package cli

import (
	"os"
	"syscall"
	"testing"
	"time"
)

const signalPatience = 10 * time.Second

func kill(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		t.Fatal(err)
	}
}

// A SIGHUP that comes before the edge runs is a reload then, and kills nobody.
func TestHangupBeforeTheEdge(t *testing.T) {
	signals, end := hangups()
	defer end()
	kill(t, syscall.SIGHUP)
	select {
	case <-signals:
	case <-time.After(signalPatience):
		t.Error("the signal is lost")
	}
}

// The first signal asks for an orderly end, and the second does not wait for it.
func TestSecondSignal(t *testing.T) {
	hurried := make(chan struct{})
	end := onSecondSignal(func() { close(hurried) })
	defer end()
	kill(t, syscall.SIGTERM)
	select {
	case <-hurried:
		t.Fatal("the first signal hurries")
	case <-time.After(50 * time.Millisecond):
	}
	kill(t, syscall.SIGTERM)
	select {
	case <-hurried:
	case <-time.After(signalPatience):
		t.Error("the second signal does nothing")
	}
}

// An edge that ends has nobody wait for signals.
func TestNoSecondSignal(t *testing.T) {
	end := onSecondSignal(func() { t.Error("it hurries without a signal") })
	end()
}
