package config

import (
	"bytes"
	"fmt"
	"io/fs"

	"github.com/invopop/jsonschema"
)

const (
	// maxSecretFile bounds a file that holds one secret, in bytes.
	maxSecretFile = 4096
	// A key of fewer bytes can be guessed from what it authenticates.
	minKey, maxKey = 16, 1024
)

// replicationKey is a secret too.
type replicationKey string

func (k *replicationKey) parse(text string) *problem {
	switch {
	case text == "":
		return &problem{"the key is empty", "write a long random word, or remove the line"}
	case len(text) < minKey || len(text) > maxKey:
		return &problem{fmt.Sprintf("the key has %d bytes, not %d to %d", len(text), minKey, maxKey), "openssl rand -base64 32 makes one"}
	}
	*k = replicationKey(text)
	return nil
}

// JSONSchema is called by the reflector.
func (replicationKey) JSONSchema() *jsonschema.Schema {
	least, most := uint64(minKey), uint64(maxKey)
	return &jsonschema.Schema{Type: "string", MinLength: &least, MaxLength: &most}
}

// secretFile is the path of a file with a secret.
type secretFile string

func (f *secretFile) parse(text string) *problem {
	if text == "" {
		return &problem{"the path is empty", "give the path of a file that holds the secret alone"}
	}
	*f = secretFile(text)
	return nil
}

// JSONSchema is called by the reflector.
func (secretFile) JSONSchema() *jsonschema.Schema {
	one := uint64(1)
	return &jsonschema.Schema{Type: "string", MinLength: &one}
}

// secrets are read from their files into the document, which has either them or the files.
type secrets struct {
	file     *fileErrors
	files    *files
	inline   []string // paths of those that the file itself has
	warnings []string
}

func (d *decoder) secrets(doc *document, f *files) *secrets {
	s := &secrets{file: d.file, files: f}
	if b := doc.Spec.BGP; b != nil {
		for i := range b.Neighbours {
			n := &b.Neighbours[i]
			s.one(fmt.Sprintf("spec.bgp.neighbours[%d].password", i), n.PasswordFile, &n.Password)
		}
	}
	if e := doc.Spec.Egress; e != nil {
		for i := range e.Gateways {
			if r := e.Gateways[i].Replication; r != nil {
				s.one(fmt.Sprintf("spec.egress.gateways[%d].replication.key", i), r.KeyFile, &r.Key)
			}
		}
	}
	return s
}

// one reads the secret at path from file, where there is one.
func (s *secrets) one(path string, file secretFile, into scalar) {
	_, inline := s.file.seen[path]
	at := path + "File"
	if inline && !s.file.failed[path] {
		s.inline = append(s.inline, path)
	}
	switch {
	case file == "":
		return
	case inline:
		s.file.problem(at, "the secret is already in the configuration ("+path+")", "keep one of both")
		return
	case s.files == nil:
		s.file.problem(at, "a file cannot be read here", "write the secret itself")
		return
	}
	name, data, mode, err := s.files.secret(string(file))
	switch {
	case err != nil:
		s.file.problem(at, oneLine(err.Error()), "give the path of a file that can be read, relative to the directory of this file or to $"+credentialsVariable)
		return
	case len(data) > maxSecretFile:
		s.file.problem(at, fmt.Sprintf("%s has more than %d bytes", name, maxSecretFile), "give a file that holds the secret alone")
		return
	}
	if p := into.parse(string(bytes.TrimRight(data, "\r\n"))); p != nil {
		s.file.problem(at, name+": "+p.message, p.hint)
	}
	if isPublic(mode) {
		s.warnings = append(s.warnings, fmt.Sprintf("%s holds a secret, and other users may read it: chmod o-r %s", name, name))
	}
}

// warn is what to know of secrets of a file with a mode.
func (s *secrets) warn(mode fs.FileMode) []string {
	if len(s.inline) == 0 || !isPublic(mode) {
		return s.warnings
	}
	return append(s.warnings, fmt.Sprintf("%s holds a secret (%s), and other users may read it: chmod o-r %s, or put the secret into a file of its own",
		s.file.name, s.inline[0], s.file.name))
}

func isPublic(mode fs.FileMode) bool { return mode&0o004 != 0 }
