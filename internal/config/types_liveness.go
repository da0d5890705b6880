package config

import (
	"fmt"
	"strconv"
	"time"

	"github.com/invopop/jsonschema"
)

// The least and most of an interval. A process that sends more often misses its
// turns on a busy machine.
const (
	minInterval = 10 * time.Millisecond
	maxInterval = 10 * time.Second
)

// interval is the time between two packets.
type interval time.Duration

func (*interval) integral() {}

func (i *interval) parse(text string) *problem {
	value, p := parseDuration(text, "ms", "50ms or 1s")
	switch {
	case p != nil:
		return p
	case value < minInterval || value > maxInterval:
		return &problem{fmt.Sprintf("%s is outside %s to %s", text, minInterval, maxInterval), "50ms is usual"}
	case value%time.Microsecond != 0:
		return &problem{fmt.Sprintf("%s is not a whole number of microseconds", text), "50ms is usual"}
	}
	*i = interval(value)
	return nil
}

// JSONSchema is called by the reflector.
func (interval) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(us|ms|s))+$`}
}

// auto leaves the choice to the edge.
const auto = "auto"

// hops is a number of links, 0 for auto.
type hops uint8

func (*hops) integral() {}

func (h *hops) parse(text string) *problem {
	if text == auto {
		*h = 0
		return nil
	}
	value, err := strconv.ParseUint(text, 10, 8)
	if err != nil || value == 0 || strconv.FormatUint(value, 10) != text {
		return &problem{fmt.Sprintf("%q is not a number of hops", text), "write 1 to 255, or auto"}
	}
	*h = hops(value)
	return nil
}

// JSONSchema is called by the reflector.
func (hops) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "integer", Minimum: "1", Maximum: "255"},
		{Type: "string", Enum: []any{auto}},
	}}
}
