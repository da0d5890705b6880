package scale

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// size is how large a cluster is. A namespace has two policies, and ten apps with as many pods each.
type size struct {
	nodes, namespaces, pods, gateways, clusterPolicies int
}

// Of the apps of a namespace the first is one policy's, the next four are another's, and the sixth may be a policy's of the cluster.
const (
	apps       = 10
	gatewayNs  = 2 // nodes of a gateway
	clusterApp = 5
	pending    = 9 // an app of no policy
)

// app is a label.
func app(number int) string { return fmt.Sprintf("app-%d", number) }

func name(what string, number int) string { return fmt.Sprintf("%s-%04d", what, number) }

// address is one of a pod or node.
func address(node, number int) []netip.Addr {
	return []netip.Addr{
		netip.AddrFrom4([4]byte{10, byte(64 + node>>8), byte(node), byte(number)}),
		netip.MustParseAddr(fmt.Sprintf("fd00:10:%x::%x", node, number)),
	}
}

// cluster are networks of pods and nodes.
var clusterNetworks = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00:10::/32")}

// node is as large an object as a kubelet's.
func node(number int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name("node", number), Labels: map[string]string{
		"kubernetes.io/hostname": name("node", number), "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "m5.4xlarge",
		"topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", number%3),
	}}}
	own := address(number, 0)
	n.Spec.PodCIDR = netip.PrefixFrom(own[0], 24).String()
	n.Spec.PodCIDRs = []string{n.Spec.PodCIDR, netip.PrefixFrom(own[1], 64).String()}
	now := metav1.Now()
	for _, c := range []corev1.NodeConditionType{corev1.NodeReady, "MemoryPressure", "DiskPressure", "PIDPressure"} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: c, Status: map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionFalse}[c == corev1.NodeReady],
			LastHeartbeatTime: now, LastTransitionTime: now, Reason: "KubeletHasNo" + string(c), Message: "the kubelet tells of " + string(c),
		})
	}
	n.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: netip.AddrFrom4([4]byte{10, 32, byte(number >> 8), byte(number)}).String()}, {Type: corev1.NodeHostName, Address: n.Name},
	}
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110")}
	n.Status.Allocatable = n.Status.Capacity
	for i := range 50 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{SizeBytes: 1e8, Names: []string{
			fmt.Sprintf("registry.example.org/team/image-%d@sha256:%064x", i, i), fmt.Sprintf("registry.example.org/team/image-%d:v1.2.3", i),
		}})
	}
	return n
}

// pod is as large an object as a Deployment's, with what kubelets say of it.
func (w *world) pod(within, number, on int) *corev1.Pod {
	set := app(number % apps)
	owner, yes, mode := set+"-5d8f7c9b6d", true, int32(0o644)
	w.made++
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name("ns", within), Name: fmt.Sprintf("%s-%05x", owner, w.made),
			Labels:          map[string]string{"app": set, "app.kubernetes.io/name": set, "app.kubernetes.io/part-of": "shop", "pod-template-hash": "5d8f7c9b6d"},
			Annotations:     map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "checksum/config": strings.Repeat("0123456789abcdef", 4)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID("11111111-2222-3333-4444-555555555555"), Controller: &yes, BlockOwnerDeletion: &yes}},
		},
		Spec: corev1.PodSpec{
			NodeName: name("node", on), ServiceAccountName: set, RestartPolicy: corev1.RestartPolicyAlways,
			Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
			Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}}},
			}}}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable},
	}
	now := metav1.Now()
	for _, c := range []string{"main", "proxy"} {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: c, Image: "registry.example.org/team/" + c + ":v1.2.3", Env: []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "info"}, {Name: "DATABASE", Value: "postgres://db.example.org/shop"}},
			Ports:          []corev1.ContainerPort{{Name: c, ContainerPort: 8080}},
			Resources:      corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/ready"}}}},
			VolumeMounts:   []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
		})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c, Ready: true, Started: &yes, Image: "registry.example.org/team/" + c + ":v1.2.3", ImageID: fmt.Sprintf("registry.example.org/team/%s@sha256:%064x", c, 1),
			ContainerID: fmt.Sprintf("containerd://%064x", w.made), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	for _, c := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	w.last[on]++
	for _, a := range address(on, w.last[on]) {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a.String()})
	}
	p.Status.PodIP = p.Status.PodIPs[0].IP
	return p
}

// gateway is one with nodes and addresses of its own.
func (w *world) gateway(number int) *v1alpha1.EgressGateway {
	return &v1alpha1.EgressGateway{ObjectMeta: metav1.ObjectMeta{Name: name("gw", number)}, Spec: v1alpha1.EgressGatewaySpec{
		Nodes:     metav1.LabelSelector{MatchLabels: map[string]string{"example.org/egress": name("gw", number)}},
		Addresses: []v1alpha1.AddressRange{v1alpha1.AddressRange(fmt.Sprintf("198.51.%d.0/24", number))},
		Uplink:    v1alpha1.Uplink{Interface: "eth1", NextHops: []string{fmt.Sprintf("198.51.%d.254", number)}},
	}}
}

