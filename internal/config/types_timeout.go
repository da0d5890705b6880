package config

import (
	"fmt"
	"time"

	"github.com/invopop/jsonschema"
)

// What a connection is forgotten after, at least: its data packets are accounted up to
// ten seconds late, and it must not seem idle meanwhile. One that was reset has none.
const (
	minTimeout      = 20 * time.Second
	minShortTimeout = 10 * time.Second
)

// timeout is a time without packets.
type timeout time.Duration

func (*timeout) integral() {}

func (t *timeout) parse(text string) (p *problem) {
	*t, p = parseTimeout(text, minTimeout)
	return p
}

// JSONSchema is called by the reflector.
func (timeout) JSONSchema() *jsonschema.Schema { return timeoutSchema() }

// shortTimeout is that of connections that were reset.
type shortTimeout timeout

func (*shortTimeout) integral() {}

func (t *shortTimeout) parse(text string) *problem {
	value, p := parseTimeout(text, minShortTimeout)
	*t = shortTimeout(value)
	return p
}

// JSONSchema is called by the reflector.
func (shortTimeout) JSONSchema() *jsonschema.Schema { return timeoutSchema() }

func parseTimeout(text string, least time.Duration) (timeout, *problem) {
	value, p := parseDuration(text, "s", "30s or 2h4m")
	switch {
	case p != nil:
		return 0, p
	case value < least || value > maxAgeing:
		return 0, &problem{fmt.Sprintf("%s is outside %s to 1000000s", text, least), "packets are accounted up to 10s late, so a shorter timeout would forget live connections"}
	}
	return timeout(value), nil
}

func timeoutSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`}
}
