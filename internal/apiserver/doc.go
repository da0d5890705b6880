// Package apiserver answers questions about an edge: it serves the documents and metrics of the API on
// a unix socket, and takes requests to change something.
//
// Its one invariant: each document is made of one State, while nothing of the edge changes, and
// the edge waits for no client. What is asked for is checked before the edge is looked at.
//
// Do not use it to define documents or to ask for them (package api), nor to decide anything: who
// changes an edge is behind interfaces.
package apiserver
