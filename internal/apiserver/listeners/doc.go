// Package listeners serves an edge over TCP: metrics and health in the clear, and the API by mutual TLS.
//
// Its one invariant: nothing but metrics and health is served to a client without a certificate that the configured
// authority signed. Do not use it for the unix socket: that is apiserver's own.
package listeners
