package config

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
)

// maxIncludes bounds how many files a firewall is made of.
const maxIncludes = 64

// policySource is a part of the firewall's policy: of the edge's own file, or of one that
// it includes.
type policySource struct {
	file   *fileErrors
	prefix string // of paths in it
	*policy
}

// policies returns the parts of the policy, in their order, and reads those that are in
// files of their own.
func (d *decoder) policies(doc *document, f *files) []policySource {
	fw := doc.Spec.Firewall
	if fw == nil {
		return nil
	}
	list := []policySource{{d.file, "spec.firewall.", &fw.policy}}
	if len(fw.Include) > maxIncludes {
		const path = "spec.firewall.include"
		d.file.problem(path, fmt.Sprintf("%d files, at most %d", len(fw.Include), maxIncludes), "put more rules into one")
		return list
	}
	for i, name := range fw.Include {
		path := fmt.Sprintf("spec.firewall.include[%d]", i)
		switch {
		case name == "" && d.file.failed[path]:
		case f == nil:
			d.file.problem(path, "a file cannot be included here", "put its groups, services and sections into this one")
		default:
			if source, ok := d.include(path, name, f); ok {
				list = append(list, source)
			}
		}
	}
	return list
}

func (d *decoder) include(path, name string, f *files) (policySource, bool) {
	file, data, err := f.include(name)
	if err != nil {
		hint := "paths are relative to the directory of this file"
		switch {
		case errors.Is(err, errTooLarge):
			hint = "include less"
		case !errors.Is(err, fs.ErrNotExist):
			hint = "give the path of a file that can be read"
		}
		d.file.problem(path, oneLine(err.Error()), hint)
		return policySource{}, false
	}
	inner := newDecoder(file)
	p := policySource{inner.file, "", &policy{}}
	if root := inner.root(data, "examples/policy.json"); root != nil {
		inner.value(root, reflect.ValueOf(p.policy).Elem(), rule{})
	}
	return p, true
}

// complain reports about an item of a source.
func (s policySource) complain(at located, path, message, hint string) {
	s.file.report(s.place(at), s.prefix+path, message, hint)
}

// twice complains about the name of the item at path, which the first one has too.
func (s policySource) twice(name ownName, path, noun string, first Position) {
	s.complain(name.located, path+".name", fmt.Sprintf("%s %q already exists (%s)", noun, name.text, first), "names of "+noun+"s are unique")
}

func (s policySource) place(at located) Position {
	if s.file.live {
		return Position{File: s.file.name}
	}
	return Position{s.file.name, max(1, int(at.line)), max(1, int(at.column))}
}
