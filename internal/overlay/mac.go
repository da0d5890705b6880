package overlay

import (
	"fmt"
	"net"
)

// ParseMAC reads a 48-bit address in any notation that net.ParseMAC takes.
func ParseMAC(s string) (MAC, error) {
	hw, err := net.ParseMAC(s)
	if err != nil || len(hw) != 6 {
		return MAC{}, fmt.Errorf("%q is not a 48-bit MAC address like 02:00:00:00:00:01", s)
	}
	return MAC(hw), nil
}
