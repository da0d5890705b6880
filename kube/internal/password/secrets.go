package password

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// patience is how long a Secret that is new to a node is waited for.
const patience = 2 * time.Second

// Secrets are those of a namespace that are wanted. Each is watched by its name, as the rights of agents are.
type Secrets struct {
	namespace string
	from      typedcorev1.SecretInterface
	wake      func()

	mu   sync.Mutex
	list map[string]*secret
}

// secret is one that is watched. It is the store of a Reflector.
type secret struct {
	name, namespace string
	wake            func()
	stop            context.CancelFunc
	ended           chan struct{}

	mu       sync.Mutex
	answered chan struct{} // closed by the first answer
	known    bool          // there was a list
	data     map[string][]byte
	exists   bool
	failed   error // of the last request
}

// NewSecrets has none watched yet; wake is called when one has changed.
func NewSecrets(by *rest.Config, namespace string, wake func()) (*Secrets, error) {
	client, err := typedcorev1.NewForConfig(by)
	if err != nil {
		return nil, err
	}
	return &Secrets{namespace: namespace, from: client.Secrets(namespace), wake: wake, list: map[string]*secret{}}, nil
}

// Want has the Secrets with these names be watched until ctx ends, and no others. It waits a little for what the API server says of new ones.
func (s *Secrets) Want(ctx context.Context, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, one := range s.list {
		if !slices.Contains(names, name) {
			one.stop()
			<-one.ended
			delete(s.list, name)
		}
	}
	late := time.After(patience)
	for _, name := range names {
		if s.list[name] == nil {
			s.list[name] = s.watch(name)
		}
	}
	for _, name := range names {
		select {
		case <-s.list[name].answered:
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Close ends all watches.
func (s *Secrets) Close() { s.Want(context.Background(), nil) }

func (s *Secrets) watch(name string) *secret {
	ctx, cancel := context.WithCancel(context.Background())
	one := &secret{name: name, namespace: s.namespace, wake: s.wake, stop: cancel, ended: make(chan struct{}), answered: make(chan struct{})}
	own := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	from := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = own
			list, err := s.from.List(ctx, o)
			one.answer(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = own
			w, err := s.from.Watch(ctx, o)
			one.answer(err)
			return w, err
		},
	}
	r := toolscache.NewReflectorWithOptions(from, &corev1.Secret{}, one, toolscache.ReflectorOptions{Name: "secret " + name})
	go func() {
		defer close(one.ended)
		r.RunWithContext(ctx)
	}()
	return one
}

// answer is what became of a request.
func (s *secret) answer(err error) {
	s.mu.Lock()
	changed := (s.failed == nil) != (err == nil)
	s.failed = err
	s.firstly(err != nil)
	s.mu.Unlock()
	if changed {
		s.wake()
	}
}

// firstly notes an answer. A watch that has begun is none.
func (s *secret) firstly(is bool) {
	select {
	case <-s.answered:
	default:
		if is {
			close(s.answered)
		}
	}
}

func (s *secret) put(o any) error {
	s.mu.Lock()
	s.data, s.exists = nil, false
	if is, ok := o.(*corev1.Secret); ok {
		s.data, s.exists = is.Data, true
	}
	s.known = true
	s.firstly(true)
	s.mu.Unlock()
	s.wake()
	return nil
}

// Add implements toolscache.ReflectorStore.
func (s *secret) Add(o any) error { return s.put(o) }

// Update implements it.
func (s *secret) Update(o any) error { return s.put(o) }

// Delete implements it.
func (s *secret) Delete(any) error { return s.put(nil) }

// Replace implements it.
func (s *secret) Replace(list []any, _ string) error {
	if len(list) == 0 {
		return s.put(nil)
	}
	return s.put(list[0])
}

// Resync implements it.
func (s *secret) Resync() error { return nil }

// Value is a password, or what is the matter with it. An end of line after it does not count, as in a file for an edge.
func (s *Secrets) Value(key v1alpha1.SecretKey) (password []byte, problem string) {
	s.mu.Lock()
	one := s.list[key.Name]
	s.mu.Unlock()
	if one == nil {
		return nil, fmt.Sprintf("Secret %s/%s is not looked at", s.namespace, key.Name)
	}
	return one.value(key.Key)
}

func (s *secret) value(key string) (password []byte, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := fmt.Sprintf("Secret %s/%s", s.namespace, s.name)
	switch {
	case apierrors.IsForbidden(s.failed):
		return nil, at + ": the agent may not read it: name it in bgp.passwordSecrets of the chart's values"
	case !s.known && s.failed != nil:
		return nil, at + ": " + s.failed.Error()
	case !s.known:
		return nil, at + ": the API server has not answered yet"
	case !s.exists:
		return nil, at + ": there is none"
	}
	value, is := s.data[key]
	if !is {
		return nil, fmt.Sprintf("%s: it has no key %s", at, key)
	}
	password = bytes.TrimRight(value, "\r\n")
	if mistake, _ := overlay.CheckPassword(string(password)); mistake != "" {
		return nil, fmt.Sprintf("%s, key %s: %s", at, key, mistake)
	}
	return bytes.Clone(password), ""
}
