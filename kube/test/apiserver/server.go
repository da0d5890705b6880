package apiserver

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/internal/await"
)

// adminToken is the token of an administrator, on loopback while the tests run.
const adminToken = "administrator"

// startMost is how long a server may take to answer, on a busy machine.
const startMost = 2 * time.Minute

// Server is an etcd and an API server on loopback.
type Server struct {
	dir       string
	etcd, api *process
	etcdPort  int
	port      int
	others    []*process
	tokens    bool // pods get those of their service accounts
	// Plugins is a folder of plugins of kubectl; none without.
	Plugins string
}

// Start runs both and waits until the API server is ready.
func Start(ctx context.Context) (*Server, error) {
	dir, err := os.MkdirTemp("", "selvage-apiserver-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	ports, err := FreePorts(3)
	if err != nil {
		return err
	}
	s.etcdPort, s.port = ports[0], ports[1]
	if err := s.keys(); err != nil {
		return err
	}
	clients, peers := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[2])
	s.etcd, err = s.run(ctx, "etcd", "--data-dir", filepath.Join(s.dir, "data"), "--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers, "--unsafe-no-fsync")
	if err != nil {
		return err
	}
	return s.StartAPI(ctx)
}

// StartAPI runs the API server, at its former port.
func (s *Server) StartAPI(ctx context.Context) (err error) {
	file := func(name string) string { return filepath.Join(s.dir, name) }
	s.api, err = s.run(ctx, "kube-apiserver", "--etcd-servers", fmt.Sprintf("http://127.0.0.1:%d", s.etcdPort), "--bind-address", "127.0.0.1",
		"--advertise-address", "127.0.0.1", "--secure-port", fmt.Sprint(s.port), "--cert-dir", file("certificates"),
		"--service-account-key-file", file("key.pem"), "--service-account-signing-key-file", file("key.pem"), "--service-account-issuer", "https://kubernetes.default.svc",
		"--service-cluster-ip-range", "10.96.0.0/16", "--authorization-mode", "RBAC", "--token-auth-file", file("tokens"), s.admission(), "ServiceAccount",
		"--audit-log-path", file("audit.log"), "--audit-policy-file", file("audit.yaml"), "--audit-log-mode", "blocking")
	if err != nil {
		return err
	}
	cs, err := kubernetes.NewForConfig(s.Admin())
	if err != nil {
		return err
	}
	return await.Within(ctx, startMost, "the API server is ready", func() error {
		select {
		case <-s.api.ended:
			return s.said("kube-apiserver")
		default:
		}
		_, err := cs.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
}

// StopAPI ends the API server; etcd goes on.
func (s *Server) StopAPI() { stop(s.api) }

// Close ends all and removes what they kept.
func (s *Server) Close() error {
	for _, p := range s.others {
		stop(p)
	}
	stop(s.api)
	stop(s.etcd)
	return os.RemoveAll(s.dir)
}

// process is a program that runs.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func stop(p *process) {
	if p != nil {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
	}
}

// run starts a program that ends with the test, whatever becomes of that; what it says is in a file. The kernel ends it with the thread
// that started it, which therefore waits for it.
func (s *Server) run(ctx context.Context, name string, argv ...string) (*process, error) {
	program, err := Program(ctx, name)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(program, argv...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: nobody else's work ends the thread
		started <- cmd.Start()
		if cmd.Process != nil {
			_ = cmd.Wait() // how it ended is in its file
		}
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

func (s *Server) said(name string) error {
	text, err := os.ReadFile(filepath.Join(s.dir, name+".log"))
	return errors.Join(fmt.Errorf("%s ended: %s", name, text[max(0, len(text)-2000):]), err)
}

// auditPolicy has the server write down who asked for what.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

// keys writes what the server signs tokens with, the administrator's token, and what is written down.
func (s *Server) keys() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return errors.Join(os.WriteFile(filepath.Join(s.dir, "key.pem"), text, 0o600), os.WriteFile(filepath.Join(s.dir, "audit.yaml"), []byte(auditPolicy), 0o600),
		os.WriteFile(filepath.Join(s.dir, "tokens"), []byte(adminToken+",admin,admin,system:masters\n"), 0o600))
}

// Admin is how an administrator reaches the server.
func (s *Server) Admin() *rest.Config { return s.by(adminToken) }

func (s *Server) by(token string) *rest.Config {
	return &rest.Config{
		Host: fmt.Sprintf("https://127.0.0.1:%d", s.port), BearerToken: token, QPS: 1000, Burst: 1000,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}, // its certificate is its own
	}
}

// As is how a service account that there is reaches the server. With a pod its token names that pod and its node.
func (s *Server) As(ctx context.Context, namespace, name string, pod *corev1.Pod) (*rest.Config, error) {
	cs, err := kubernetes.NewForConfig(s.Admin())
	if err != nil {
		return nil, err
	}
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	token, err := cs.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return s.by(token.Status.Token), nil
}

// Request is one that the server had.
type Request struct {
	Verb, RequestURI string
	StageTimestamp   time.Time
	User             struct{ Username string }
	ObjectRef        struct{ Resource, Subresource, APIGroup string }
	ResponseStatus   struct{ Code int }
}

// Requests are all that the server has answered until now, watches twice.
func (s *Server) Requests() (out []Request, err error) {
	text, err := os.ReadFile(filepath.Join(s.dir, "audit.log"))
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		var r Request
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// Writes are the requests of a namespace's service accounts since a time that were more than a look, and how many of each; those by which
// controllers hold their leases are none.
func (s *Server) Writes(namespace string, since time.Time) (map[string]int, error) {
	requests, err := s.Requests()
	count := map[string]int{}
	for _, r := range requests {
		reads := slices.Contains([]string{"get", "list", "watch"}, r.Verb)
		own := strings.HasPrefix(r.User.Username, "system:serviceaccount:"+namespace+":")
		if !reads && own && r.ObjectRef.Resource != "leases" && r.StageTimestamp.After(since) {
			count[r.Verb+" "+r.ObjectRef.Resource]++
		}
	}
	return count, err
}

// Kubeconfig is a file by which programs reach the server as an administrator.
func (s *Server) Kubeconfig() (string, error) {
	file := filepath.Join(s.dir, "kubeconfig")
	return file, WriteKubeconfig(file, s.Admin())
}

// WriteKubeconfig makes a file by which programs reach a server as somebody.
func WriteKubeconfig(file string, by *rest.Config) error {
	const name = "cluster"
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: by.Host, InsecureSkipTLSVerify: true}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: by.BearerToken}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	return clientcmd.WriteToFile(*c, file)
}

// Run runs kubectl or helm as an administrator, and is what it says on standard output and error.
func (s *Server) Run(ctx context.Context, name string, argv ...string) (string, error) {
	program, err := Program(ctx, name)
	if err != nil {
		return "", err
	}
	config, err := s.Kubeconfig()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, program, argv...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+config, "HOME="+s.dir) // and no file of the user's
	if s.Plugins != "" {
		cmd.Env = append(cmd.Env, "PATH="+s.Plugins+":"+os.Getenv("PATH"))
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(argv, " "), err, out)
	}
	return string(out), err
}

