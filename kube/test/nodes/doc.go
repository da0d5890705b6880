// Package nodes tests egress from pods with real packets: nodes are namespaces with an edge each, pods are behind a bridge as
// the CNI's bridge plugin makes it, with the masquerade that it writes. There is no API server: what it would say is the tests'.
package nodes
