package datapath

import (
	"bytes"
	"slices"
	"unsafe"
)

// inOrder puts keys into the order of their bytes: what is written in it is written so each time.
func inOrder[K any](keys []K) []K {
	slices.SortFunc(keys, compareBytes)
	return keys
}

// compareBytes compares values that the programs share: without pointers.
func compareBytes[K any](a, b K) int {
	size := unsafe.Sizeof(a)
	return bytes.Compare(unsafe.Slice((*byte)(unsafe.Pointer(&a)), size), unsafe.Slice((*byte)(unsafe.Pointer(&b)), size))
}

// keysOf are the keys of what is wanted, in that order.
func keysOf[K comparable, V any](want map[K]V) []K {
	keys := make([]K, 0, len(want))
	for k := range want {
		keys = append(keys, k)
	}
	return inOrder(keys)
}
