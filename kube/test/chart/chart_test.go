package chart

import (
	"errors"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/selvage/selvage/internal/program"
	"github.com/selvage/selvage/test/tier"
)

// Helm installs the chart with everything set, and says what comes next; with its defaults it is installed already.
func TestInstall(t *testing.T) {
	tier.Slow(t)
	digest := "sha256:" + strings.Repeat("0", 64)
	out, err := upgrade(t.Context(),
		`images={"edge":{"repository":"e","tag":"v1"},"kube":{"repository":"k","tag":"v2","digest":"`+digest+`"},"pullPolicy":"Never","pullSecrets":[{"name":"s"}]}`,
		`controller={"replicas":1,"priorityClassName":"system-node-critical","podAnnotations":{"a":"b"},"affinity":{"podAffinity":{}},"metrics":":8080","nodeSelector":{"a":"b"},"tolerations":[{"operator":"Exists"}]}`,
		`agent={"arguments":["--mtu=8950"],"tunnelIP":"IPv6","priorityClassName":"system-cluster-critical","podAnnotations":{"a":"b"},"affinity":{"podAffinity":{}},"healthPort":9479,"clusterNetworks":["10.0.0.0/8","fd00::/48"],"nodeSelector":{"a":"b"},"tolerations":[]}`,
		`node={"cniConfigurations":"/etc/cni","cniPlugins":"/usr/lib/cni"}`, `restrictAgents=false`)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "pod-security.kubernetes.io/enforce=privileged") {
		t.Errorf("it says %s", out)
	}
	if _, err := server.Run(t.Context(), "kubectl", "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=privileged"); err != nil {
		t.Error(err)
	}
	agents, err := server.Run(t.Context(), "kubectl", "-n", namespace, "get", "daemonset", release+"-agent", "-o", `jsonpath={.spec.template.spec.containers[1].args}`)
	if want := `["--file=/run/selvage-kube/edge.yaml","--key-file=/run/selvage-kube-key/key","--cni-plugins=/host/cni/bin","--cni-configurations=/host/cni/net.d","--sysctls=/host/proc/sys","--tunnel-ip=IPv6","--health=127.0.0.1:9479","--replication-port=14600","--mark=0x1000","--table=7789","--rule=90","--cluster-cidr=10.0.0.0/8","--cluster-cidr=fd00::/48","--mtu=8950"]`; err != nil || agents != want {
		t.Errorf("agents have %s %v", agents, err)
	}
	probe, err := server.Run(t.Context(), "kubectl", "-n", namespace, "get", "daemonset", release+"-agent", "-o", `jsonpath={.spec.template.spec.containers[1].readinessProbe.httpGet}`)
	if want := `{"host":"127.0.0.1","path":"/readyz","port":9479,"scheme":"HTTP"}`; err != nil || probe != want {
		t.Errorf("agents are asked %s %v", probe, err)
	}
	set, err := server.Run(t.Context(), "kubectl", "-n", namespace, "get", "daemonsets,deployments", "-o", `jsonpath={range .items[*].spec.template}{.metadata.annotations.a} {.spec.priorityClassName} {.spec.affinity} {.spec.containers[-1:].image}{"\n"}{end}`)
	if want := `b system-cluster-critical {"podAffinity":{}} k@` + digest + "\nb system-node-critical " + `{"podAffinity":{}} k@` + digest + "\n"; err != nil || set != want {
		t.Errorf("set is %s %v", set, err)
	}
	if _, err := upgrade(t.Context()); err != nil {
		t.Error(err)
	}
}

// Values that the chart does not know, or that are wrong, are refused before anything is installed.
func TestValues(t *testing.T) {
	tier.Slow(t)
	refused := map[string]string{
		`restrictAgents=null`:                            "missing property 'restrictAgents'",
		`agent={"healthPort":null}`:                      "at '/agent': missing property 'healthPort'",
		`agent={"clusterNetworks":["10.0.0.0/99"]}`:      "does not match pattern",
		`agent={"clusterNetworks":["fd00::/129"]}`:       "does not match pattern",
		`images={"kube":{"repository":"r/x@sha256:01"}}`: "does not match pattern",
		`controler={}`:                                   "additional properties 'controler' not allowed",
		`controller={"replicas":-1}`:                     "minimum: got -1, want 0",
		`controller={"metrics":"everywhere"}`:            "does not match pattern",
		`images={"pullPolicy":"Sometimes"}`:              "must be one of 'Always', 'IfNotPresent', 'Never'",
		`node={"cniPlugins":"opt/cni/bin"}`:              "does not match pattern",
		`agent={"clusterNetworks":["10.0.0.0"]}`:         "does not match pattern",
		`agent={"arguments":"--x"}`:                      "got string, want array",
		`agent={"healthPort":0}`:                         "minimum: got 0, want 1",
		`agent={"mark":"0x3000"}`:                        "does not match pattern",
		`agent={"link":["selvage0"]}`:                    "does not match pattern",
		`images={"kube":{"repository":""}}`:              "does not match pattern",
		`adopt={"egressgateway":"yes"}`:                  "got string, want boolean",
		`adopt={"vlans":[30]}`:                           "got number, want string",
		`adopt={"uplinkInterfaces":["a b"]}`:             "does not match pattern",
		`adopt={"whenNoGateway":"Never"}`:                "must be one of 'Drop', 'Node'",
	}
	text, err := os.ReadFile(folder + "/values.yaml")
	var all map[string]any
	if err := errors.Join(err, yaml.Unmarshal(text, &all)); err != nil {
		t.Fatal(err)
	}
	for name, value := range all {
		if _, group := value.(map[string]any); group {
			refused[name+"=null"] = "missing property '" + name + "'"
		}
	}
	for value, want := range refused {
		if _, err := server.Run(t.Context(), "helm", "template", folder, "--set-json", value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", value, err, want)
		}
	}
}

