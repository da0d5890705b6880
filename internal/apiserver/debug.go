package apiserver

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/pprof"
)

// goroutinesHandler serves what the process does: its goroutines by their stacks, without arguments.
func goroutinesHandler(w http.ResponseWriter, r *http.Request) {
	if !isRead(w, r) {
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_ = pprof.Lookup("goroutine").WriteTo(w, 1) // a client that went away misses its own answer
}

// memoryHandler serves what the process has of memory, and where it was allocated.
func memoryHandler(w http.ResponseWriter, r *http.Request) {
	if !isRead(w, r) {
		return
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "heap in use %d bytes, from the system %d bytes, objects %d, collections %d, goroutines %d\n\n",
		m.HeapInuse, m.Sys, m.HeapObjects, m.NumGC, runtime.NumGoroutine())
	_ = pprof.Lookup("heap").WriteTo(w, 1)
}
