package cli

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// hangups are SIGHUPs from now on, until end is called. Without it one ends the process.
func hangups() (signals <-chan os.Signal, end func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// onSecondSignal calls do when SIGTERM or SIGINT came twice, until end is called: the first asks
// for an orderly end, which may hang.
func onSecondSignal(do func()) (end func()) {
	signals, stop := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	var watching sync.WaitGroup
	watching.Go(func() {
		for range 2 {
			select {
			case <-signals:
			case <-stop:
				return
			}
		}
		do()
	})
	return func() {
		signal.Stop(signals)
		close(stop)
		watching.Wait()
	}
}
