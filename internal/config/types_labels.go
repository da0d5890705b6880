package config

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/invopop/jsonschema"
)

// What Kubernetes takes for a label's name, less the optional domain before it, and for
// its value.
var (
	labelNamePattern  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_./-]{0,61}[A-Za-z0-9])?$`)
	labelValuePattern = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$`)
)

// labels are words about a port, each with a value.
type labels map[string]string

// decode reads a mapping whose names are the user's own.
func (l *labels) decode(d *decoder, n *node, r rule) {
	if n.kind != kindMapping {
		d.wrongType(n, "a mapping", r)
		return
	}
	*l = labels{}
	lines := map[string]int32{}
	for i := 0; i < len(n.items); i += 2 {
		key, value := &n.items[i], &n.items[i+1]
		if !d.isName(key) {
			continue
		}
		back := d.field(key.text)
		text, ok := value.string()
		switch first, twice := lines[key.text]; {
		case twice:
			d.wrong(key, fmt.Sprintf("appears twice, first in line %d", first), "keep one")
		case !labelNamePattern.MatchString(key.text):
			d.wrong(key, fmt.Sprintf("%q is not the name of a label", key.text), `use up to 63 letters, digits, "_", ".", "/" and "-", with a letter or digit at either end`)
		case !ok:
			d.wrongType(value, "a string", rule{about: "the label's value"})
		case !labelValuePattern.MatchString(text):
			d.wrong(value, fmt.Sprintf("%q is not the value of a label", text), `use up to 63 letters, digits, "_", "." and "-", with a letter or digit at either end`)
		default:
			(*l)[strings.Clone(key.text)] = strings.Clone(text)
		}
		lines[key.text] = key.line
		d.back(back)
	}
	if len(n.items) == 0 {
		d.wrong(n, "there are no labels", "give some, as in {tier: web}, or remove the line")
	}
}

// JSONSchema is called by the reflector.
func (labels) JSONSchema() *jsonschema.Schema {
	one := uint64(1)
	return &jsonschema.Schema{
		Type: "object", MinProperties: &one, PropertyNames: &jsonschema.Schema{Pattern: labelNamePattern.String()},
		AdditionalProperties: &jsonschema.Schema{Type: "string", Pattern: labelValuePattern.String()},
	}
}
