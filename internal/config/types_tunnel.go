package config

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/selvage/selvage/internal/overlay"
)

// inherit is how a field of the outer header is taken from the inner packet.
const inherit = "inherit"

// maxDSCP is the largest differentiated services code point (RFC 2474 section 3).
const maxDSCP = 63

type dscp int

func (*dscp) integral() {}

func (d *dscp) parse(text string) *problem {
	value, ok := orInherit(text, 0, maxDSCP)
	if !ok {
		return &problem{fmt.Sprintf("%q is not a DSCP", text), "write 0 to 63, or inherit to take that of the inner packet"}
	}
	*d = dscp(value)
	return nil
}

// JSONSchema is called by the reflector.
func (dscp) JSONSchema() *jsonschema.Schema { return inheritSchema("0", "63") }

type ttl int

func (*ttl) integral() {}

func (t *ttl) parse(text string) *problem {
	value, ok := orInherit(text, 1, 255)
	if !ok {
		return &problem{fmt.Sprintf("%q is not a TTL", text), "write 1 to 255, or inherit to take that of the inner packet"}
	}
	*t = ttl(value)
	return nil
}

// JSONSchema is called by the reflector.
func (ttl) JSONSchema() *jsonschema.Schema { return inheritSchema("1", "255") }

// orInherit reads a decimal number between least and most, or "inherit".
func orInherit(text string, least, most int) (int, bool) {
	if text == inherit {
		return overlay.Inherit, true
	}
	value, err := strconv.Atoi(text)
	return value, err == nil && value >= least && value <= most && strconv.Itoa(value) == text
}

func inheritSchema(least, most json.Number) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "integer", Minimum: least, Maximum: most},
		{Type: "string", Enum: []any{inherit}},
	}}
}

// The lengths and bits of a Geneve option (RFC 8926 section 3.5), in bytes.
const (
	optionHeader = 4
	optionWord   = 4
)

// options are Geneve options as they are on the wire.
type options []byte

func (o *options) parse(text string) *problem {
	const how = `write the bytes of the header in hex, as in "0104 8001 deadbeef"`
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return &problem{fmt.Sprintf("%q is not an even number of hex digits", text), how}
	}
	if len(b) > overlay.MaxOptions {
		return &problem{fmt.Sprintf("%d bytes of options, at most %d", len(b), overlay.MaxOptions), "send fewer: the header's length field ends there (RFC 8926 section 3.4)"}
	}
	if p := checkOptions(b); p != nil {
		return p
	}
	*o = b
	return nil
}

// checkOptions walks the options: class of 16 bits, type of 8, three reserved
// bits of zero, and the length of the data in words of 4 bytes in 5 bits.
func checkOptions(b []byte) *problem {
	const shape = "an option is class (2 bytes), type (1), length of the data in words of 4 bytes (1), data (RFC 8926 section 3.5)"
	for at := 0; at < len(b); {
		if len(b)-at < optionHeader {
			return &problem{fmt.Sprintf("at byte %d are %d bytes, where the header of an option has %d", at, len(b)-at, optionHeader), shape}
		}
		length := b[at+3]
		if length&0xe0 != 0 {
			return &problem{fmt.Sprintf("byte %d is 0x%02x: its upper three bits are reserved", at+3, length), "write the length in words of 4 bytes, 00 to 1f"}
		}
		size := optionHeader + optionWord*int(length)
		if len(b)-at < size {
			return &problem{fmt.Sprintf("byte %d begins an option of %d bytes, of which %d are there", at, size, len(b)-at), shape}
		}
		at += size
	}
	return nil
}

// JSONSchema is called by the reflector.
func (options) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^\s*([0-9A-Fa-f]\s*[0-9A-Fa-f]\s*)*$`}
}
