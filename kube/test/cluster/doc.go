// Package cluster names the programs of Kubernetes that tests run, as tools of a module of its own: kube/test/apiserver builds
// them. Nothing else may depend on it.
package cluster
