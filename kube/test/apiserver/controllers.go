package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// StartCluster is Start with Kubernetes' controllers and its scheduler, for kubelets that run pods.
func StartCluster(ctx context.Context) (*Server, error) {
	dir, err := os.MkdirTemp("", "selvage-apiserver-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, tokens: true}
	err = s.start(ctx)
	if err == nil {
		err = s.startControllers(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// admission is the flag with what the server does about service accounts: without controllers there are none, and pods need none.
func (s *Server) admission() string {
	if s.tokens {
		return "--enable-admission-plugins"
	}
	return "--disable-admission-plugins"
}

func (s *Server) startControllers(ctx context.Context) error {
	config, err := s.Kubeconfig()
	if err != nil {
		return err
	}
	ports, err := FreePorts(2)
	if err != nil {
		return err
	}
	file := func(name string) string { return filepath.Join(s.dir, name) }
	shared := func(port int) []string {
		return []string{"--kubeconfig", config, "--leader-elect=false", "--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(port), "--cert-dir", file("certificates-of-controllers")}
	}
	for name, argv := range map[string][]string{
		"kube-controller-manager": append(shared(ports[0]), "--service-account-private-key-file", file("key.pem"), "--root-ca-file", file("certificates/apiserver.crt")),
		"kube-scheduler":          shared(ports[1]),
	} {
		p, err := s.run(ctx, name, argv...)
		if err != nil {
			return err
		}
		s.others = append(s.others, p)
	}
	return nil
}

// Address is where the server listens, on loopback.
func (s *Server) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }
