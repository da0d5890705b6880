// Package listeners serves the API of an edge over TCP: at which addresses, over TLS, and to which clients.
//
// Its one invariant: what is configured comes into force whole or not at all, and nobody is served who has not said who
// it is, but where the configuration lets everybody. What strangers can take is bounded: connections, time, bytes and
// attempts. No token is logged or shown.
//
// Do not use it for the unix socket (package apiserver), nor to decide what a role may do (its table of roles).
package listeners
