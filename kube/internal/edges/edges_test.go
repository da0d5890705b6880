package edges

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// agent is a pod of the chart on a node.
func agent(namespace, node string, args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent-" + node, Labels: labels},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{
			{Name: edgeContainer, Args: []string{"--cluster-cidr=192.0.2.0/24"}}, {Name: agentContainer, Args: args},
		}},
	}
}

func TestFind(t *testing.T) {
	ended, other := agent("selvage-system", "n2"), agent("shop", "n2")
	ended.Status.Phase = corev1.PodFailed
	other.Labels = map[string]string{"app.kubernetes.io/name": "selvage", "app.kubernetes.io/component": "controller"}
	for _, c := range []struct {
		name, namespace, node, pod, err string
		pods                            []client.Object
	}{
		{"one release", "", "n1", "selvage-system/agent-n1", "", []client.Object{agent("selvage-system", "n1"), agent("selvage-system", "n3"), other}},
		{"none", "", "n1", "", "node n1: no pod of Selvage's agent is there", nil},
		{"one that has ended", "", "n2", "", "node n2: no pod", []client.Object{agent("selvage-system", "n1"), ended, other}},
		{"two releases", "", "n1", "", "in namespaces a and b: name one by --selvage-namespace", []client.Object{agent("a", "n1"), agent("b", "n1")}},
		{"two releases, one named", "b", "n1", "b/agent-n1", "", []client.Object{agent("a", "n1"), agent("b", "n1")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := Find(t.Context(), &rest.Config{}, fake.NewClientBuilder().WithObjects(c.pods...).Build(), c.namespace)
			var pod *corev1.Pod
			if err == nil {
				pod, err = e.On(c.node)
			}
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %s", err, c.err)
				}
				return
			}
			if err != nil || pod.Namespace+"/"+pod.Name != c.pod {
				t.Errorf("%+v %v", pod, err)
			}
		})
	}
}

// Networks are those of the agent's flags, in each form that the flag has.
func TestNetworks(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "[] <nil>"},
		{[]string{"--file=x", "--cluster-cidr=10.0.0.0/8,fd00::/48", "--cluster-cidr", "192.0.2.1/24", "--mtu=1400"}, "[10.0.0.0/8 fd00::/48 192.0.2.0/24] <nil>"},
		{[]string{"--cluster-cidr=x"}, `[] --cluster-cidr of pod agent-n1: netip.ParsePrefix("x"): no '/'`},
	} {
		list, err := Edges{pods: []corev1.Pod{*agent("s", "n1", c.args...)}}.Networks()
		if got := fmt.Sprint(list, " ", err); got != c.want {
			t.Errorf("%v: %s, want %s", c.args, got, c.want)
		}
	}
}