// policies are those of a namespace.
func (w *world) policies(within int) (list []client.Object) {
	for i, of := range [][]string{{app(0)}, {app(1), app(2), app(3), app(4)}} {
		list = append(list, &v1alpha1.EgressPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: name("ns", within), Name: name("policy", i)}, Spec: v1alpha1.EgressPolicySpec{
			Gateway: name("gw", (2*within+i)%w.gateways), Pods: selects(of...),
		}})
	}
	return list
}

func selects(of ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: of}}}
}

// clusterPolicy is one of several namespaces.
func (w *world) clusterPolicy(number int) *v1alpha1.ClusterEgressPolicy {
	return &v1alpha1.ClusterEgressPolicy{ObjectMeta: metav1.ObjectMeta{Name: name("policy", number)}, Spec: v1alpha1.ClusterEgressPolicySpec{
		Namespaces:       &metav1.LabelSelector{MatchLabels: map[string]string{"team": name("team", number)}},
		EgressPolicySpec: v1alpha1.EgressPolicySpec{Gateway: name("gw", number%w.gateways), Pods: selects(app(clusterApp))},
	}}
}

// world is a cluster as its API server has it, and the pods once more.
type world struct {
	size
	t    *testing.T
	c    client.WithWatch
	made int   // pods until now
	last []int // number of the last pod of each node

	mu   sync.Mutex
	pods map[string]map[string]corev1.Pod // by node and name
}

// fill makes all objects.
func (w *world) fill() {
	w.last, w.pods = make([]int, w.nodes), map[string]map[string]corev1.Pod{}
	w.each(w.namespaces, func(ctx context.Context, i int) error {
		return w.c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name("ns", i), Labels: map[string]string{"team": name("team", i*w.clusterPolicies/w.namespaces)}}})
	})
	w.each(w.nodes, func(ctx context.Context, i int) error {
		n := node(i)
		if i < gatewayNs*w.gateways {
			n.Labels["example.org/egress"] = name("gw", i/gatewayNs)
		}
		status := n.Status
		if err := w.c.Create(ctx, n); err != nil {
			return err
		}
		n.Status = status
		return w.c.Status().Update(ctx, n)
	})
	w.start(w.size.pods, func(i int) *corev1.Pod { return w.pod(i%w.namespaces, i/w.namespaces, i%w.nodes) })
	w.each(w.gateways, func(ctx context.Context, i int) error { return w.c.Create(ctx, w.gateway(i)) })
	w.each(w.clusterPolicies, func(ctx context.Context, i int) error { return w.c.Create(ctx, w.clusterPolicy(i)) })
	w.each(w.namespaces, func(ctx context.Context, i int) error {
		for _, p := range w.policies(i) {
			if err := w.c.Create(ctx, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// start makes pods.
func (w *world) start(count int, pod func(int) *corev1.Pod) {
	list := make([]*corev1.Pod, count)
	for i := range list {
		list[i] = pod(i)
	}
	w.each(count, func(ctx context.Context, i int) error {
		p := list[i]
		status := p.Status
		if err := w.c.Create(ctx, p); err != nil {
			return err
		}
		p.Status = status
		if err := w.c.Status().Update(ctx, p); err != nil {
			return err
		}
		w.keep(p)
		return nil
	})
}

// keep notes what of a pod agents look at.
func (w *world) keep(p *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.pods[p.Spec.NodeName]
	if of == nil {
		of = map[string]corev1.Pod{}
		w.pods[p.Spec.NodeName] = of
	}
	of[p.Namespace+"/"+p.Name] = corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels}, Spec: corev1.PodSpec{NodeName: p.Spec.NodeName, ServiceAccountName: p.Spec.ServiceAccountName},
		Status: corev1.PodStatus{Phase: p.Status.Phase, PodIPs: p.Status.PodIPs},
	}
}

// replace has every tenth pod end and another one start, as an update of Deployments does.
func (w *world) replace() {
	var old []corev1.Pod
	for _, node := range slices.Sorted(maps.Keys(w.pods)) {
		for i, key := range slices.Sorted(maps.Keys(w.pods[node])) {
			if i%10 == 0 {
				old = append(old, w.pods[node][key])
				delete(w.pods[node], key)
			}
		}
	}
	zero := int64(0)
	w.each(len(old), func(ctx context.Context, i int) error {
		return w.c.Delete(ctx, &old[i], &client.DeleteOptions{GracePeriodSeconds: &zero})
	})
	w.start(len(old), func(i int) *corev1.Pod {
		var within, number, on int
		if _, err := fmt.Sscanf(old[i].Namespace+" "+old[i].Labels["app"]+" "+old[i].Spec.NodeName, "ns-%d app-%d node-%d", &within, &number, &on); err != nil {
			w.t.Fatal(err)
		}
		return w.pod(within, number, on)
	})
}

// each does something so many times, with many clients at a time.
func (w *world) each(count int, do func(ctx context.Context, i int) error) {
	w.t.Helper()
	const side = 32
	var wait sync.WaitGroup
	next := make(chan int)
	for range side {
		wait.Go(func() {
			for i := range next {
				if err := do(w.t.Context(), i); err != nil {
					w.t.Error(err)
				}
			}
		})
	}
	for i := range count {
		if w.t.Failed() {
			break
		}
		next <- i
	}
	close(next)
	wait.Wait()
	if w.t.Failed() {
		w.t.FailNow()
	}
}
