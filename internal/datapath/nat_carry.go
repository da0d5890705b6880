package datapath

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// bindingBatch is bindings on their way into the present tables, each with its return.
type bindingBatch struct {
	keys, backs []edgeConnKey
	values      []edgeBinding
	origins     []edgeOrigin
}

// copyBindings copies those that match (nil: all), as far as there is room.
func (d *Datapath) copyBindings(from *ebpf.Map, match func(edgeConnKey, edgeBinding) bool) error {
	var b bindingBatch
	var errs []error
	err := walk(from, func(k edgeConnKey, v edgeBinding) {
		if match != nil && !match(k, v) {
			return
		}
		b.keys, b.values = append(b.keys, k), append(b.values, v)
		b.backs, b.origins = append(b.backs, returnKey(&k, &v)), append(b.origins, returnOf(&k))
		if len(b.keys) == batch {
			errs = append(errs, d.putBindingBatch(&b))
		}
	})
	return errors.Join(append(errs, err, d.putBindingBatch(&b))...)
}

// putBindingBatch empties b. A binding that finds no room takes its return with it.
func (d *Datapath) putBindingBatch(b *bindingBatch) error {
	n := len(b.keys)
	if n > 0 {
		returns, err := d.objs.Returns.BatchUpdate(b.backs, b.origins, nil)
		if err != nil && !isFull(err) {
			return fmt.Errorf("carry over the returns of bindings: %w", err)
		}
		bindings, err := d.objs.Bindings.BatchUpdate(b.keys[:returns], b.values[:returns], nil)
		if err != nil && !errors.Is(err, unix.E2BIG) {
			return fmt.Errorf("carry over bindings: %w", err)
		}
		for _, back := range b.backs[bindings:returns] {
			if err := d.deleteReturn(&back); err != nil {
				return err
			}
		}
	}
	*b = bindingBatch{b.keys[:0], b.backs[:0], b.values[:0], b.origins[:0]}
	return nil
}
