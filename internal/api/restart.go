package api

import "os"

// serviceEnv is what a kubelet gives each container. Where it is, nobody starts or removes an edge by hand.
const serviceEnv = "KUBERNETES_SERVICE_HOST"

const kubelet = "the kubelet starts its container, and `kubectl logs -c edge --previous` of its pod says why it ended"

// RestartOrRemove is what to do about an edge whose process is gone and whose data path may forward.
func RestartOrRemove(file, name string) string {
	return byHand("start it again with `selvage edge -c " + file + "`, or remove it with `selvage remove " + name + "`")
}

// byHand is an advice, or what is true in its place in a cluster.
func byHand(advice string) string {
	if os.Getenv(serviceEnv) != "" {
		return kubelet
	}
	return advice
}
