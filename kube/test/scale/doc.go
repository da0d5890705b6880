// Package scale has tests of the controller with as many nodes and pods as large clusters have. API server, etcd and the controller are
// real; nodes and pods are objects only, and what agents would report comes of the agents' own functions.
package scale
