package config

type httpServer struct {
	Metrics *socketAddress `json:"metrics,omitempty" jsonschema_description:"address of this host with a port, as in 192.0.2.1:9469, at which everybody who reaches it reads /metrics, /healthz and /readyz; 0.0.0.0 or [::] for all"`
	API     *httpAPI       `json:"api,omitempty" jsonschema_description:"the API by mutual TLS: a client whose certificate the authority signed may do what root may by the unix socket"`
}

type httpAPI struct {
	Address     socketAddress `json:"address" jsonschema_description:"address of this host with a port, as in 192.0.2.1:9470; 0.0.0.0 or [::] for all"`
	Certificate filePath      `json:"certificateFile" jsonschema_description:"file with the certificate in PEM form, then those of intermediate authorities; it is read again when it changes"`
	Key         filePath      `json:"keyFile" jsonschema_description:"file with the private key of the certificate in PEM form"`
	ClientCA    filePath      `json:"clientCAFile" jsonschema_description:"file with the authorities whose client certificates are accepted, in PEM form"`
}
