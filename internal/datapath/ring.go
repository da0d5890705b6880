package datapath

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/ringbuf"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// ring reads a ring buffer of which each record is a T. The zero value is closed.
type ring[T any] struct {
	reader kernel.Ring
	raw    ringbuf.Record
	record [1]T
}

func (r *ring[T]) open(k *kernel.Kernel, m kernel.Map) (err error) {
	r.reader, err = k.Loader.NewRing(m)
	return err
}

func (r *ring[T]) close() error {
	reader := r.reader
	if reader == nil {
		return nil
	}
	r.reader = nil
	return reader.Close()
}

// next waits for a record until the reader's deadline. The record is good until the next one.
func (r *ring[T]) next() (*T, error) {
	if err := r.reader.ReadInto(&r.raw); err != nil {
		return nil, err
	}
	bytes := bytesOf(r.record[:])
	if len(r.raw.RawSample) < len(bytes) {
		return nil, fmt.Errorf("a record of %d bytes, not %d", len(r.raw.RawSample), len(bytes))
	}
	copy(bytes, r.raw.RawSample)
	return &r.record[0], nil
}

// take calls do for the records of m that are there, most at most, with the time of the
// programs' clock. It opens the ring, and does not wait for others.
func (r *ring[T]) take(k *kernel.Kernel, what string, m kernel.Map, most int, do func(record *T, now uint64)) error {
	if r.reader == nil {
		if err := r.open(k, m); err != nil {
			return fmt.Errorf("read %s: %w", what, err)
		}
		r.reader.SetDeadline(time.Unix(1, 0)) // it has passed
	}
	now, err := k.Clock.Monotonic()
	if err != nil {
		return err
	}
	for range most {
		record, err := r.next()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", what, err)
		}
		do(record, now)
	}
	return nil
}

// bytesOf is the memory of a list of values that the programs share: without pointers.
func bytesOf[T any](list []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(one)))
}
