package nat

import (
	"crypto/sha256"
	"encoding/json"

	"github.com/selvage/selvage/internal/overlay"
)

// Fingerprint is a hash of what all gateways of a group have to be configured with alike.
type Fingerprint = [16]byte

// Fingerprints are those of a group, as "group NAME", and of each of its policies, as "policy
// NAME": each edge finds the owner of an address by its own configuration. A change of what is
// hashed raises descriptionVersion of internal/replica.
func Fingerprints(g overlay.GatewayGroup, policies []overlay.EgressPolicy) map[string]Fingerprint {
	all := make(map[string]Fingerprint)
	var order []string // the first policy that matches decides
	for _, p := range policies {
		if p.Gateways != g.Name {
			continue
		}
		order = append(order, p.Name)
		all["policy "+p.Name] = fingerprint(
			p.Router, p.VNI, p.Tunnel.Encapsulation, p.Tunnel.UDPPort, p.From, p.To, p.Except, p.Pool, p.PerConnection, p.Independent, p.Open, p.Ports)
	}
	all["group "+g.Name] = fingerprint(g.Mode, g.Members, order)
	return all
}

// fingerprint hashes values.
func fingerprint(values ...any) (f Fingerprint) {
	hash := sha256.New()
	encoder := json.NewEncoder(hash)
	for _, v := range values {
		if err := encoder.Encode(v); err != nil {
			return Fingerprint{} // of no plain data
		}
	}
	copy(f[:], hash.Sum(nil))
	return f
}
