package overlay

import "net/netip"

// HTTP is what an edge serves besides its unix socket: to whom, and at which addresses.
type HTTP struct {
	Listeners []HTTPListener
	Clients   []HTTPClient
}

// HTTPListener is one address.
type HTTPListener struct {
	Name  string
	Addr  netip.AddrPort
	Serve []HTTPService
	// TLS is nil where the listener speaks HTTP in the clear.
	TLS *ServerTLS
	// Authenticated: what is served but health is for Clients alone.
	Authenticated bool
}

// HTTPService is what a listener serves.
type HTTPService string

// The values of HTTPService.
const (
	ServeHealth  HTTPService = "health"
	ServeMetrics HTTPService = "metrics"
	ServeAPI     HTTPService = "api"
)

// ServerTLS are files of a listener, by their paths. They are read again when they change.
type ServerTLS struct {
	Certificate, Key string
	// ClientCA has the certificates that sign those of clients; "": clients have none.
	ClientCA string
}

// HTTPClient is who may ask: by a token, or by a certificate.
type HTTPClient struct {
	Name string
	Role Role
	// TokenFile has one or more tokens, one a line; "": by certificate.
	TokenFile   string
	Certificate *ClientCertificate
}

// ClientCertificate says whose certificate is meant. Of what is set all must be so.
type ClientCertificate struct {
	CommonName, DNSName, URI string
}

// Role is what somebody may do. Each may do what those before it may.
type Role string

// The values of Role.
const (
	RoleNone    Role = ""
	RoleRead    Role = "read"
	RoleOperate Role = "operate"
	RoleAdmin   Role = "admin"
)

// Allows reports whether who has r may do what needs needed.
func (r Role) Allows(needed Role) bool { return r.rank() >= needed.rank() }

func (r Role) rank() int {
	switch r {
	case RoleRead:
		return 1
	case RoleOperate:
		return 2
	case RoleAdmin:
		return 3
	}
	return 0
}
