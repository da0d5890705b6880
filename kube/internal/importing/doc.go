// Package importing writes what other projects know of egress addresses as Selvage's kinds: objects of EgressGateway
// (spidernet) and Cilium become EgressGateway, EgressPolicy and ClusterEgressPolicy.
//
// Its one invariant: every field of an object is in the result, or is in a note that says why it is not and what to do.
// A policy never selects more pods or destinations than the one that it was made of: a restriction that cannot be
// written leaves the whole policy out. What is written is accepted by the API server.
//
// Do not use it to follow objects of others as they change: it is a function of a set of objects, without state.
package importing
