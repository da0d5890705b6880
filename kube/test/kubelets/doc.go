// Package kubelets has real kubelets and container runtimes run the chart, with packets: three nodes are namespaces, of which two are
// a gateway's. It is part of make test-long alone.
package kubelets
