package proxmox

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mostBytes is how long a file may be. Those of a thousand VNets have 100 kB.
const mostBytes = 8 << 20

// section is one object of a file, as "evpn: zone" with its properties.
type section struct {
	file     string
	line     int
	kind, id string
	values   map[string]property
}

type property struct {
	line int
	text string
	more []string // of a property that is written several times
}

var (
	headerPattern   = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_-]*):\s*(\S+)\s*$`)
	propertyPattern = regexp.MustCompile(`^\s+([A-Za-z0-9][A-Za-z0-9_-]*)(?:\s+(.*?))?\s*$`)
)

// read reads a file of sections. One that is not there has none.
func read(dir, name string) ([]section, error) {
	path := filepath.Join(dir, name)
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(text) > mostBytes {
		return nil, fmt.Errorf("%s: %d bytes are more than %d: it is no file of Proxmox", path, len(text), mostBytes)
	}
	return parse(path, text)
}

// parse reads sections: a header, then lines that begin with a blank, up to an empty line.
func parse(path string, text []byte) (all []section, err error) {
	var now *section
	number := 0
	for raw := range bytes.Lines(text) {
		number++
		line := strings.TrimRight(string(raw), "\r\n")
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "":
			now = nil
		case strings.HasPrefix(trimmed, "#"):
		case now == nil:
			m := headerPattern.FindStringSubmatch(line)
			if m == nil {
				return nil, fmt.Errorf("%s:%d: %q is not \"TYPE: NAME\", which begins a section", path, number, line)
			}
			kind, id := strings.ToLower(m[1]), m[2]
			if slices.ContainsFunc(all, func(s section) bool { return s.id == id }) {
				return nil, fmt.Errorf("%s:%d: there are two sections %q", path, number, id)
			}
			all = append(all, section{file: path, line: number, kind: kind, id: id, values: map[string]property{}})
			now = &all[len(all)-1]
		default:
			m := propertyPattern.FindStringSubmatch(line)
			if m == nil {
				return nil, fmt.Errorf("%s:%d: %q is not \"PROPERTY VALUE\", behind a blank", path, number, line)
			}
			now.add(m[1], m[2], number)
		}
	}
	return all, nil
}

func (s *section) add(name, value string, line int) {
	p, again := s.values[name]
	if again {
		p.more = append(p.more, value)
	} else {
		p = property{line: line, text: value}
	}
	s.values[name] = p
}

// get is the value of a property, "" without.
func (s section) get(name string) string { return s.values[name].text }

// on says whether a flag is set.
func (s section) on(name string) bool {
	return slices.Contains([]string{"1", "yes", "true", "on"}, s.get(name))
}

// list is a value of several words, in one line or several: commas, semicolons and blanks part them.
func (s section) list(name string) []string {
	p := s.values[name]
	return strings.FieldsFunc(strings.Join(append([]string{p.text}, p.more...), ","), func(r rune) bool { return strings.ContainsRune(",; \t", r) })
}

// wrong is an error at a property, or at the section when it has none.
func (s section) wrong(name, format string, args ...any) error {
	line := s.line
	if p, is := s.values[name]; is {
		line = p.line
	}
	return fmt.Errorf("%s:%d: %s %q: %s", s.file, line, s.kind, s.id, fmt.Sprintf(format, args...))
}

// known says which property is none of these, and which of single ones is written twice.
func (s section) known(names ...string) error {
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		p := s.values[name]
		if !slices.Contains(names, name) {
			return s.wrong(name, "the property %q is unknown, and so what an edge has to do for it: this import knows %s; import a copy of the directory without the line if an edge need not know it", name, knows)
		}
		if len(p.more) > 0 && name != "dhcp-range" && name != "secondary-controllers" {
			return s.wrong(name, "%s is there twice", name)
		}
	}
	return nil
}
