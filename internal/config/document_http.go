package config

type httpServer struct {
	Listeners []httpListener `json:"listeners" jsonschema:"minItems=1" jsonschema_description:"addresses of this host at which it answers, besides the unix socket; at most 16"`
	Clients   []httpClient   `json:"clients,omitempty" jsonschema_description:"who may ask, and what; at most 64"`
}

type httpListener struct {
	Name          objectName    `json:"name" jsonschema_description:"name of the listener in metrics and messages"`
	Address       socketAddress `json:"address" jsonschema_description:"address of this host with a port, as in 192.0.2.1:9469; 0.0.0.0 or [::] for all"`
	Serve         []httpService `json:"serve" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"what is served: health (/healthz and /readyz, which need no authentication), metrics (/metrics) and api (all that commands ask, and changes)"`
	TLS           *httpTLS      `json:"tls,omitempty" jsonschema_description:"speak HTTPS; api and authentication need it but on a loopback address"`
	Authenticated bool          `json:"authentication,omitempty" jsonschema:"default=true" jsonschema_description:"false serves metrics to everybody who reaches the address; api always needs it"`
}

type httpTLS struct {
	Certificate filePath `json:"certificateFile" jsonschema_description:"file with the certificate in PEM form, then those of intermediate authorities; it is read again when it changes"`
	Key         filePath `json:"keyFile" jsonschema_description:"file with the private key of the certificate in PEM form"`
	ClientCA    filePath `json:"clientCAFile,omitempty" jsonschema_description:"file with the authorities whose client certificates are accepted, in PEM form"`
}

type httpClient struct {
	Name        objectName         `json:"name" jsonschema_description:"name of the client in the audit log"`
	Role        string             `json:"role" jsonschema:"enum=read,enum=operate,enum=admin" jsonschema_description:"what it may do: read asks, operate also drains, resets sessions and probes, admin also changes the configuration"`
	TokenFile   filePath           `json:"tokenFile,omitempty" jsonschema:"oneof_required=tokenFile" jsonschema_description:"file with the bearer tokens of the client, one a line; it is read again when it changes"`
	Certificate *clientCertificate `json:"certificate,omitempty" jsonschema:"oneof_required=certificate" jsonschema_description:"names in the certificate of the client; all that are given must be there"`
}

type clientCertificate struct {
	CommonName string `json:"commonName,omitempty" jsonschema_description:"common name of its subject"`
	DNSName    string `json:"dnsName,omitempty" jsonschema_description:"one of its DNS names"`
	URI        string `json:"uri,omitempty" jsonschema_description:"one of its URIs, as in spiffe://example.org/prometheus"`
}
