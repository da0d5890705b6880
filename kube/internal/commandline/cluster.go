package commandline

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is flags that say which cluster.
type Cluster struct {
	Kubeconfig string `placeholder:"FILE" help:"Way to the cluster. When left out, as kubectl finds it."`
	Context    string `placeholder:"NAME" help:"Context of that file."`
}

// Config finds the cluster as kubectl does: by the file, else KUBECONFIG, else ~/.kube/config, else as a pod of it. The namespace is
// that of the context.
func (c Cluster) Config() (by *rest.Config, namespace string, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	found := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.Context})
	if by, err = found.ClientConfig(); err == nil {
		namespace, _, err = found.Namespace()
	}
	if err != nil {
		return nil, "", UsageError{fmt.Errorf("way to the cluster: %w", err)}
	}
	return by, namespace, nil
}
