// Package hold is what the CNI plugin and the agent of a node say to each other: a question over a socket, and files for the
// time in which the agent is away. A pod's addresses are on the node before the API server has them; this is how the agent
// gets to know them.
//
// Its one invariant: a file is whole or not there. It knows neither Kubernetes' client nor the kernel.
package hold

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/replace"
)

// Places of a node. Questions end with the agent; the files outlive a reboot, because pods start before the agent then.
const (
	Socket = "/run/selvage-kube/agent.sock"
	State  = "/var/lib/selvage-kube"
)

// Bounds.
const (
	// Patience is how long a pod waits for the agent in all.
	Patience = 2 * time.Second
	// Most is how many pods are held at a time.
	Most = 512
	// MostAddresses is how many a pod may have.
	MostAddresses = 16
	// MostBytes is how long a question, an answer or a pod's file may be.
	MostBytes = 16 << 10
	// mostSelects is how long the file of namespaces may be.
	mostSelects = 16 << 20
)

// Attachment is a pod whose interface a CNI plugin has just made.
type Attachment struct {
	ID        string       `json:"id"` // of the container, which CNI keeps free of what paths mean
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	UID       string       `json:"uid,omitempty"`
	Addresses []netip.Addr `json:"addresses"`
}

// Check is what is wrong with an attachment.
func (a Attachment) Check() error {
	switch {
	case checkID(a.ID) != nil:
		return checkID(a.ID)
	case a.Namespace == "" || a.Name == "" || len(a.Namespace) > 253 || len(a.Name) > 253:
		return fmt.Errorf("pod %.40q/%.40q is none of Kubernetes", a.Namespace, a.Name)
	case len(a.Addresses) == 0 || len(a.Addresses) > MostAddresses:
		return fmt.Errorf("pod %s/%s has %d addresses, not 1 to %d", a.Namespace, a.Name, len(a.Addresses), MostAddresses)
	}
	for _, address := range a.Addresses {
		if !address.IsGlobalUnicast() || address.Is4In6() || address.Zone() != "" {
			return fmt.Errorf("pod %s/%s: %s is no address of a pod", a.Namespace, a.Name, address)
		}
	}
	return nil
}

// checkID lets nothing be a file's name that leads elsewhere.
func checkID(id string) error {
	if id == "" || strings.ContainsAny(id, "/\x00") || id[0] == '.' || len(id) > 200 {
		return fmt.Errorf("id %.40q is none of a container", id)
	}
	return nil
}

// States of a pod in the tables of its node.
const (
	Unselected = "unselected" // no policy selects it
	Programmed = "programmed" // what its policies say is in force
	Failed     = "failed"
)

// Answer is the agent's.
type Answer struct {
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
}

// Verdicts of pods that a policy may select, while it is not known whether one does.
const (
	Free = ""     // none may
	Drop = "Drop" // their packets stay in the cluster
	Node = "Node" // they leave by their node: each policy says whenNoGateway: Node
)

// Selects is what the plugin knows of policies without an agent.
type Selects struct {
	// Namespaces are those that are known, with the verdict of their pods; Free may be left out if Others is Free.
	Namespaces map[string]string `json:"namespaces"`
	Others     string            `json:"others,omitempty"`
	// Rule, Table and Cluster are how the node holds packets; it cannot where they are 0.
	Rule    int            `json:"rule"`
	Table   int            `json:"table"`
	Cluster []netip.Prefix `json:"cluster"`
}

// Verdict of a namespace's pods.
func (s Selects) Verdict(namespace string) string {
	if f, known := s.Namespaces[namespace]; known {
		return f
	}
	return s.Others
}

// Files are the node's, in a folder.
type Files struct {
	Folder string
}

func (f Files) selects() string      { return filepath.Join(f.Folder, "selects.json") }
func (f Files) held() string         { return filepath.Join(f.Folder, "held") }
func (f Files) pod(id string) string { return filepath.Join(f.held(), id+".json") }

// Selects reads what the agent has written; fs.ErrNotExist where there is none.
func (f Files) Selects() (s Selects, err error) {
	text, err := read(f.selects(), mostSelects)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, fmt.Errorf("what policies select: %w", err)
	}
	return s, nil
}

// WriteSelects replaces it, where it says something new.
func (f Files) WriteSelects(s Selects) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if was, err := read(f.selects(), mostSelects); err == nil && string(was) == string(text) {
		return nil
	}
	return write(f.selects(), text)
}

// Installed reports whether there is a file of what policies select.
func (f Files) Installed() bool {
	_, err := os.Stat(f.selects())
	return !errors.Is(err, fs.ErrNotExist)
}

// Put notes a pod.
func (f Files) Put(a Attachment) error {
	if err := a.Check(); err != nil {
		return err
	}
	list, err := os.ReadDir(f.held())
	own := func(e os.DirEntry) bool { return e.Name() == filepath.Base(f.pod(a.ID)) }
	if err == nil && len(list) >= Most && !slices.ContainsFunc(list, own) {
		return fmt.Errorf("%d pods are held on this node already", len(list))
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return write(f.pod(a.ID), text)
}

// Get reads a pod's file; fs.ErrNotExist where there is none.
func (f Files) Get(id string) (a Attachment, since time.Time, err error) {
	if err := checkID(id); err != nil {
		return a, since, err
	}
	text, err := read(f.pod(id), MostBytes)
	if err != nil {
		return a, since, err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, since, fmt.Errorf("%s: %w", f.pod(id), err)
	}
	if a.ID != id {
		return a, since, fmt.Errorf("%s: it is of container %.40q", f.pod(id), a.ID)
	}
	i, err := os.Stat(f.pod(id))
	if err != nil {
		return a, since, err
	}
	return a, i.ModTime(), a.Check()
}

// List is the containers that have a file.
func (f Files) List() (ids []string, err error) {
	list, err := os.ReadDir(f.held())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range list {
		if id, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// Drop removes a pod's file, if there is one.
func (f Files) Drop(id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	if err := os.Remove(f.pod(id)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Remove leaves nothing: the plugin lets all pods pass from now on. Of the folder only what this package has made goes; the folder
// itself stays where somebody uses it, as a mount is.
func (f Files) Remove() error {
	if err := os.Remove(f.selects()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh, err := filepath.Glob(filepath.Join(f.Folder, freshName))
	errs := []error{err, os.RemoveAll(f.held())}
	for _, path := range fresh {
		errs = append(errs, os.Remove(path))
	}
	_ = os.Remove(f.Folder)
	return errors.Join(errs...)
}

// freshName is what files are called until they are whole.
const freshName = ".new-*"

func read(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s: it is longer than %d bytes", path, most)
	}
	return text, err
}

// write writes a file whole or not at all, also when the node loses power.
func write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return replace.Shared(path, freshName, text, 0o600) // the plugin and the agent may both write a pod's
}
