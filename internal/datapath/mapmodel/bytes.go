package mapmodel

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"sync/atomic"
	"unsafe"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// encode is a key or a value of a fixed size as a map has it: what Go has in memory.
func encode(v any, size uint32) ([]byte, error) {
	b, err := encoded(v)
	if err != nil {
		return nil, err
	}
	if len(b) != int(size) {
		return nil, fmt.Errorf("%T has %d bytes, the map %d", v, len(b), size)
	}
	return b, nil
}

func encoded(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []byte:
		return append([]byte{}, v...), nil
	case *[]byte:
		return append([]byte{}, *v...), nil
	}
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Pointer {
		r = reflect.New(r.Type())
		r.Elem().Set(reflect.ValueOf(v))
	}
	memory, err := memoryOf(r.Elem())
	return append([]byte{}, memory...), err
}

// memoryOf is that of an addressable value, or of a slice's.
func memoryOf(v reflect.Value) ([]byte, error) {
	typ, at, n := v.Type(), unsafe.Pointer(nil), 1
	if v.Kind() == reflect.Slice {
		typ, at, n = typ.Elem(), v.UnsafePointer(), v.Len()
	} else {
		at = v.Addr().UnsafePointer()
	}
	if binary.Size(reflect.Zero(typ).Interface()) != int(typ.Size()) {
		return nil, fmt.Errorf("%s has padding or pointers", typ)
	}
	return unsafe.Slice((*byte)(at), n*int(typ.Size())), nil
}

// decode writes bytes to where a pointer leads. A slice of bytes becomes as long as they are.
func decode(b []byte, to any) error {
	if to, ok := to.(*[]byte); ok {
		*to = append((*to)[:0], b...)
		return nil
	}
	r := reflect.ValueOf(to)
	if r.Kind() != reflect.Pointer || r.IsNil() {
		return fmt.Errorf("%T is no place for a value", to)
	}
	memory, err := memoryOf(r.Elem())
	if err != nil {
		return err
	}
	if len(memory) != len(b) {
		return fmt.Errorf("%T has %d bytes, the map %d", to, len(memory), len(b))
	}
	copy(memory, b)
	return nil
}

// decodePerCPU makes a slice of the values of all cores, each of which has stride bytes.
func decodePerCPU(b []byte, size, stride int, to any) error {
	r := reflect.ValueOf(to)
	if r.Kind() != reflect.Pointer || r.Elem().Kind() != reflect.Slice {
		return fmt.Errorf("%T is no place for the values of all cores", to)
	}
	list := reflect.MakeSlice(r.Elem().Type(), len(b)/stride, len(b)/stride)
	for i := range list.Len() {
		if err := decode(b[i*stride:i*stride+size], list.Index(i).Addr().Interface()); err != nil {
			return err
		}
	}
	r.Elem().Set(list)
	return nil
}

// encodePerCPU is a slice of the values of all cores.
func encodePerCPU(v any, size uint32) ([]byte, error) {
	r, stride := reflect.ValueOf(v), kernel.Stride(size)
	if r.Kind() != reflect.Slice || r.Len() != Cores {
		return nil, fmt.Errorf("%T is not the values of %d cores", v, Cores)
	}
	b := make([]byte, Cores*stride)
	for i := range Cores {
		one, err := encode(r.Index(i).Interface(), size)
		if err != nil {
			return nil, err
		}
		copy(b[i*stride:], one)
	}
	return b, nil
}

// aligned is zeroed memory in which numbers may be changed at once.
func aligned(size int) []byte {
	words := make([]uint64, (size+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)
}

// load copies memory that others change at the same time; store is its counterpart. Both
// are of whole words.
func load(from []byte) []byte {
	b := make([]byte, len(from))
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], atomic.LoadUint32((*uint32)(unsafe.Pointer(&from[i]))))
	}
	return b
}

func store(to, b []byte) {
	for i := 0; i < len(to); i += 4 {
		var word [4]byte
		copy(word[:], b[min(i, len(b)):])
		atomic.StoreUint32((*uint32)(unsafe.Pointer(&to[i])), binary.NativeEndian.Uint32(word[:]))
	}
}
