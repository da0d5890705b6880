// Package api is what an edge says of itself: the documents of its API, the questions that
// choose among their entries, and the client that asks over the edge's socket.
//
// Its one invariant: it knows neither the daemon nor the data path, so a tool that asks edges
// links neither BGP nor BPF. A document is plain data; what fills it is in apiserver.
//
// Do not use it to run an edge (edge), nor to print documents (observe).
package api
