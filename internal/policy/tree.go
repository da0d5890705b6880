package policy

// The image is made of lines, in which everything is found by number. A value in it is one
// of two things: with the bit tree, a search tree that says more (its depth, and the line
// of its root); without, what the place that it stands in is for: a list of sets, or a
// decision. bpf/firewall/policy_image.h has the same layout.
const (
	treeBit    = 1 << 31
	depthShift = 27
	lineMask   = 1<<depthShift - 1
	maxDepth   = 6 // of maxLines leaves

	leafKeys  = 8  // and as many values behind them
	nodeKeys  = 15 // and behind them the line of the first child
	maxLines  = 1 << 22
	countBits = 5 // of a list's value: how many items; above them the first item's place
	pairBit   = 1 << 30
)

// writer lays an image out.
type writer struct{ compiled Compiled }

// line is room for n more lines, and the number of the first.
func (w *writer) line(n int) (uint32, Compiled) {
	at := len(w.compiled)
	w.compiled = append(w.compiled, make(Compiled, n*LineWords)...)
	return uint32(at / LineWords), w.compiled[at:]
}

// tree makes keys with their values searchable: the result says the value of the greatest
// key that is not above a given one. Keys ascend, and the first is 0.
func (w *writer) tree(keys, values []uint32) uint32 {
	if len(keys) == 1 {
		return values[0]
	}
	n := (len(keys) + leafKeys - 1) / leafKeys
	first, lines := w.line(n)
	firsts := make([]uint32, n)
	for i := range n {
		from, to := i*leafKeys, min((i+1)*leafKeys, len(keys))
		// Places that are not in use come first, with keys of 0: they count as not above.
		unused := leafKeys - (to - from)
		copy(lines[i*LineWords+unused:], keys[from:to])
		copy(lines[i*LineWords+leafKeys+unused:], values[from:to])
		firsts[i] = keys[from]
	}
	return w.above(first, firsts)
}

// above builds the levels above lines that begin with these keys.
func (w *writer) above(line uint32, keys []uint32) uint32 {
	depth := uint32(0)
	for ; len(keys) > 1; depth++ {
		n := (len(keys) + nodeKeys) / (nodeKeys + 1)
		first, nodes := w.line(n)
		firsts := make([]uint32, n)
		for i := range n {
			from, to := i*(nodeKeys+1), min((i+1)*(nodeKeys+1), len(keys))
			unused := nodeKeys + 1 - (to - from)
			copy(nodes[i*LineWords+unused:], keys[from+1:to])
			nodes[i*LineWords+nodeKeys] = line + uint32(from) - uint32(unused)
			firsts[i] = keys[from]
		}
		line, keys = first, firsts
	}
	return treeBit | depth<<depthShift | line
}

// find follows a value through the trees that it may be, by the words of a key from the
// i-th on.
func (compiled Compiled) find(value uint32, key u128, i int) uint32 {
	for ; i < 4 && value&treeBit != 0; i++ {
		value = compiled.search(value, key.word(i))
	}
	return value
}

func (compiled Compiled) search(tree, key uint32) uint32 {
	line := tree & lineMask
	for range tree &^ treeBit >> depthShift {
		node := compiled.at(line)
		line = node[nodeKeys] + notAbove(node[:nodeKeys], key)
	}
	leaf := compiled.at(line)
	return leaf[leafKeys+notAbove(leaf[:leafKeys], key)-1]
}

func (compiled Compiled) at(line uint32) Compiled {
	return compiled[int(line)*LineWords:][:LineWords]
}

// notAbove is how many of the keys are not above key.
func notAbove(keys Compiled, key uint32) uint32 {
	n := uint32(0)
	for _, k := range keys {
		if k <= key {
			n++
		}
	}
	return n
}

// trie makes a tree of trees, by the words of addresses from the i-th on. The first bound
// begins where all of them are 0.
func (w *writer) trie(bounds []bound, i int) uint32 {
	keys, values := make([]uint32, 0, len(bounds)), make([]uint32, 0, len(bounds))
	before := bounds[0].list
	for len(bounds) > 0 {
		key, n := bounds[0].first.word(i), 1
		for n < len(bounds) && bounds[n].first.word(i) == key {
			n++
		}
		group := bounds[:n]
		bounds = bounds[n:]
		start := group[0].first.upTo(i)
		if n == 1 && start == group[0].first {
			keys, values = append(keys, key), append(values, group[0].list)
			before = group[0].list
			continue
		}
		if start != group[0].first {
			group = append([]bound{{start, before}}, group...)
		}
		keys, values = append(keys, key), append(values, w.trie(group, i+1))
		before = group[len(group)-1].list
		if key+1 != 0 && (len(bounds) == 0 || bounds[0].first.word(i) != key+1) {
			keys, values = append(keys, key+1), append(values, before)
		}
	}
	return w.tree(keys, values)
}

// upTo is a without the words behind the i-th.
func (a u128) upTo(i int) u128 {
	switch i {
	case 0:
		return u128{a.hi &^ ones(32), 0}
	case 1:
		return u128{a.hi, 0}
	case 2:
		return u128{a.hi, a.lo &^ ones(32)}
	}
	return a
}
