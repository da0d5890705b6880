package api

import (
	"path/filepath"
)

// SocketPath is where the edge called name answers.
func SocketPath(runtimeDir, name string) string { return filepath.Join(runtimeDir, name+".sock") }

// RuntimeFiles are what the edge called name may have in its runtime directory besides its lock: the socket, and notes for
// the next process and for who removes it.
func RuntimeFiles(runtimeDir, name string) []string {
	files := []string{SocketPath(runtimeDir, name)}
	for _, note := range []string{"egress", "events", "held", "live"} {
		files = append(files, filepath.Join(runtimeDir, name+"."+note))
	}
	return files
}

// Refusal is the body of every answer that is not 200.
type Refusal struct {
	Error string `json:"error"`
	// Current is the live object that a change did not fit.
	Current *LiveObject `json:"current,omitempty"`
}

// BadRequest is an error of who asks.
type BadRequest struct{ Err error }

// Error says what is wrong.
func (m BadRequest) Error() string { return m.Err.Error() }

// Unwrap gives the error itself.
func (m BadRequest) Unwrap() error { return m.Err }
