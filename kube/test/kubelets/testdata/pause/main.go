// Command pause waits for its end. With an address it sends datagrams there from its start on, for two seconds.
package main

import (
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	for _, to := range os.Args[1:] {
		go send(to)
	}
	<-ended
}

func send(to string) {
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	for until := time.Now().Add(2 * time.Second); time.Now().Before(until); <-pace.C {
		if c, err := net.Dial("udp", to); err == nil {
			_, _ = c.Write([]byte("first")) // what is held may be an error
			c.Close()
		}
	}
}