// Apply has the server take the objects of YAML files, as kubectl apply --server-side does.
func (s *Server) Apply(ctx context.Context, files ...string) error {
	c, err := client.New(s.Admin(), client.Options{})
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, part := range strings.Split("\n"+string(text), "\n---") {
			if strings.TrimSpace(part) == "" {
				continue
			}
			o := &unstructured.Unstructured{}
			if _, _, err := yaml.NewDecodingSerializer(unstructured.UnstructuredJSONScheme).Decode([]byte(part), nil, o); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("test"), client.ForceOwnership); err != nil {
				return fmt.Errorf("%s: %s %s: %w", file, o.GetKind(), o.GetName(), err)
			}
			if err := served(ctx, c, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// served waits until the server knows the kind of a CustomResourceDefinition that it has taken, and tells clients of it.
func served(ctx context.Context, c client.Client, crd *unstructured.Unstructured) error {
	if crd.GetKind() != "CustomResourceDefinition" {
		return nil
	}
	field := func(path ...string) string { s, _, _ := unstructured.NestedString(crd.Object, path...); return s }
	kind := schema.GroupKind{Group: field("spec", "group"), Kind: field("spec", "names", "kind")}
	return await.Within(ctx, startMost, "the API server serves "+kind.String(), func() error {
		_, err := c.RESTMapper().RESTMapping(kind)
		return err
	})
}

// FreePorts are ports of loopback that nobody has now.
func FreePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
