package result

import (
	"net/netip"
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/selvage/selvage/internal/doctor/facts"
)

// Preflight is what is known of the hosts that took part, read before the first sample: more than has to be equal, so that
// a figure that surprises can be explained later. A run in namespaces has one, this host.
type Preflight []facts.Host

// asText is the schema of what JSON has as text, which the reflector does not see by itself.
func asText(t reflect.Type) *jsonschema.Schema {
	if t == reflect.TypeFor[netip.Prefix]() {
		return &jsonschema.Schema{Type: "string", Description: "An address with its prefix length."}
	}
	return nil
}
