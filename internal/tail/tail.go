// Package tail keeps the end of what a program writes, to say why it failed.
//
// Its one invariant: a Buffer is bounded, whatever is written. Do not use it for output that somebody reads: the beginning
// is lost.
package tail

import (
	"bytes"
	"strings"
	"sync"
)

// most is how much is kept, in bytes.
const most = 2000

// Buffer keeps the last 2,000 bytes. The zero value is empty, and many goroutines may use one.
type Buffer struct {
	mu   sync.Mutex
	data []byte
}

// Write keeps the end of p and never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = append(b.data, p...)
	if over := len(b.data) - most; over > 0 {
		b.data = append([]byte(nil), b.data[over:]...)
	}
	return len(p), nil
}

// String is what was kept, as UTF-8 without blank ends.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(string(bytes.ToValidUTF8(b.data, nil)))
}
