package replica

import (
	"errors"
	"maps"
	"slices"
)

const (
	// descriptionVersion changes with what parts are hashes of. Those of other versions are not
	// compared.
	descriptionVersion = 1
	// maxParts is of one frame, in bytes: room for 1,600 parts with the longest names.
	maxParts = 128 << 10
)

// marshalParts is a version, then for each part the length of its name, the name and the hash.
// What has no room is left out.
func marshalParts(parts map[string]Part) []byte {
	b := []byte{descriptionVersion}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		hash := parts[name]
		if len(name) > 255 || len(b)+1+len(name)+len(hash) > maxParts {
			continue
		}
		b = append(append(b, byte(len(name))), name...)
		b = append(b, hash[:]...)
	}
	return b
}

// parseParts is nil for those of another version.
func parseParts(b []byte) (map[string]Part, error) {
	if len(b) == 0 {
		return nil, errors.New("parts without a version")
	}
	if b[0] != descriptionVersion {
		return nil, nil
	}
	parts := make(map[string]Part)
	for b = b[1:]; len(b) > 0; {
		n, size := int(b[0]), len(Part{})
		if len(b) < 1+n+size {
			return nil, errors.New("parts that are cut short")
		}
		parts[string(b[1:1+n])] = Part(b[1+n : 1+n+size])
		b = b[1+n+size:]
	}
	return parts, nil
}

// differences are the names of the parts that both ends have, and not alike.
func differences(a, b map[string]Part) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if other, both := b[name]; both && other != a[name] {
			names = append(names, name)
		}
	}
	return names
}

// setParts has the other end be told of other parts.
func (l *link) setParts(parts map[string]Part) {
	l.mu.Lock()
	same := maps.Equal(l.parts, parts)
	l.parts = parts
	s := l.now
	l.mu.Unlock()
	if same || s == nil {
		return
	}
	s.mu.Lock()
	s.tell = true
	s.mu.Unlock()
	s.wake()
}

// writeParts tells the other end of the parts, where it was not told.
func (s *session) writeParts() error {
	s.mu.Lock()
	tell := s.tell
	s.tell = false
	s.mu.Unlock()
	if !tell {
		return nil
	}
	s.link.mu.Lock()
	parts := s.link.parts
	s.link.mu.Unlock()
	return s.send(kindParts, marshalParts(parts))
}

// takeParts keeps what the other end said.
func (s *session) takeParts(payload []byte) error {
	parts, err := parseParts(payload)
	if err != nil {
		return err
	}
	s.link.mu.Lock()
	s.link.other = parts
	s.link.mu.Unlock()
	s.r.notify()
	return nil
}
