package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/invopop/jsonschema"
)

// socketAddress is an address of this host with a port.
type socketAddress struct{ netip.AddrPort }

func (s *socketAddress) parse(text string) *problem {
	const hint = "write it like 192.0.2.1:9469 or [2001:db8::1]:9469"
	at, err := netip.ParseAddrPort(text)
	switch {
	case err != nil:
		return &problem{fmt.Sprintf("%q is not an address with a port", text), hint}
	case at.Port() == 0:
		return &problem{fmt.Sprintf("%s has port 0, which is not valid", text), hint}
	case at.Addr().Zone() != "" || at.Addr().Is4In6() || at.Addr().IsMulticast():
		return &problem{fmt.Sprintf("%s is not an address to listen at", at.Addr()), hint}
	}
	s.AddrPort = at
	return nil
}

// JSONSchema is called by the reflector.
func (socketAddress) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^[0-9.]+:[0-9]+$|^\[[0-9A-Fa-f.:]+\]:[0-9]+$`}
}

// filePath is the path of a file that is read when it is needed.
type filePath string

func (f *filePath) parse(text string) *problem {
	if text == "" || strings.ContainsRune(text, 0) || filepath.Clean(text) == "." {
		return &problem{"the path is empty", "give the path of a file"}
	}
	*f = filePath(text)
	return nil
}

// JSONSchema is called by the reflector.
func (filePath) JSONSchema() *jsonschema.Schema {
	one := uint64(1)
	return &jsonschema.Schema{Type: "string", MinLength: &one}
}
