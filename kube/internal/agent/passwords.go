package agent

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/password"
	"github.com/selvage/selvage/kube/internal/plan"
)

// Passwords is the folder of passwords of the edge with a file, beside it.
func Passwords(file string) password.Folder { return password.Folder(file + ".passwords") }

// readPasswords has changes of Secrets be a reason to look.
func (a *agent) readPasswords(by *rest.Config, b *builder.Builder) (err error) {
	wake := make(chan event.GenericEvent, 1)
	b.WatchesRawSource(source.Channel(wake, handler.EnqueueRequestsFromMapFunc(a.request)))
	a.secrets, err = password.NewSecrets(by, a.Namespace, func() {
		select {
		case wake <- event.GenericEvent{Object: &corev1.Secret{}}:
		default: // one is under way
		}
	})
	return err
}

// passwords has those that the node's sessions need be in files. A password that cannot be used leaves the file of the last one.
func (a *agent) passwords(ctx context.Context, in *plan.Input) error {
	keys, err := plan.PasswordsOf(*in)
	if err != nil {
		return err
	}
	var names []string
	for _, k := range keys {
		names = append(names, k.Name)
	}
	a.secrets.Want(ctx, names)
	in.Passwords = map[v1alpha1.SecretKey]plan.Password{}
	for _, k := range keys {
		in.Passwords[k], err = a.password(k)
		if err != nil {
			return fmt.Errorf("password %s: %w", k, err)
		}
	}
	return nil
}

func (a *agent) password(k v1alpha1.SecretKey) (p plan.Password, err error) {
	if a.Namespace == "" {
		return plan.Password{Problem: fmt.Sprintf("Secret %s: the agent was given no --namespace", k.Name)}, nil
	}
	folder := Passwords(a.Node.File)
	text, problem := a.secrets.Value(k)
	if problem != "" {
		p.Problem = problem
		p.File, err = folder.Last(k)
		return p, err
	}
	p.File, err = folder.Put(k, text)
	return p, err
}

// errWithheld is why an edge does not get the file of a plan.
var errWithheld = errors.New("the edge keeps the configuration that it has")
