package api

import (
	"net/http"
	"time"
)

// Patiently serves answers that take as long as they take, while each piece of them is taken within patience. The
// server must have no WriteTimeout.
func Patiently(h http.Handler, patience time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // that of an answer before, by the same connection
		h.ServeHTTP(&patient{w, patience}, r)
	})
}

// patient begins the time anew with each piece.
type patient struct {
	http.ResponseWriter
	patience time.Duration
}

// Write implements http.ResponseWriter.
func (p *patient) Write(answer []byte) (written int, err error) {
	const most = 64 << 10
	for {
		piece := answer[written:min(len(answer), written+most)]
		_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(p.patience)) // what has none blocks nobody
		n, err := p.ResponseWriter.Write(piece)
		if written += n; err != nil || written >= len(answer) {
			return written, err
		}
	}
}

// Unwrap is for http.ResponseController.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Answer answers with a document, entry by entry. An answer that ends early is cut off, so that nobody takes a part for the
// whole.
func Answer(w http.ResponseWriter, code int, document any) {
	w.Header().Set("Content-Type", "application/json")
	a := &answer{ResponseWriter: w, code: code}
	switch err := WriteJSON(a, document); {
	case err == nil:
	case a.begun: // a client that went away misses its own answer
		panic(http.ErrAbortHandler)
	default:
		w.WriteHeader(http.StatusInternalServerError)
		_ = WriteJSON(w, Refusal{Error: "answer is not JSON"})
	}
}

// answer has its status when it has its first piece.
type answer struct {
	http.ResponseWriter
	code  int
	begun bool
}

// Write implements http.ResponseWriter.
func (a *answer) Write(piece []byte) (int, error) {
	if !a.begun {
		a.begun = true
		a.WriteHeader(a.code)
	}
	return a.ResponseWriter.Write(piece)
}
