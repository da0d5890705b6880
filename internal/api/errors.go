package api

import (
	"path/filepath"
)

// SocketPath is where the edge called name answers.
func SocketPath(runtimeDir, name string) string { return filepath.Join(runtimeDir, name+".sock") }

// Refusal is the body of every answer that is not 200.
type Refusal struct {
	Error string `json:"error"`
}

// BadRequest is an error of who asks.
type BadRequest struct{ Err error }

// Error says what is wrong.
func (m BadRequest) Error() string { return m.Err.Error() }

// Unwrap gives the error itself.
func (m BadRequest) Unwrap() error { return m.Err }