// Agents ask Cilium's where the API server has its kinds, or where they are told to.
func TestCilium(t *testing.T) {
	tier.Slow(t)
	for _, c := range []struct {
		argv []string
		asks bool
	}{
		{nil, false}, {[]string{"--api-versions", "cilium.io/v2"}, true}, {[]string{"--set", "node.cilium=true"}, true},
		{[]string{"--api-versions", "cilium.io/v2", "--set", "node.cilium=false"}, false},
	} {
		text, err := server.Run(t.Context(), "helm", append([]string{"template", release, folder}, c.argv...)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"--cilium=/host/cilium/cilium.sock", "mountPath: /host/cilium, readOnly: true", "hostPath: {path: /var/run/cilium"} {
			if strings.Contains(text, part) != c.asks {
				t.Errorf("%q: %s is there: %v", c.argv, part, !c.asks)
			}
		}
	}
}

// Who renders the chart without the cluster, for kubectl apply or Argo CD, gets what stays: neither the job that uninstalls nor a key that
// is another one each time. The job is rendered where somebody asks for it.
func TestTemplate(t *testing.T) {
	tier.Slow(t)
	const job, key = "selvage-kube, uninstall]", "kind: Secret\n"
	for _, c := range []struct {
		argv     []string
		job, key bool
	}{
		{[]string{"--set", "replicationSecret=mine"}, false, false}, {nil, false, true}, {[]string{"--dry-run=server"}, true, true},
	} {
		text, err := server.Run(t.Context(), "helm", append([]string{"template", release, folder, "--namespace", namespace}, c.argv...)...)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, job) != c.job || strings.Contains(text, key) != c.key || strings.Contains(text, "secretName: mine") == c.key {
			t.Errorf("%q: job %v, key %v", c.argv, !c.job, !c.key)
		}
	}
	out, err := server.Run(t.Context(), "helm", "template", release, folder, "--namespace", namespace, "--dry-run=server", "--show-only", "templates/uninstall.yaml")
	if err != nil || strings.Count(out, "kind: ") != 6 {
		t.Errorf("%s %v", out, err)
	}
}

// What agents take of a node are values of the chart, which the program knows as arguments.
func TestNumbers(t *testing.T) {
	tier.Slow(t)
	text, err := server.Run(t.Context(), "helm", "template", release, folder, "--set-json", `agent={"mark":"0x00100000","routingTable":5000,"rulePriority":60,"replicationPort":9000,"link":["192.0.0.8/30"]}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, argument := range []string{"--mark=0x00100000", "--table=5000", "--rule=60", "--replication-port=9000", "--link=192.0.0.8/30"} {
		if !strings.Contains(text, "- "+argument+"\n") {
			t.Errorf("%s is not there", argument)
		}
	}
}

// An upgrade keeps the key by which gateways replicate.
func TestKeyStays(t *testing.T) {
	tier.Slow(t)
	key := func() string {
		var s corev1.Secret
		if _, err := upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: release + "-replication"}, &s); err != nil {
			t.Fatal(err)
		}
		return string(s.Data["key"])
	}
	if first, second := key(), key(); first != second || len(first) != 32 {
		t.Errorf("the key has %d bytes, and %d", len(first), len(second))
	}
}

// The chart is that of the program.
func TestVersion(t *testing.T) {
	text, err := os.ReadFile(folder + "/Chart.yaml")
	var c struct{ Version, AppVersion string }
	if err := errors.Join(err, yaml.Unmarshal(text, &c)); err != nil {
		t.Fatal(err)
	}
	if number, _, _ := strings.Cut(program.Version(), "~"); c.Version != number || c.AppVersion != number {
		t.Errorf("chart %+v, program %s", c, number)
	}
}
