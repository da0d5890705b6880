package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// confidential marks the types of values that no output may have.
type confidential interface{ isConfidential() }

func (secret) isConfidential()         {}
func (replicationKey) isConfidential() {}

// confidentialFields are the names of fields with such values, by their types.
func confidentialFields() []string {
	names := map[string]bool{}
	seen := map[reflect.Type]bool{}
	var walk func(name string, t reflect.Type)
	walk = func(name string, t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Implements(reflect.TypeFor[confidential]()) {
			names[name] = true
			return
		}
		if t.Kind() != reflect.Struct || seen[t] {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			f, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			walk(f, t.Field(i).Type)
		}
	}
	walk("", reflect.TypeFor[document]())
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// mostSecretFiles of one configuration are read to know what is secret.
const mostSecretFiles = 1024

// Confidential are the values in a file of a configuration, right or wrong, that no output may have: those of fields with
// passwords and keys, and the lines of the files that it names for them. known is false where the text is no YAML, so that
// they are not all known.
func Confidential(path string, text []byte) (values []string, known bool) {
	d := newDecoder(path)
	root := d.root(text, "")
	if root == nil {
		return nil, false
	}
	fields := confidentialFields()
	files := 0
	root.each(func(name string, n *node) {
		value := n.text
		switch {
		case n.kind == kindList || n.kind == kindMapping || value == "":
		case slices.Contains(fields, name):
			values = append(values, value)
		case strings.HasSuffix(name, "File") && files < mostSecretFiles:
			files++
			values = append(values, secretLines(path, value)...)
		}
	})
	return values, true
}

// each calls do with all values of fields.
func (n *node) each(do func(name string, value *node)) {
	for i := range n.items {
		if n.kind == kindMapping && i%2 == 1 {
			do(n.items[i-1].text, &n.items[i])
		}
		n.items[i].each(do)
	}
}

// secretLines are the lines of a file, relative to that of the configuration or to systemd's credentials.
func secretLines(config, path string) (lines []string) {
	candidates := []string{path}
	if !filepath.IsAbs(path) {
		candidates = []string{filepath.Join(filepath.Dir(config), path), filepath.Join(os.Getenv(credentialsVariable), path)}
	}
	for _, name := range candidates {
		text, _, err := readFile(name, 16*maxSecretFile)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// Hide replaces the values of confidential fields in a text that need not be YAML: from the name of such a field on, all that
// is in its line, and the lines after it that are indented more.
func Hide(text string) string {
	field := regexp.MustCompile(`^(\s*(?:- *)?)(.*?["']?\b(?:` + strings.Join(confidentialFields(), "|") + `)["']?\s*:)(.*)$`)
	var out strings.Builder
	hidden := -1 // the indentation of the field whose value goes on
	for line := range strings.Lines(text) {
		body := strings.TrimRight(line, "\r\n")
		indent := len(body) - len(strings.TrimLeft(body, " \t-"))
		if hidden >= 0 && (strings.TrimSpace(body) == "" || indent > hidden) {
			continue
		}
		hidden = -1
		if m := field.FindStringSubmatch(body); m != nil {
			hidden = len(m[1])
			body = m[1] + m[2] + " (secret)"
		}
		out.WriteString(body + "\n")
	}
	return out.String()
}
